/* SPDX-License-Identifier: BSD-3-Clause */
/* log_file.h -- the file of PEERPIN_LOG_FILE
 *
 * Opened when the first message is there, never before, as a new file of this process: one that exists is somebody's result,
 * and "-1", "-2", ... is appended to the name. Programs close descriptors that they do not know, and then open files of
 * their own at the same numbers: so before each line it is looked at whether the descriptor is still the file's, and if not, the
 * file is opened again. Between look and write only a program that closes descriptors while others of its threads use CUDA could
 * still come.
 */
#ifndef PEERPIN_BASE_LOG_FILE_H
#define PEERPIN_BASE_LOG_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Appends the line in one piece. False: there is no such file, or it takes nothing; *error then says why, 0: none was asked
 * for. errno may change. */
bool log_file_write(const char *line, size_t length, int *error);

#endif
