/* SPDX-License-Identifier: BSD-3-Clause */
/* libraries.h -- resolves all libraries that a program links, from ELF files
 *
 * Nothing is executed. ldd runs the loader named in the file, and so may run an untrusted
 * program. Search order is the dynamic linker's: preloaded libraries by their DT_SONAME, RPATH,
 * LD_LIBRARY_PATH, RUNPATH, /etc/ld.so.cache, default folders. Libraries loaded only with dlopen
 * are missing.
 */
#ifndef PEERPIN_TOOLS_DOCTOR_LIBRARIES_H
#define PEERPIN_TOOLS_DOCTOR_LIBRARIES_H

#include "tools/elf_file.h"

struct library {
	char *name; /* DT_NEEDED name: "libmpi.so.40"; for the program: its path */
	char *path; /* NULL: not found */
	int from;   /* index of the first library that needs this one; -1: the program itself */
	struct elf_file elf;
};

struct libraries {
	struct library *list; /* the program, preloaded libraries, others in load order */
	int count;
};

/* Returns 0, or the error of elf_file_read for the program, or ENOMEM. */
int libraries_find(const char *program, struct libraries *libraries);
void libraries_free(struct libraries *libraries);

#endif
