/* SPDX-License-Identifier: BSD-3-Clause */
/* client_mr.h -- table of client MRs: from the address of the provider's struct to a hold (holds.h)
 *
 * The kernel's handle cannot be the key: the kernel reuses it as soon as a registration ends.
 *
 * No lock, because each struct has an entry of its own. A client that deregisters on another thread
 * has synchronized both threads itself; of threads that deregister one struct at once, one removes
 * the entry, and with it drops the hold. The table takes a quarter of the memory that the structs
 * take, and keeps it; without memory a client MR is not made, and its request is forwarded. Any
 * thread; a forked child has a table of its own.
 */
#ifndef PEERPIN_REGISTRATION_CLIENT_MR_H
#define PEERPIN_REGISTRATION_CLIENT_MR_H

#include <stdbool.h>
#include <stdint.h>

/* Add a client MR, which has taken the hold. An older one at the same address is dropped. False: no
 * memory, or an address above 48 bits. */
bool client_mr_add(const void *key, uint64_t hold);

#endif
