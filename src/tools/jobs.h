/* SPDX-License-Identifier: BSD-3-Clause */
/* jobs.h -- groups records into jobs: the ranks of one program in one job
 *
 * Processes without job name and rank form one job if they ran one program at one time. Sums
 * saturate at INT64_MAX.
 */
#ifndef PEERPIN_TOOLS_JOBS_H
#define PEERPIN_TOOLS_JOBS_H

#include "tools/records.h"
#include "tools/rows.h"

struct job {
	const char *name; /* NULL: the processes have none */
	const char *program;
	const struct record **ranks; /* by rank, host, process; without rank and job: by start */
	size_t count;
	json_t *totals;	    /* sum of each counter */
	json_t *histograms; /* sums; bucket i counts values from 2^i on */
	json_t *findings;   /* sums (findings.h) */
	json_t *hosts, *versions;
	size_t used, ends[RECORD_KILLED + 1];
	int64_t started_ns; /* earliest of the ranks */
	int64_t elapsed_ns; /* longest of the ranks */
	int64_t ended_ns;   /* latest known end */
};

struct jobs {
	struct job *list;
	size_t count;
};

struct spread {
	size_t count; /* ranks that have a value */
	int64_t total, min, median, max;
	int64_t variation; /* standard deviation / mean, in thousandths */
};

/* Groups `records`, which the caller keeps, unmoved, until jobs_free(). */
void jobs_make(struct jobs *jobs, const struct records *records);
void jobs_free(struct jobs *jobs);

int64_t job_total(const struct job *job, const char *key);
struct spread job_spread(const struct job *job, const char *key);
/* False if a process has no rank: it sorts first. */
bool job_has_ranks(const struct job *job);
bool record_used(const struct record *record);
/* -1, 0 or 1: for any numbers, unlike a difference. */
int compare_numbers(int64_t one, int64_t other);
/* Adds text to a list of distinct texts. */
void add_distinct(json_t *list, const char *text);
/* "rank 3", or "process 4711 on node7" without a rank. */
const char *record_name(const struct record *record);

/* Parts of the report object: lists of objects. */
json_t *job_outliers(const struct job *job);
json_t *job_advice(const struct job *job);

/* A row of tools/hints.def that applies to a job. Texts last as text_of(). */
struct hint {
	const char *id, *weight, *text, *fix; /* weight: NULL: not in a report; fix: "": none */
	uint64_t requests;		      /* 0: too few to be shown alone */
};

void job_hints(const struct job *job, void (*take)(void *argument, const struct hint *hint),
	       void *argument);
/* The hint for most requests; without requests: none. */
struct hint job_main_hint(const struct job *job);
/* Fix of a reason of forwarded requests: "forwarded_flags". */
const char *job_fix(const struct job *job, const char *reason);
/* True if the worker found no idle CPU, for more requests than a few. */
bool job_lacks_idle_cpu(const struct job *job);
/* True if a process ran with setting `name` at `value`. NULL: at any value except the default. */
bool job_has_setting(const struct job *job, const char *name, const char *value);

/* The whole report as one object. Source of all output forms. */
json_t *report_json(const struct jobs *jobs, const struct records *records);

#endif
