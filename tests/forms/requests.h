/* SPDX-License-Identifier: BSD-3-Clause */
/* requests.h -- what one run of a form leaves for the judgement */
#ifndef PEERPIN_TESTS_FORMS_REQUESTS_H
#define PEERPIN_TESTS_FORMS_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#define CALLS_MAX (1u << 18)

/* Sizes of a form's memory: one of each kind (odd, a multiple of 16, pages, a block and a byte more
 * or less), or ONCE: one odd size. SMALL is below 1 MiB, LARGE beyond a block, ANY is either. */
enum form_sizes { ANY, SMALL, LARGE, ONCE };

struct form {
	const char *name;
	void (*run)(size_t size);
	enum form_sizes sizes;
	/* "served", "refused" (by driver or adapter, without peerpin as well), or the counter of
	 * forwarded requests. */
	const char *outcome;
	unsigned int least; /* hits in percent of served requests */
	const char *settings;
};

struct form_counts {
	uint64_t requests, hits, host_requests, outcome, sum, forwarded, reasons, internal_errors;
};

struct form_result {
	bool complete;
	unsigned int wrong;
	char first_wrong[120];
	struct form_counts counts;
	unsigned int calls;
	struct {
		uint16_t error; /* errno, 0: success */
		bool registers;
	} call[CALLS_MAX];
};

/* Of the running form; in memory that the judge shares. */
extern struct form_result *result;

/* In a process of its own, with the preload or without. */
void form_run(const struct form *form, uint64_t seed);

/* The first difference; NULL: none. */
const char *form_judge(const struct form *form, const struct form_result *without,
		       const struct form_result *with);

#endif
