/* SPDX-License-Identifier: BSD-3-Clause */
/* libraries.h -- the libraries that a program is linked with, and those that these are linked with, found in their files
 *
 * Nothing is run. ldd would run the loader that the file names, and so the file itself where that says so; a program that
 * somebody asks about need not be trusted yet. The folders are searched in the dynamic linker's order: RPATH,
 * LD_LIBRARY_PATH, RUNPATH, /etc/ld.so.cache, its own ones. What is only opened by dlopen is not seen.
 */
#ifndef PEERPIN_TOOLS_DOCTOR_LIBRARIES_H
#define PEERPIN_TOOLS_DOCTOR_LIBRARIES_H

#include "tools/elf_file.h"

struct library {
	char *name; /* as it is asked for: "libmpi.so.40"; of the program itself: its path */
	char *path; /* NULL: not found */
	int from;   /* the one that asks for it first: its number; -1: nobody does */
	struct elf_file elf;
};

struct libraries {
	struct library *list; /* the program first, then as the dynamic linker would load them */
	int count;
};

/* 0, or what elf_file_read says of the program. */
int libraries_find(const char *program, struct libraries *libraries);
void libraries_free(struct libraries *libraries);

#endif
