/* SPDX-License-Identifier: BSD-3-Clause */
/* meaning.h -- what it means that a call failed, in plain words, and what to do
 *
 * In a few words that fit into a table's cell, and as a command to type; the library's log has whole sentences for the same
 * (base/errors.def): who changes the one looks at the other.
 */
#ifndef PEERPIN_DOCTOR_MEANING_H
#define PEERPIN_DOCTOR_MEANING_H

struct meaning {
	const char *call;  /* a part of its name; "": any */
	const char *error; /* a part of the error's name; "": any */
	const char *words; /* "": none are better than the two */
	const char *mend;  /* NULL: that of peermem_mend() */
};

/* Of "CALL ERROR", as the probe has it. Never NULL. */
const struct meaning *meaning_of(const char *failure);

#endif
