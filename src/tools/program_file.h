/* SPDX-License-Identifier: BSD-3-Clause */
/* program_file.h -- which file runs when a program is started, and with which rights
 *
 * As the kernel and a shell find it, and without running anything: by PATH, by what a script names behind its #!, and by
 * what env is told to find there.
 */
#ifndef PEERPIN_TOOLS_PROGRAM_FILE_H
#define PEERPIN_TOOLS_PROGRAM_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Scripts whose interpreters are scripts: as far as Linux follows them. */
#define SCRIPTS_MAX 5

/* As a shell does, by PATH. False: it is none that may be run; the path is then the last that was looked at. */
bool program_find(const char *name, char path[PATH_MAX]);

/* The script's first line without "#!". False: it is no script. */
bool script_line(const char *path, char *line, size_t size);

/* Follows a line to the program that it names. False: there is none; the path is as program_find() leaves it. */
bool script_follow(const char *line, char path[PATH_MAX]);

/* What makes the loader ignore LD_PRELOAD (AT_SECURE). */
struct program_rights {
	bool setuid, setgid, capability; /* none of them on a file system that gives no rights */
	uid_t owner;
	gid_t group;
};

/* False: it is not there. */
bool program_rights(const char *path, struct program_rights *rights);

#endif
