/* SPDX-License-Identifier: BSD-3-Clause */
/* advice_facts.h -- facts of a job that advice.def uses besides the sums of counters */
#ifndef PEERPIN_TOOLS_ADVICE_FACTS_H
#define PEERPIN_TOOLS_ADVICE_FACTS_H

#include "tools/jobs.h"

struct facts {
	size_t ranks, used, killed;
	/* No process made a request or a key look-up, so there is no failure to explain. */
	bool passive;
	size_t missing, doubled;	      /* rank numbers */
	size_t settings, versions, far_pairs; /* distinct values; far pairs */
	json_t *texts;			      /* by {key} of advice.def */
};

void facts_find(struct facts *facts, const struct job *job);
void facts_free(struct facts *facts);
/* True if a process ran with setting `name` at `value`. NULL: at any value except the default. */
bool job_sets(const struct job *job, const char *name, const char *value);

/* Cost of registrations that no client used, and the PEERPIN_MIN_SIZE that avoids them
 * (never_used.c). The caller frees the texts. */
char *never_used_cost(const struct job *job);
char *never_used_mend(const struct job *job);
/* Histogram `name`, summed over the ranks: 64 buckets (histograms.c). */
void job_histogram(const struct job *job, const char *name, int64_t buckets[64]);
json_t *job_histograms(const struct job *job);

#endif
