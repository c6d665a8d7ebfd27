/* SPDX-License-Identifier: BSD-3-Clause */
/* client_mr.h -- table of client MRs: from the address of the provider's struct to a hold (holds.h)
 *
 * The kernel's handle cannot be the key: the kernel reuses it as soon as a registration ends.
 *
 * Threads add and remove entries of a bucket without a lock: an entry is claimed by its key and
 * gets the hold before other threads can find it. A client that deregisters on another thread has
 * synchronized both threads itself. A key has two buckets; the second is for keys whose first is
 * full. A client MR that finds both full is not made: its request is forwarded. Any thread; a
 * forked child has a table of its own.
 */
#ifndef PEERPIN_REGISTRATION_CLIENT_MR_H
#define PEERPIN_REGISTRATION_CLIENT_MR_H

#include <stdbool.h>
#include <stdint.h>

/* Add a client MR, which has taken the hold. An older one at the same address is dropped. False:
 * both buckets are full. */
bool client_mr_add(const void *key, uint64_t hold);

/* Remove the client MR and return its hold; 0: there is none. */
uint64_t client_mr_remove(const void *key);

#endif
