/* SPDX-License-Identifier: BSD-3-Clause */
/* elf_file.h -- reads an ELF file through its program headers, as the dynamic linker does
 *
 * Files are untrusted, possibly truncated or malicious: the reader checks each offset and length
 * against the file size. No code of a file runs. Files may change meanwhile: the reader never maps
 * them.
 */
#ifndef PEERPIN_TOOLS_ELF_FILE_H
#define PEERPIN_TOOLS_ELF_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct elf_file {
	int class;		    /* 64 or 32 */
	int machine;		    /* EM_... */
	bool shared;		    /* ET_DYN: a library, or a position-independent program */
	char interpreter[PATH_MAX]; /* "": none, a library or a static program */
	char *needed;		    /* DT_NEEDED, one per line */
	char *rpath, *runpath;	    /* NULL: none */
	char *soname;		    /* NULL: none */
	char glibc[24];		    /* highest GLIBC_ version required: "2.34"; "": none */
};

/* Returns 0, ENOEXEC, or the errno of opening the file. ENOEXEC: no ELF file of this machine's byte
 * order, or headers outside the file. 32-bit files: the first 4 fields only. */
int elf_file_read(const char *path, struct elf_file *elf);
void elf_file_free(struct elf_file *elf);

/* Reads the first 4 fields only, and allocates nothing. After ENOEXEC, class 0 means no ELF file;
 * class without machine, an ELF file of the other byte order. */
int elf_file_read_headers(const char *path, struct elf_file *elf);

/* Returns bit i for words[i] found. Reads the first `limit` bytes, and at most 1 MiB more. Words
 * have at most 64 bytes. */
unsigned int elf_file_search(const char *path, const char *const *words, unsigned int count,
			     size_t limit);

/* "x86_64", "aarch64", "i386", or the number, in a buffer that the next call overwrites. */
const char *elf_machine_name(int machine);

#endif
