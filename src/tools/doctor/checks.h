/* SPDX-License-Identifier: BSD-3-Clause */
/* checks.h -- the checks: what each of them finds, and how they are told apart
 *
 * doctor_checks.def has one row for each. A check reads the host, says what it found, and changes nothing; it does not know
 * of the others, and none of them can stop another. UNKNOWN is what could not be looked at: it is never OK.
 */
#ifndef PEERPIN_DOCTOR_CHECKS_H
#define PEERPIN_DOCTOR_CHECKS_H

#include "tools/doctor/host.h"
#include "tools/doctor/machine.h"

enum verdict { VERDICT_OK, VERDICT_NOT_NEEDED, VERDICT_UNKNOWN, VERDICT_WARN, VERDICT_FAIL };

struct finding {
	enum verdict verdict;
	char *text;   /* what was found: one line */
	char *read;   /* where it was read, separated by commas */
	char **mends; /* what to do, one for each cause: a command, or "ask your administrator: ..." */
	unsigned int mend_count;
	bool undecided; /* nothing is to be done as long as it is not known whether this is needed */
};

/* True: what ended so was not asked, for want of time; the finding says so. */
bool had_no_time(struct host *host, struct finding *finding, const char *ended);

/* Sets the verdict and what was found. */
void finding_set(struct finding *finding, enum verdict verdict, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Raises the verdict if it is lower, and adds to what was found, behind "; ". */
void finding_add(struct finding *finding, enum verdict verdict, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Adds words to what was found as they are. */
void finding_append(struct finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds a place that was looked at. */
void finding_read(struct finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What to do about one cause. The same words are taken once. */
void finding_mend(struct finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "OK", "NOT NEEDED", ... */
const char *verdict_name(enum verdict verdict);

void finding_free(struct finding *finding);

/* A part of one way is missing: that is NOT NEEDED where the other way reaches every GPU, FAIL where it does not, UNKNOWN
 * where that cannot be said. */
void finding_without(struct host *host, struct finding *finding, enum way other, const char *missing);

/* What to do where registering needs nvidia-peermem and does not get it: the same in whichever check says it. */
const char *peermem_mend(struct host *host);

/* Adds to a list of words, which the caller frees; it begins as NULL. */
void list_add(char **list, const char *item);

struct check {
	const char *id;
	const char *group;
	const char *privilege; /* "none", "root", "gpu", ...: without what it cannot say */
	const char *why;       /* why it matters: one sentence */
	const char *link;      /* where the documents have it */
	void (*look)(struct host *host, struct finding *finding);
};

extern const struct check checks[];
extern const unsigned int check_count;

#define CHECK(id, group, function, privilege, why, link)                                                     \
	void function(struct host *host, struct finding *finding);
#include "tools/doctor/doctor_checks.def"
#undef CHECK

#endif
