/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime.h -- the folder for files that live no longer than a job: $XDG_RUNTIME_DIR/peerpin, or /dev/shm/peerpin-UID
 *
 * Only a real folder of this user's, closed to all others, is used: /dev/shm is everybody's, and who makes the folder
 * first could otherwise read or forge what is in it. Nothing is made before somebody asks. Any thread; no lock, no
 * allocation; errno stays.
 */
#ifndef PEERPIN_BASE_RUNTIME_H
#define PEERPIN_BASE_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The folder, made if need be and opened close-on-exec; the caller closes it. Or -errno. */
int runtime_folder(void);

/* The same, and its name. */
#define RUNTIME_PATH 256
int runtime_folder_named(char path[RUNTIME_PATH]);

/* The end of the name of the file that who speaks for a job has meanwhile (job.c). */
#define RUNTIME_SPEAKER ".speaker"

/* The process whose segment the file is named for; 0: it is no such file. */
int runtime_process_of(const char *name);

/* Whether a part of the folder's file system would still be free if a file of so many bytes were made: programs, too, live by
 * what is there, NCCL above all by the few megabytes that a container's /dev/shm has. */
bool runtime_has_room(int folder, uint64_t bytes);

/* What processes that are gone have left there stays for a while, to be reported, but for who was killed while it spoke; beyond some number of them those of long
 * ago go, and where there is not much room those of just now, too. */
void runtime_clean(int folder);

#endif
