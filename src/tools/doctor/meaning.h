/* SPDX-License-Identifier: BSD-3-Clause */
/* meaning.h -- explains a failed call in plain words, with a fix
 *
 * The words fit a table cell; the fix is a command. report/errors.def has full sentences for the
 * library's log: change both together.
 */
#ifndef PEERPIN_DOCTOR_MEANING_H
#define PEERPIN_DOCTOR_MEANING_H

struct meaning {
	const char *call;  /* part of the call's name; "": any */
	const char *error; /* part of the error's name; "": any */
	const char *words; /* "": print call and error only */
	const char *fix;   /* NULL: the value fix_peermem */
};

/* Meaning of "CALL ERROR", the probe's format. Never NULL. */
const struct meaning *meaning_of(const char *failure);

#endif
