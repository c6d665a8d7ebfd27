/* SPDX-License-Identifier: BSD-3-Clause */
/* job_file.h -- file that the ranks of a job on a host share: want of GPU memory, printed messages
 *
 * job.JOB.HOST.lock in the runtime folder. Its content is a number for each GPU, which a rank
 * raises that is refused memory there, and the hashes of printed messages. Locks of single bytes
 * say which ranks have the file open, and which use a GPU. They are POSIX record locks: the kernel
 * ends those of a killed rank, and a child of fork(2) or clone(2) does not hold them. Hazard: a
 * program that closes all descriptors drops its locks. Then other ranks keep more memory than their
 * share, and print messages again.
 *
 * Without a job, a rank or a folder each process is alone, and every rank prints: a duplicate is
 * better than silence. Any thread; nothing is allocated; errno is kept. A call waits at most 5 ms
 * for another process.
 */
#ifndef PEERPIN_BASE_JOB_FILE_H
#define PEERPIN_BASE_JOB_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* Open the file: the rank counts from now on. Call at activation. */
void job_file_join(void);

/* Return true if the caller is the first of its job on this host to claim the hash, since ranks
 * have the file open, or if that cannot be decided. */
bool job_file_claim(uint64_t hash);

/* Return the number of live processes of the job on this host that use the GPU of that hash, with
 * this one, which does from now on. */
unsigned int job_file_share(uint64_t gpu);

/* Return the number of ranks of the job on this host: as its launcher says, else of live ones that
 * have the file open; 1 if that is unknown. */
unsigned int job_file_ranks(void);

/* Return the number of the GPU of that hash; job_file_want() raises it first. 0: no file. Another
 * GPU may have the number, too. */
uint64_t job_file_wanted(uint64_t gpu);
uint64_t job_file_want(uint64_t gpu);

/* Close the file; remove it if no other rank has it open. Call at exit. */
void job_file_leave(void);

#endif
