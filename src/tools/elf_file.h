/* SPDX-License-Identifier: BSD-3-Clause */
/* elf_file.h -- what an ELF file says of itself, read from its program headers as the dynamic linker does
 *
 * The file may be anything, truncated or made to harm: every offset and length in it is compared with what is there, and
 * nothing of it is run. It may change meanwhile: it is read, not mapped.
 */
#ifndef PEERPIN_TOOLS_ELF_FILE_H
#define PEERPIN_TOOLS_ELF_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct elf_file {
	int class;		    /* 64 or 32 */
	int machine;		    /* EM_... */
	bool shared;		    /* ET_DYN: a library, or a program that may be loaded anywhere */
	char interpreter[PATH_MAX]; /* "": none, so it is a library or static */
	char *needed;		    /* DT_NEEDED, one a line */
	char *rpath, *runpath;	    /* NULL: none */
	char glibc[24];		    /* the highest GLIBC_ version that it asks for: "2.34"; "": none */
};

/* 0; ENOEXEC: it is no ELF file of this machine's byte order, or its headers are not in it; or an errno of opening or reading it.
 * Of a file of 32 bits only the first four fields are read. */
int elf_file_read(const char *path, struct elf_file *elf);
void elf_file_free(struct elf_file *elf);

/* The same for the first four fields, and nothing is to be freed. After ENOEXEC class and machine may be there all the same.
 * class 0: it is no ELF file; machine 0: it is one of another byte order. */
int elf_file_read_headers(const char *path, struct elf_file *elf);

/* Which of the words occur in a file's bytes, as bits; at most the file's first `limit` bytes are read. */
unsigned int elf_file_search(const char *path, const char *const *words, unsigned int count, size_t limit);

/* "x86_64", or its number. Until the next call. */
const char *elf_machine_name(int machine);

#endif
