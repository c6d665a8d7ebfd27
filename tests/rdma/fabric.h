/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric.h -- files of the simulated adapter's fabric, for tests that ask for them */
#ifndef PEERPIN_TESTS_FABRIC_H
#define PEERPIN_TESTS_FABRIC_H

#include <stdint.h>

/* The place of a queue pair's process among those of the fabric. */
unsigned int fabric_place(uint32_t number);

/* Number of files beside the list of processes, in all folders. */
int fabric_files(void);

/* Make so many links of a process that is no longer there. */
void fabric_leave_links(unsigned int count);

/* Remove a fabric that no process uses. */
void fabric_remove(const char *segment);

/* A process's body: open the device, make a queue pair, and end. */
void fabric_visit(unsigned int self);

#endif
