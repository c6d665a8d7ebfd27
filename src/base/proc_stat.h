/* SPDX-License-Identifier: BSD-3-Clause */
/* proc_stat.h -- identifies a process by its number and start time; its threads
 *
 * Process numbers are reused, and a killed process remains until its parent reaps it. Any thread;
 * no lock, no allocation; errno is kept.
 */
#ifndef PEERPIN_BASE_PROC_STAT_H
#define PEERPIN_BASE_PROC_STAT_H

#include <stdbool.h>
#include <stdint.h>

/* Return the start time of the calling process, in clock ticks since boot; 0: unknown. */
uint64_t proc_stat_start(void);

/* Return true if `process` runs and started at `start` (0: any time). Without /proc the number
 * alone decides. */
bool proc_stat_is_live(int process, uint64_t start);

/* Return true if the process has no other thread than the calling one, which is not its first. */
bool proc_stat_is_last_thread(void);

#endif
