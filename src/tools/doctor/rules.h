/* SPDX-License-Identifier: BSD-3-Clause */
/* rules.h -- rules of the checks: conditions over named values, with a result, a text and a fix
 *
 * Tables: readings.def (values that are read), words.def (values that conditions choose), facts.def
 * (values that are computed), and doctor_checks.def (rules). tests/doctor/check_rules.py reports a
 * name that no table has.
 *
 * A value is a text; a value that is unreadable, absent or false is NULL. A condition is a list of
 * terms, separated by blanks, of which all are met; "A|B" is met if one is. "" is always met.
 *
 *   name, !name      the value is there; is not there
 *   name=TEXT        it is this text
 *   name~TEXT        it contains this text
 *   name<N, name>N   it is a number below, above N: digits, with K, M or G, or a value's name
 *   name[A,B)        it is a version from A on, before B; B may be a value's name
 *   name:error       a reading that is not there: :absent (ENOENT), :refused (unreadable), or an
 *                    errno's name. These terms note no unreadable reading (host_take_refused)
 *
 * In texts, fixes and names of readings:
 *
 *   {name}           the value; nothing if it is not there
 *   {name|TEXT}      the value, or this text
 *   {name?TEXT}      this text if the value is there and not empty; % is the value
 *   {name:error}     the error of a reading, by name; {name:message}: its text
 */
#ifndef PEERPIN_DOCTOR_RULES_H
#define PEERPIN_DOCTOR_RULES_H

#include "tools/doctor/checks.h"

/* What a rule examines: the host, a GPU, an adapter, a pair, or a line. */
struct subject {
	struct host *host;
	const char *check;	 /* its id; NULL: none */
	struct finding *finding; /* of the check; NULL: none */
	const struct gpu *gpu;
	const struct adapter *adapter;
	enum method method;
	const char *line;    /* one line, port or word */
	const char *more;    /* of the line */
	const char *item;    /* name of the subject in texts; NULL: the host */
	unsigned int number; /* of subjects so far */
};

/* Value of a name; NULL: it is not there. Aborts for a name that no table has. */
const char *value_of(const struct subject *subject, const char *name);
/* value_of for the host. */
const char *host_value(struct host *host, const char *name);
/* True if the value is a number, which may be followed by a blank and more. */
bool value_number(const struct subject *subject, const char *name, int64_t *number);

/* The reading of a value; NULL: the value is no reading. */
const struct reading *value_reading(const struct subject *subject, const char *name);

const char *rules_expand(const struct subject *subject, const char *text);
bool rules_match(const struct subject *subject, const char *condition);
/* Applies the rules of a check. */
void rules_run(struct host *host, struct finding *finding, const char *check);

/* ---- functions of the tables ---- */

/* A value that is computed (facts.def). The list ends with the name NULL. */
struct fact {
	const char *name;
	const char *(*compute)(const struct subject *subject);
};
extern const struct fact facts[];
/* checks_probe.c */
const char *facts_probe_tried(const struct subject *subject);
int64_t
facts_probe_lost_bytes(const struct subject *subject); /* GPU memory that did not come back */

/* Scopes (EACH): move to the next subject. False: none is left. */
bool next_host(struct subject *subject);
bool next_gpu(struct subject *subject);
bool next_adapter(struct subject *subject);
bool next_device(struct subject *subject); /* a GPU or an adapter on the PCI bus */
bool next_pair(struct subject *subject);   /* a GPU, and the adapter that it uses */
bool next_closer(struct subject *subject); /* an adapter closer to a GPU than that one */
bool next_port(struct subject *subject);
bool next_uverbs(struct subject *subject);
bool next_cgroup(struct subject *subject);  /* a limit of this cgroup or one above */
bool next_preload(struct subject *subject); /* a library of LD_PRELOAD, or of /etc/ld.so.preload */
bool next_proved_pair(struct subject *subject); /* a pair that the probe proved: checks_probe.c */

static inline const char *truth(bool is)
{
	return is ? "1" : NULL;
}

#endif
