/* SPDX-License-Identifier: BSD-3-Clause */
/* ledger.h -- a subscriber that writes down what it is told, and finds what must not be */
#ifndef PEERPIN_TESTS_LEDGER_H
#define PEERPIN_TESTS_LEDGER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "peerpin.h"

#define LEDGER_ROWS (1u << 16) /* more than are allocated in any test */

struct ledger {
	pthread_mutex_t lock;
	struct {
		struct peerpin_allocation allocation; /* id 0: none */
		bool living;
	} rows[LEDGER_ROWS];
	unsigned int allocated, died;
	const char *wrong; /* the first promise that was broken; NULL: none */
	int subscription;
};

/* Subscribes; all else about the ledger begins empty. */
int ledger_open(struct ledger *ledger);

/* The memory that is alive, by its base, as far as this was told; false: none such. */
bool ledger_has(struct ledger *ledger, uint64_t base, struct peerpin_allocation *allocation);

unsigned int ledger_living(struct ledger *ledger);

#endif
