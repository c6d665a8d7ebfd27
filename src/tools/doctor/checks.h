/* SPDX-License-Identifier: BSD-3-Clause */
/* checks.h -- the checks of doctor, and the finding that each check fills
 *
 * Table: doctor_checks.def, one row per check. A check reads readings of the host, fills its
 * finding and changes nothing else. Checks are independent: no check depends on, or stops,
 * another. Data that could not be read gives UNKNOWN, never OK.
 */
#ifndef PEERPIN_DOCTOR_CHECKS_H
#define PEERPIN_DOCTOR_CHECKS_H

#include "tools/doctor/host.h"
#include "tools/doctor/machine.h"

enum verdict { VERDICT_OK, VERDICT_NOT_NEEDED, VERDICT_UNKNOWN, VERDICT_WARN, VERDICT_FAIL };

struct finding {
	enum verdict verdict;
	char *text;   /* one line: the observation */
	char *read;   /* sources of the reading, separated by commas */
	char **fixes; /* one fix per cause: a command, or "ask your administrator: ..." */
	unsigned int fix_count;
	bool undecided; /* finding_fix adds nothing: the need for the missing part is unknown */
};

/* True if reading `ended` is ETIME (no time was left). Sets the finding to UNKNOWN then. */
bool had_no_time(struct host *host, struct finding *finding, const char *ended);

/* Replaces verdict and text. */
void finding_set(struct finding *finding, enum verdict verdict, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Raises the verdict if it is lower, and appends to the text behind "; ". */
void finding_add(struct finding *finding, enum verdict verdict, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Appends to the text without a separator. */
void finding_append(struct finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Adds a source to the list of sources read. */
void finding_read(struct finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Adds the fix of one cause. A fix with identical text is added once. */
void finding_fix(struct finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* "OK", "NOT NEEDED", ... */
const char *verdict_name(enum verdict verdict);

void finding_free(struct finding *finding);

/* Reports a missing part of one registration method. NOT NEEDED: method `other` reaches every
 * GPU; FAIL: it does not; UNKNOWN: undecidable here. */
void finding_without(struct host *host, struct finding *finding, enum way other,
		     const char *missing);

/* Fix for a registration that needs nvidia-peermem and fails. Shared by all checks. */
const char *peermem_fix(struct host *host);

/* Appends a word to a list, which starts as NULL. The caller frees the list. */
void list_add(char **list, const char *item);

struct check {
	const char *id;
	const char *group;
	const char *privilege; /* "none", "root", "gpu", ...: required for a full result */
	const char *why;       /* one sentence: why the check matters */
	const char *link;      /* page in the documentation */
	void (*look)(struct host *host, struct finding *finding);
};

extern const struct check checks[];
extern const unsigned int check_count;

#define CHECK(id, group, function, privilege, why, link)                                           \
	void function(struct host *host, struct finding *finding);
#include "tools/doctor/doctor_checks.def"
#undef CHECK

#endif
