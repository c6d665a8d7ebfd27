/* SPDX-License-Identifier: BSD-3-Clause */
/* jobs.h -- records put together: the ranks of one program in one job
 *
 * Processes that know of no job and no rank belong together if they are of one program and ran at one time.
 * Sums stop at the largest number instead of turning over.
 */
#ifndef PEERPIN_TOOLS_JOBS_H
#define PEERPIN_TOOLS_JOBS_H

#include "tools/records.h"

struct job {
	const char *name; /* NULL: the processes knew of no job */
	const char *program;
	struct record **ranks; /* by rank, then host, then process */
	size_t count;
	json_t *totals; /* of every counter that a record has */
	size_t used, ends[RECORD_KILLED + 1];
	int64_t elapsed_ns; /* of the longest */
	int64_t ended_ns;   /* the latest end that is known */
	bool at_least;	    /* one was killed: when is not known */
	json_t *hosts;	    /* names, each once */
};

struct jobs {
	struct job *list;
	size_t count;
};

struct spread {
	size_t count; /* ranks that have this number */
	int64_t total, min, median, max;
	int64_t variation; /* standard deviation by mean, in thousandths */
};

/* The records stay with their owner, and must not move meanwhile. */
void jobs_make(struct jobs *jobs, const struct records *records);
void jobs_free(struct jobs *jobs);

int64_t job_total(const struct job *job, const char *key);
/* A key of metrics.def in one record; false if it has no meaning there: a share of nothing. */
bool job_metric(const struct record *record, const char *key, int64_t *value);
struct spread job_spread(const struct job *job, const char *key);
bool record_used(const struct record *record);
int64_t add_capped(int64_t one, int64_t other);
/* Sorts the values. */
struct spread spread_of(int64_t *values, size_t count);
/* "rank 3", or "process 4711 on node7" where there are no ranks; freed by the caller. */
char *record_name(const struct record *record);

/* report_json.c and what it is made of: each of these is a list of objects in the report. */
json_t *job_outliers(const struct job *job);
json_t *job_advice(const struct job *job);
json_t *job_timeline(const struct job *job);

/* Everything that a report says, as one object: the other forms are made from it. */
json_t *report_json(const struct jobs *jobs, const struct records *records);

#endif
