/* SPDX-License-Identifier: BSD-3-Clause */
/* pinning_report.h -- a pair of GPU and adapter, and its log lines */
#ifndef PEERPIN_REGISTRATION_PINNING_REPORT_H
#define PEERPIN_REGISTRATION_PINNING_REPORT_H

#include "registration/methods.h"

struct pair {
	const struct ibv_context *context; /* NULL: unused */
	int device;
	bool pcie; /* the mapping: a method may work with one alone */
	/* By method: index in the table, as all below. */
	struct method_support support[METHODS_MAX];
	bool works[METHODS_MAX];				/* has registered at least once */
	struct errors_text failures[METHODS_MAX];		/* for the pair; no cause: none */
	bool reported[METHODS_MAX];				/* logged as the method */
	const char *path;					/* topology_path() */
	int counted_as;						/* statistics_adapter() */
	_Atomic(_Atomic uint64_t *) registrations[METHODS_MAX]; /* statistics; NULL: none yet */
};

#define DESCRIPTION 320

/* The reason against a method: the result of the capability probe, or the failure. */
const char *pinning_reason(const struct method_support *support, const struct errors_text *failure,
			   char description[DESCRIPTION]);

/* The method is the pair's from now on, in place of the preferred one if that has failed. */
void pinning_report_method(const struct pin_request *request, const struct pair *pair,
			   unsigned int method, const struct errors_text *preferred)
	__attribute__((cold));

/* No method works for the pair. */
void pinning_report_failure(const struct pin_request *request, const struct pair *pair,
			    const struct errors_text failures[METHODS_MAX]) __attribute__((cold));

#endif
