/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime.h -- folder for files of this user's processes
 *
 * $XDG_RUNTIME_DIR/peerpin, else /dev/shm/peerpin-UID, else $TMPDIR/peerpin-UID (/tmp): the first
 * one that is, or can be made, a real folder of this user without access for others. Any user can
 * write to /dev/shm, create the folder first, and then read or forge files in it: such a folder is
 * not used. The folder is created at its first use. Any thread; no lock, no allocation; errno is
 * kept.
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

/* Put the name of folder `number`, below RUNTIME_FOLDERS, into `path` (RUNTIME_PATH bytes). Return
 * false if there is none that is private. For readers, whose environment may differ from that of
 * the processes. */
#define RUNTIME_FOLDERS 3u
bool runtime_find(unsigned int number, char *path);

/* Return true, and the name, of a folder that precedes the used one, and that another user can
 * reach. */
bool runtime_is_refused(char *path);

/* Folder of all users. Tests and tools change it. */
extern const char *runtime_shared;

/* File names: PROCESS-HOST-NAMESPACE.stats, the latest snapshot of a process (report/statistics.h),
 * by its number, a hash of its host's name, and the inode of its PID namespace: processes of hosts
 * with one TMPDIR, and of containers, may have equal numbers; RUNTIME_PARTIAL follows while it is
 * written. job.JOB.HOST.lock (job_file.h). */
#define RUNTIME_STATS	".stats"
#define RUNTIME_PARTIAL ".new"
#define RUNTIME_JOB	"job."
#define RUNTIME_LOCK	".lock"

/* Put the absolute name of this process's file in folder `path` into `name`: RUNTIME_PATH +
 * RUNTIME_NAME bytes. */
#define RUNTIME_NAME 48
void runtime_name_file(const char *path, char *name);

/* Return true if 1/8 of the file system stays free after `bytes` more. Programs need that room:
 * NCCL uses the few MB of /dev/shm in a container. */
bool runtime_has_room(int folder, uint64_t bytes);

/* Remove files of ended processes, and files of jobs without a live rank after 1 h. Up to 64
 * snapshots stay for a later report. Beyond 64, files older than 1 h are removed, and newer ones
 * too if less than 1/4 of the file system is free. Whether a process of another PID namespace has
 * ended is unknown: its file counts as left after 1 h. */
void runtime_clean(int folder);

#endif
