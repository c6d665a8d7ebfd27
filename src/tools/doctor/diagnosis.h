/* SPDX-License-Identifier: BSD-3-Clause */
/* diagnosis.h -- result of a doctor run, for the printers */
#ifndef PEERPIN_DOCTOR_DIAGNOSIS_H
#define PEERPIN_DOCTOR_DIAGNOSIS_H

#include "tools/doctor/checks.h"

/* Exit status. */
#define DOCTOR_WORKS	 0 /* one method is proved for each GPU */
#define DOCTOR_FAILS	 1 /* at least one GPU has no method */
#define DOCTOR_USAGE	 2
#define DOCTOR_UNDECIDED 3

struct diagnosis {
	struct host *host;
	struct finding *findings; /* one per check, in order of `checks` */
	bool *shown;		  /* checks that the user selected */
	bool partial;		  /* --only: conclusion about these checks, not the host */
	const char *conclusion;
	int status;
};

/* Sets conclusion and status. */
void conclude(struct diagnosis *diagnosis);

void print_diagnosis(const struct diagnosis *diagnosis, bool verbose, bool colour);

/* ---- costs.c ---- */

struct cost {
	size_t size;
	long long export, enter, leave; /* export, register, deregister: ns; export 0: none */
};

/* The cost of size number `which`, from 0, that --deep measured. False: none. */
bool cost_of(struct host *host, const struct gpu *gpu, const struct adapter *adapter,
	     enum method method, unsigned int which, struct cost *cost);
/* Prints nothing without costs. */
void print_costs(struct host *host);

/* Prints the checks in which hosts differ, from files of --json; none: standard input. Returns the
 * exit status. */
int merge_print_hosts(char **files);

/* Prints the verdict. */
void print_conclusion(const struct diagnosis *diagnosis);

/* False: writing failed. */
bool print_json(const struct diagnosis *diagnosis);

#endif
