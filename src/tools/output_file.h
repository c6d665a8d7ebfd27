/* SPDX-License-Identifier: BSD-3-Clause */
/* output_file.h -- a file that a tool writes: a regular file, complete or not there
 *
 * Anything else of that name (link, device, FIFO, folder) is refused: a tool may run as root.
 * Errors are reported on standard error.
 */
#ifndef PEERPIN_TOOLS_OUTPUT_FILE_H
#define PEERPIN_TOOLS_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct output_file {
	const char *tool; /* "report" */
	const char *path;
	char *partial; /* name until the file is complete: a new file has its own at once */
	FILE *to;
};

/* Opens `to`; the caller sets `tool` and `path`. `replace`: an existing file of that name may go at
 * the end, else it is refused. False: nothing was opened. Sets errno to 0 for output_file_close().
 */
bool output_file_open(struct output_file *file, bool replace, mode_t mode);

/* Closes `to` and names the file. After a failed write, whose errno is still set, removes the file
 * and returns false. */
bool output_file_close(struct output_file *file);

#endif
