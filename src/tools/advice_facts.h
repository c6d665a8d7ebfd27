/* SPDX-License-Identifier: BSD-3-Clause */
/* advice_facts.h -- what advice.def may ask of a job beside the sums of counters */
#ifndef PEERPIN_TOOLS_ADVICE_FACTS_H
#define PEERPIN_TOOLS_ADVICE_FACTS_H

#include "tools/jobs.h"

struct facts {
	size_t ranks, used, killed;
	/* Nobody asked for a registration or for keys, and nobody's fault is to be looked for. */
	bool passive;
	size_t missing, doubled;	      /* rank numbers */
	size_t settings, versions, far_pairs; /* different ones */
	json_t *texts;			      /* by the name that a row of advice.def uses */
};

void facts_find(struct facts *facts, const struct job *job);
void facts_free(struct facts *facts);
/* Whether a process ran with that setting, of that value; NULL: of any that is not the default. */
bool job_sets(const struct job *job, const char *name, const char *value);

/* never_used.c: what registrations that nobody used did cost, and the PEERPIN_MIN_SIZE that would have avoided them;
 * both freed by the caller. */
char *never_used_cost(const struct job *job);
char *never_used_mend(const struct job *job);
/* The job's histogram of that name, summed over the ranks: 64 buckets (histograms.c). */
void job_histogram(const struct job *job, const char *name, int64_t buckets[64]);
json_t *job_histograms(const struct job *job);

#endif
