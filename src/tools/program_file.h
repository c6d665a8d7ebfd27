/* SPDX-License-Identifier: BSD-3-Clause */
/* program_file.h -- finds the file that a program name runs, also behind launchers, and its
 * privileges
 *
 * The search follows the kernel, the shell and env, and runs nothing: PATH, then the #! line of a
 * script, then the argument of env.
 */
#ifndef PEERPIN_TOOLS_PROGRAM_FILE_H
#define PEERPIN_TOOLS_PROGRAM_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Linux's limit on nesting: scripts as interpreters of scripts. */
#define SCRIPTS_MAX 5

/* Searches PATH as a shell does. False: no runnable file; `path` is then `name`. */
bool program_find(const char *name, char path[PATH_MAX]);

/* Returns the first line of a script without "#!". False: not a script. */
bool script_line(const char *path, char *line, size_t size);

/* Finds the program that a script line names. False: not runnable; `path` is then the name in the
 * line. */
bool script_follow(const char *line, char path[PATH_MAX]);

/* "container", "mpi" or "job" if the program is known to start others, else NULL. In a container a
 * path names another file. */
const char *launcher_kind(const char *name);

/* 1: this argument of a launcher names the program that it starts, whose file is `path`. 0: the
 * next one may. -1: it starts a container. Most values of options name no runnable file. */
int launcher_argument(const char *word, char path[PATH_MAX]);

/* Causes of AT_SECURE, under which the loader ignores LD_PRELOAD. */
struct program_privileges {
	bool setuid, setgid, capability; /* all false on a nosuid file system */
	uid_t owner;
	gid_t group;
};

/* False: stat() failed. */
bool program_privileges(const char *path, struct program_privileges *privileges);

#endif
