/* SPDX-License-Identifier: BSD-3-Clause */
/* job_file.h -- file that the ranks of a job on a host share: live ranks, messages, GPUs
 *
 * Each rank holds a shared lock on job.JOB.HOST.lock in the runtime folder. At exit a rank drops
 * its lock and tries to take an exclusive one: of several ranks that end at once, the last one gets
 * it and leads. The kernel releases the lock of a killed rank. The lock is a POSIX record lock,
 * which belongs to the process: a child of fork(2) or clone(2) does not hold it, and exec closes
 * the descriptor. Hazard: a program that closes all descriptors drops its lock; the job may then
 * get two summaries.
 *
 * The file's content is the hashes of printed messages, and of the GPUs that each rank uses, and
 * the numbers of the ranks. The first rank that stores a message's hash prints the
 * message. Without a job, a rank, a folder or a free slot every rank prints: a duplicate is better
 * than silence. Any thread; nothing is allocated; errno is kept. A call waits at most 5 ms for
 * another process.
 */
#ifndef PEERPIN_BASE_JOB_FILE_H
#define PEERPIN_BASE_JOB_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/kernel.h"

/* Open and lock the file, and record the rank. Call at activation, before runtime_clean(). Does
 * nothing without a job or a rank. */
void job_file_join(void);

/* Return true if the caller is the first of its job on this host to claim the hash, or if that
 * cannot be decided. */
bool job_file_claim(uint64_t hash);

/* Return the number of processes of the job on this host that use what the hash stands for, or did
 * while another rank was live; 1 if that cannot be decided. `first`: record that this process does.
 */
unsigned int job_file_share(uint64_t hash, bool first);

/* Return the number of ranks of the job that have started on this host; 1 if that is unknown. */
unsigned int job_file_ranks(void);

/* job_file_mark(): changes the time of job_file_marked() for all ranks of the job on this host, to
 * one with these low bits. job_file_changed(): the time of the latest start, claim or use. Times in
 * ns since 1970; 0: no file. */
#define JOB_FILE_TAG 511u
void job_file_mark(uint64_t tag);
uint64_t job_file_marked(void);
uint64_t job_file_changed(void);

/* Drop the shared lock. Return 1: no other rank of the job is live on this host; 0: another one is;
 * below 0: no lock. Call at exit. */
int job_file_lead(void);

/* Close the file; remove it if no other rank holds a lock and no message was claimed. Without the
 * file, a rank that starts later would repeat messages of earlier ranks. */
void job_file_leave(void);

#endif
