/* SPDX-License-Identifier: BSD-3-Clause */
/* identity.h -- rank, job and host of this process from its launcher's environment; file names
 *
 * The environment is read once, at the first use: the program may change it afterwards. Any thread,
 * no lock, nothing allocated. A rank must be a decimal number; texts are truncated to their
 * buffers.
 *
 * The launcher or the batch system names the job; a Slurm step is JOB.STEP. Hydra outside of a
 * batch system names no job: PEERPIN_JOB applies, which the command peerpin sets for the ranks.
 * Without PEERPIN_JOB the name is HOST-PARENT, of the process that started the rank: ranks behind
 * a script of their own are jobs of their own.
 */
#ifndef PEERPIN_BASE_IDENTITY_H
#define PEERPIN_BASE_IDENTITY_H

#include <stddef.h>

int identity_rank(void);	 /* in the job; -1: no launcher variable */
int identity_local_rank(void);	 /* on this host; -1: unknown */
int identity_local_size(void);	 /* ranks of the job on this host; -1: unknown */
const char *identity_job(void);	 /* as above; "": none */
const char *identity_host(void); /* host name up to the first dot */

/* Expand %h %p %r %j %e %u %q{VARIABLE} %% in `pattern` into `name`; other conversions stay. Expanded
 * values contain no slash: they cannot change the folder. Under MPI a pattern without %r and %p
 * gets ".RANK" before its extension, so that ranks do not overwrite each other; devices get none.
 * Return 0 or -ENAMETOOLONG. */
int identity_file_name(const char *pattern, char *name, size_t size);

/* Return the first unknown conversion, from its percent sign on; NULL: none. Does not read rank or
 * job: callable while settings are read. */
const char *identity_unknown_conversion(const char *pattern);

/* Return the offset of the extension with its dot (".json"), or the length of the name without one.
 * An extension begins with a letter. */
size_t identity_extension(const char *name);

/* Replace `replaced` bytes of the name at `at` by the text. Return 0, or -ENAMETOOLONG with the
 * name unchanged. */
int identity_insert(char *name, size_t size, size_t at, size_t replaced, const char *text);

/* Return the descriptor for /dev/stdout or /dev/stderr; -1: any other name. */
int identity_stream(const char *name);

/* Copy `text` as one name of a path: '_' replaces slashes, control characters, invalid UTF-8, and
 * the dots of "." and "..". Truncate to `size`; return the untruncated length. */
size_t identity_make_safe(const char *text, char *to, size_t size);

#endif
