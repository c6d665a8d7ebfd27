/* SPDX-License-Identifier: BSD-3-Clause */
/* result.h -- result of a doctor run, for the printers */
#ifndef PEERPIN_DOCTOR_RESULT_H
#define PEERPIN_DOCTOR_RESULT_H

#include "tools/doctor/checks.h"

/* Exit status. */
#define DOCTOR_WORKS	 0 /* one method is proved for each GPU */
#define DOCTOR_FAILS	 1 /* at least one GPU has no method */
#define DOCTOR_USAGE	 2
#define DOCTOR_UNDECIDED 3

struct result {
	struct host *host;
	struct finding *findings; /* one per check, in order of `checks` */
	bool *shown;		  /* checks that the user selected */
	bool partial;		  /* --only: conclusion about these checks, not the host */
	char *conclusion;
	int status;
};

/* Sets conclusion and status. */
void conclude(struct result *result);

/* Number of shown checks with this verdict. */
unsigned int count_verdicts(const struct result *result, enum verdict verdict);

void print_result(const struct result *result, bool verbose, bool colour);

/* Prints the last line of the result. */
void print_conclusion(const struct result *result);

/* False: writing failed. */
bool print_json(const struct result *result);

#endif
