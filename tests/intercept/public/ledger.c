/* SPDX-License-Identifier: BSD-3-Clause */
/* ledger.c -- a subscriber that records its events and finds inconsistent ones */
#include "ledger.h"

#include <string.h>

/* The row of an id, or a free row. The caller holds the lock. */
static unsigned int row_of(const struct ledger *ledger, uint64_t id)
{
	unsigned int row = (unsigned int)(id * 0x9e3779b97f4a7c15u >> 48) % LEDGER_ROWS;

	while (ledger->rows[row].allocation.id && ledger->rows[row].allocation.id != id)
		row = (row + 1) % LEDGER_ROWS;
	return row;
}

static void find_wrong(struct ledger *ledger, bool is_wrong, const char *what)
{
	if (is_wrong && !ledger->wrong)
		ledger->wrong = what;
}

static void allocated(const struct peerpin_allocation *allocation, void *context)
{
	struct ledger *ledger = context;
	unsigned int row;

	pthread_mutex_lock(&ledger->lock);
	row = row_of(ledger, allocation->id);
	find_wrong(ledger, !allocation->id || !allocation->size, "an allocation is described");
	find_wrong(ledger, allocation->struct_size != sizeof(*allocation),
		   "the size of the struct is reported");
	find_wrong(ledger, ledger->rows[row].allocation.id,
		   "an allocation is reported once, and no id is used again");
	ledger->rows[row].allocation = *allocation;
	ledger->rows[row].living = true;
	ledger->allocated++;
	pthread_mutex_unlock(&ledger->lock);
}

static void freeing(const struct peerpin_allocation *allocation, void *context)
{
	struct ledger *ledger = context;
	unsigned int row;

	pthread_mutex_lock(&ledger->lock);
	row = row_of(ledger, allocation->id);
	if (!ledger->rows[row].allocation.id) {
		/* Freed before its report as allocated, which does not follow. */
		ledger->rows[row].allocation = *allocation;
	} else {
		find_wrong(ledger, !ledger->rows[row].living, "a free is reported once");
		find_wrong(ledger,
			   memcmp(&ledger->rows[row].allocation, allocation, sizeof(*allocation)),
			   "a free is reported as the allocation was");
		ledger->died++;
	}
	ledger->rows[row].living = false;
	pthread_mutex_unlock(&ledger->lock);
}

int ledger_open(struct ledger *ledger)
{
	struct peerpin_subscriber subscriber = { .struct_size = sizeof(subscriber),
						 .context = ledger,
						 .allocated = allocated,
						 .freeing = freeing };

	memset(ledger, 0, sizeof(*ledger));
	pthread_mutex_init(&ledger->lock, NULL);
	return peerpin_subscribe(&subscriber, &ledger->subscription);
}

bool ledger_has(struct ledger *ledger, uint64_t base, struct peerpin_allocation *allocation)
{
	unsigned int found = 0;

	pthread_mutex_lock(&ledger->lock);
	for (unsigned int row = 0; row < LEDGER_ROWS; row++) {
		if (!ledger->rows[row].living || ledger->rows[row].allocation.base != base)
			continue;
		*allocation = ledger->rows[row].allocation;
		found++;
	}
	find_wrong(ledger, found > 1, "at an address lives one allocation");
	pthread_mutex_unlock(&ledger->lock);
	return found;
}

unsigned int ledger_living(struct ledger *ledger)
{
	unsigned int living;

	pthread_mutex_lock(&ledger->lock);
	living = ledger->allocated - ledger->died;
	pthread_mutex_unlock(&ledger->lock);
	return living;
}
