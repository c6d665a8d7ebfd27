/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime.h -- folder for files of a job: $XDG_RUNTIME_DIR/peerpin, or /dev/shm/peerpin-UID
 *
 * The folder must be a real folder of this user without access for others. Any user can write to
 * /dev/shm, create the folder first, and then read or forge files in it. Then a private folder
 * takes its place: /dev/shm/peerpin-UID.NUMBER, by a name that is unknown in advance. All
 * processes of the user find it by its owner. The folder is created at its first use. Any thread;
 * no lock, no allocation; errno is kept.
 */
#ifndef PEERPIN_BASE_RUNTIME_H
#define PEERPIN_BASE_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Open the folder close-on-exec; create it if missing. Return a descriptor, which the caller
 * closes, or -errno. `path`: for its name, RUNTIME_PATH bytes, or NULL. */
#define RUNTIME_PATH 256
int runtime_folder(char *path);

/* Put the name of existing folder `number` into `path` (RUNTIME_PATH bytes): 0 and 1 of the usual
 * names, then private ones. Return false if there is none. For readers, whose environment may
 * differ from that of the processes. */
bool runtime_find(unsigned int number, char *path);
#define RUNTIME_PRIVATE 2u /* number of the first private one */

/* Return true, and the name, of a folder with a usual name that another user can reach, so that it
 * is not used. */
bool runtime_is_refused(char *path);

/* Folder of all users. Tests and tools change it. */
extern const char *runtime_shared;

/* File names: PROCESS.stats, or PROCESS-N.stats beside an equal number in another PID namespace:
 * the number of a statistics segment in shared memory (shared_memory.h, report/segment.h).
 * PROCESS.kept.stats: a copy of the segment, if PEERPIN_STATS_FILE could not be written.
 * job.JOB.HOST.lock (job_file.h). */
#define RUNTIME_STATS ".stats"
#define RUNTIME_KEPT  ".kept"
#define RUNTIME_JOB   "job."
#define RUNTIME_LOCK  ".lock"

/* Return the process number in the name of a segment file; 0: another file. */
int runtime_process_of(const char *name);

/* Return true if the segment of that file has a live process, or may have one in a container. */
bool runtime_is_used(int folder, const char *name);

/* Remove a segment file with its segment. Return 0 or -errno. */
int runtime_remove(int folder, const char *name);

/* Return true if 1/8 of the file system stays free after `bytes` more. Programs need that room:
 * NCCL uses the few MB of /dev/shm in a container. */
bool runtime_has_room(int folder, uint64_t bytes);

/* Remove files of ended processes, and files of jobs without a live rank after 1 h. Up to 64
 * segment files stay for a later report. Beyond 64, files older than 1 h are removed, and newer
 * ones too if less than 1/4 of the file system is free. */
void runtime_clean(int folder);

#endif
