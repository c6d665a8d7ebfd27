/* SPDX-License-Identifier: BSD-3-Clause */
/* never_used.c -- proposes the PEERPIN_MIN_SIZE or PEERPIN_PREREGISTER that avoids unused
 * registrations
 *
 * A used registration below the proposed size would become a miss. If used and unused regions have
 * all sizes, the proposal accepts 1 used registration for 10 unused ones.
 */
#include "tools/advice_facts.h"

#include <stdlib.h>
#include <string.h>

#include "tools/units.h"

struct proposal {
	int bits;	       /* sizes below 1 << bits */
	int64_t skipped, lost; /* registrations below that size: never used, and used */
};

static struct proposal never_used_propose(const struct job *job)
{
	struct proposal best = { 0 }, now = { 0 };
	int64_t used[64], unused[64];

	job_histogram(job, "used_bytes", used);
	job_histogram(job, "never_used_bytes", unused);
	for (now.bits = 1; now.bits < 62; now.bits++) {
		now.skipped = add_capped(now.skipped, unused[now.bits - 1]);
		now.lost = add_capped(now.lost, used[now.bits - 1]);
		if (now.skipped <= best.skipped || now.lost > now.skipped / 10)
			continue;
		/* Lose more used registrations only if the number of skipped ones doubles. */
		if (now.lost > best.lost && best.skipped && now.skipped / 2 < best.skipped)
			continue;
		best = now;
	}
	return best;
}

static char *never_used_fix_by_size(const struct job *job)
{
	struct proposal best = never_used_propose(job);
	struct shown size;

	/* Key look-ups record no sizes: used sizes are unknown. */
	if (job_total(job, "look_ups"))
		return text_of("PEERPIN_PIN_LIMIT bounds how much stays registered; no "
			       "PEERPIN_MIN_SIZE is "
			       "proposed, since the sizes of what was looked up are not known");
	if (!best.skipped)
		return text_of(
			"PEERPIN_PIN_LIMIT bounds how much stays registered; no PEERPIN_MIN_SIZE "
			"separates them from "
			"what is used");
	size = show_setting_size(INT64_C(1) << best.bits);
	if (best.lost)
		return text_of("PEERPIN_MIN_SIZE=%s would have skipped %s of them, and up to %s "
			       "that were used",
			       size.text, show_count(best.skipped).text,
			       show_count(best.lost).text);
	return text_of("PEERPIN_MIN_SIZE=%s would have skipped %s of them, and none that was used",
		       size.text, show_count(best.skipped).text);
}

char *never_used_mend(const struct job *job)
{
	char *by_size = never_used_fix_by_size(job), *both;

	if (!job_sets(job, "PEERPIN_PREREGISTER", "all"))
		return by_size;
	both = text_of("PEERPIN_PREREGISTER=auto, the default, learns which kinds of memory are "
		       "asked for; %s",
		       by_size);
	free(by_size);
	return both;
}

char *never_used_cost(const struct job *job)
{
	int64_t bytes = job_total(job, "never_used_bytes"), time = job_total(job, "never_used_ns");

	if (bytes && time)
		return text_of(": %s, %s of registering", show_bytes(bytes).text,
			       show_time(time).text);
	return bytes ? text_of(": %s", show_bytes(bytes).text) : text_of("%s", "");
}
