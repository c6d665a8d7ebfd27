/* SPDX-License-Identifier: BSD-3-Clause */
/* proc_stat.h -- whether a process is the one that is meant: numbers come back, and who is killed stays for its parent
 *
 * Any thread; no lock, no allocation; errno stays.
 */
#ifndef PEERPIN_BASE_PROC_STAT_H
#define PEERPIN_BASE_PROC_STAT_H

#include <stdbool.h>
#include <stdint.h>

/* When the calling process began, in clock ticks since the host's start; 0: unknown. */
uint64_t proc_stat_own_start(void);

/* The parent of that process (0: of the calling one), and when the process itself began; 0: unknown. */
int proc_stat_parent(int process, uint64_t *start);

/* Whether that process, which began then (0: whenever), still runs. Where /proc does not tell, one that has the number does. */
bool proc_stat_lives(int process, uint64_t start);

#endif
