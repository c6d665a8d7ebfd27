/* SPDX-License-Identifier: BSD-3-Clause */
/* checks.c -- tag check, where a record alone is not enough */
#include "base/atomics.h"
#include "memory/memory.h"

#include "base/log.h"
#include "memory/events.h"
#include "memory/keep.h"
#include "memory/queries.h"
#include "memory/table.h"
#include "report/statistics.h"

_Atomic bool memory_verify_mode;

void memory_verify_always(void)
{
	store_relaxed(&memory_verify_mode, true);
	queries_end();
	keep_end();
}

bool memory_check(const struct allocation *allocation)
{
	struct allocation ended;

	statistics_count(verify_checks);
	if (attributes_match(allocation))
		return true;
	if (!table_take(allocation->base, allocation->id, &ended))
		return false; /* freed meanwhile by an intercepted call */
	statistics_count(verify_disagreements);
	log_message(LOG_ERROR,
		    "verification: the record at 0x%llx differs from the driver, and ends now. "
		    "Please report how the program allocates memory.",
		    (unsigned long long)allocation->base);
	memory_missed_free(&ended);
	return false;
}
