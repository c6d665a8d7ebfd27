/* SPDX-License-Identifier: BSD-3-Clause */
/* ledger.h -- a subscriber that records its events and finds inconsistent ones */
#ifndef PEERPIN_TESTS_LEDGER_H
#define PEERPIN_TESTS_LEDGER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "peerpin.h"

#define LEDGER_ROWS (1u << 16) /* more than any test allocates */

struct ledger {
	pthread_mutex_t lock;
	struct {
		struct peerpin_allocation allocation; /* id 0: none */
		bool living;
	} rows[LEDGER_ROWS];
	unsigned int allocated, died; /* died: of those reported as allocated */
	const char *wrong; /* first broken promise; NULL: none */
	int subscription;
};

/* Subscribe with an empty ledger. */
int ledger_open(struct ledger *ledger);

/* The live memory at `base`, according to the events; false: none. */
bool ledger_has(struct ledger *ledger, uint64_t base, struct peerpin_allocation *allocation);

unsigned int ledger_living(struct ledger *ledger);

#endif
