/* SPDX-License-Identifier: BSD-3-Clause */
/* never_used.c -- the PEERPIN_MIN_SIZE, or the PEERPIN_PREREGISTER, that would have avoided registrations that nobody used
 *
 * Below a size at which nothing was ever used, not registering ahead loses no hit. Where used and unused ones are of all
 * sizes, the best that can be said is a size below which nearly nothing was used.
 */
#include "tools/advice_facts.h"

#include <stdlib.h>
#include <string.h>

#include "tools/units.h"

struct proposal {
	int bits;	       /* below 1 << bits */
	int64_t skipped, lost; /* registrations that nobody used, and that somebody did */
};

static struct proposal best_proposal(const struct job *job)
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
		/* A few more that are skipped are not worth any that are lost. */
		if (now.lost > best.lost && best.skipped && now.skipped / 2 < best.skipped)
			continue;
		best = now;
	}
	return best;
}

/* What would have left them out by their size. */
static char *mend_by_size(const struct job *job)
{
	struct proposal best = best_proposal(job);
	struct shown size;

	/* Of keys that are looked up at each use nobody sees what they are used for. */
	if (job_total(job, "look_ups"))
		return text_of("PEERPIN_PIN_LIMIT bounds how much stays registered; no PEERPIN_MIN_SIZE is "
			       "proposed, since the sizes of what was looked up are not known");
	if (!best.skipped)
		return text_of("PEERPIN_PIN_LIMIT bounds how much stays registered; no PEERPIN_MIN_SIZE "
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

char *never_used_mend(const struct job *job)
{
	char *by_size = mend_by_size(job), *both;

	if (!job_sets(job, "PEERPIN_PREREGISTER", "all"))
		return by_size;
	both = text_of(
		"PEERPIN_PREREGISTER=auto, the default, learns which kinds of memory are asked for; %s",
		by_size);
	free(by_size);
	return both;
}

char *never_used_cost(const struct job *job)
{
	int64_t bytes = job_total(job, "never_used_bytes"), time = job_total(job, "never_used_ns");

	if (bytes && time)
		return text_of(": %s, %s of registering", show_bytes(bytes).text, show_time(time).text);
	return bytes ? text_of(": %s", show_bytes(bytes).text) : text_of("%s", "");
}
