/* SPDX-License-Identifier: BSD-3-Clause */
/* never_used.c -- the PEERPIN_MIN_SIZE that would have avoided registrations that nobody used
 *
 * An allocation can only be asked for by requests that are not larger than it is. If no request was smaller than a
 * size, then no allocation below that size was asked for, and not registering them ahead loses no hit. Where requests
 * of all sizes came, the best that can be said is a size below which nearly nothing was used.
 */
#include "tools/advice_facts.h"

#include <string.h>

#include "tools/units.h"

struct proposal {
	int bits; /* 0: there is none */
	int64_t skipped, lost;
};

/* Below 1 << bits: how many allocations nobody used, and how many somebody did. */
static struct proposal propose(const int64_t births[64], const int64_t unused[64], int bits)
{
	struct proposal proposal = { .bits = bits };

	for (int i = 0; i < bits; i++) {
		proposal.skipped = add_capped(proposal.skipped, unused[i]);
		if (births[i] > unused[i])
			proposal.lost = add_capped(proposal.lost, births[i] - unused[i]);
	}
	return proposal;
}

/* The smallest size that skips most without touching what is used; otherwise one at which ten go for each that is. */
static struct proposal best_proposal(const struct job *job)
{
	int64_t births[64], unused[64], requests[64];
	struct proposal best = { 0 }, now;
	int clear = 0;

	job_histogram(job, "birth_bytes", births);
	job_histogram(job, "never_used_bytes", unused);
	job_histogram(job, "request_bytes", requests);
	while (clear < 62 && !requests[clear])
		clear++;
	for (int bits = 1; bits < 62; bits++) {
		now = propose(births, unused, bits);
		if (bits <= clear)
			now.lost = 0;
		if (now.skipped <= best.skipped || now.lost > now.skipped / 10)
			continue;
		/* A few more that are skipped are not worth any that are lost. */
		if (now.lost && !best.lost && best.skipped && now.skipped < 2 * best.skipped)
			continue;
		best = now;
	}
	return best;
}

char *never_used_mend(const struct job *job)
{
	struct proposal best = best_proposal(job);
	struct shown size;

	if (!best.skipped)
		return text_of("PEERPIN_BUDGET bounds how much stays registered; no PEERPIN_MIN_SIZE "
			       "separates them from "
			       "what is used");
	size = show_setting_size(INT64_C(1) << best.bits);
	if (best.lost)
		return text_of(
			"PEERPIN_MIN_SIZE=%s would have skipped %s of them, and up to %s that were used",
			size.text, show_count(best.skipped).text, show_count(best.lost).text);
	return text_of("PEERPIN_MIN_SIZE=%s would have skipped %s of them, and none that was used", size.text,
		       show_count(best.skipped).text);
}

char *never_used_cost(const struct job *job)
{
	int64_t bytes = job_total(job, "never_used_bytes"), time = job_total(job, "never_used_ns");

	if (bytes && time)
		return text_of(": %s, %s of registering", show_bytes(bytes).text, show_time(time).text);
	return bytes ? text_of(": %s", show_bytes(bytes).text) : text_of("%s", "");
}
