/* SPDX-License-Identifier: BSD-3-Clause */
/* identity.h -- which process of which job this is, as its launcher's environment tells, and files named after it
 *
 * Read once, when it is needed first: the program may change its environment afterwards. Any thread, no lock, nothing
 * allocated. What launchers say is believed as far as it is a number; of texts only what fits.
 *
 * A job is called what its launcher calls it, or the batch system, Slurm's step as JOB.STEP. Hydra outside of one has no name: then
 * it is what the command peerpin told the ranks in PEERPIN_JOB, or, where it has not started the launcher, HOST-PROCESS-START of
 * the one that started the ranks of this host.
 */
#ifndef PEERPIN_BASE_IDENTITY_H
#define PEERPIN_BASE_IDENTITY_H

#include <stddef.h>

int process_rank(void);		   /* of the job; -1: no launcher tells */
int process_local_rank(void);	   /* among those of this host; -1: unknown */
const char *process_job(void);	   /* see below; "": it has none */
const char *process_host(void);	   /* up to the first dot */
const char *process_program(void); /* base name of the executable */

/* Expands %h %p %r %j %e %q{VARIABLE} %% in `pattern` into `name`; any other conversion stands for itself. What is put in
 * for one never leads to another folder. Under MPI a pattern that has neither %r nor %p gets ".RANK" in front of its extension, so
 * that ranks do not overwrite each other; a device has none of its own. Returns 0 or -ENAMETOOLONG. */
int process_file_name(const char *pattern, char *name, size_t size);

/* The first conversion of the pattern that is none of these: from its percent sign on; NULL: there is none. Asks nobody who the
 * process is, so it may be called while settings are read. */
const char *identity_unknown_conversion(const char *pattern);

/* Where the extension of a file's name begins, with its dot: ".json"; what begins with a digit is none. The name's length: it has
 * none. */
size_t identity_extension(const char *name);

/* Puts the text in the place of `replaced` bytes of the name. Returns 0 or -ENAMETOOLONG, and the name is then as it was. */
int identity_insert(char *name, size_t size, size_t at, size_t replaced, const char *text);

/* The descriptor of the stream that the name stands for: standard output or error; -1: for none. */
int identity_stream(const char *name);

/* Copies `text` as a part of a file's name: without slashes and control characters, and neither "." nor "..". As much as
 * there is room for; returns the length of the whole. */
size_t identity_make_safe(const char *text, char *to, size_t size);

#endif
