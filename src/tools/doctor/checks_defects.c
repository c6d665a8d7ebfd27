/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_defects.c -- known defects of drivers and libraries, by their versions */
#include <stdio.h>
#include <string.h>

#include "tools/doctor/checks.h"

struct version {
	int number[3];
};

static const struct {
	const char *of; /* part with the defect */
	struct version first, fixed;
	const char *words, *fix, *source;
} defects[] = {
	/* On x86-64, where the driver's functions begin with an instruction that UCX cannot patch:
	 * from driver 575 on. */
	{ "UCX",
	  { { 1, 13, 1 } },
	  { { 1, 18, 1 } },
	  "cannot hook this driver: without a cache of GPU registrations it requests one in each "
	  "send (with peerpin a hit)",
	  "use UCX 1.18.1 or newer; until then start the program with peerpin",
	  "openucx/ucx#10627" },
};

static int checks_defects_compare(const struct version *one, const struct version *other)
{
	int order = 0;

	for (int i = 0; i < 3 && !order; i++)
		order = one->number[i] - other->number[i];
	return order;
}

void finding_defects(struct finding *finding, const char *of, const char *text)
{
	struct version version = { { 0 } };
	int *number = version.number;

	text += strcspn(text, "0123456789");
	(void)sscanf(text, "%d.%d.%d", number, number + 1, number + 2);
	for (size_t i = 0; i < sizeof(defects) / sizeof(defects[0]); i++) {
		if (!strcmp(defects[i].of, of) &&
		    checks_defects_compare(&version, &defects[i].first) >= 0 &&
		    checks_defects_compare(&version, &defects[i].fixed) < 0)
			finding_problem(finding, WARN, defects[i].fix, "%s %.*s %s (%s)", of,
					(int)strspn(text, "0123456789."), text, defects[i].words,
					defects[i].source);
	}
}
