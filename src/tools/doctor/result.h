/* SPDX-License-Identifier: BSD-3-Clause */
/* result.h -- what a run of doctor found, for those that print it */
#ifndef PEERPIN_DOCTOR_RESULT_H
#define PEERPIN_DOCTOR_RESULT_H

#include "tools/doctor/checks.h"

/* Exit statuses. */
#define DOCTOR_WORKS	 0 /* a way was proved for each GPU */
#define DOCTOR_FAILS	 1 /* for at least one GPU there is none */
#define DOCTOR_USAGE	 2
#define DOCTOR_UNDECIDED 3

struct result {
	struct host *host;
	struct finding *findings; /* as many as there are checks, in their order */
	bool *shown;		  /* which of them were asked for */
	bool partial;		  /* --only: the conclusion is of these checks, not of the host */
	char *conclusion;
	int status;
};

/* Sets the last two. */
void conclude(struct result *result);

/* How many of the checks that are shown have that verdict. */
unsigned int count_verdicts(const struct result *result, enum verdict verdict);

void print_result(const struct result *result, bool verbose, bool colour);

/* The last line of it. */
void print_conclusion(const struct result *result);

/* False: it could not be written. */
bool print_json(const struct result *result);

#endif
