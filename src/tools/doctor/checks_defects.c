/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_defects.c -- known defects of drivers and libraries, by their versions */
#include <stdio.h>
#include <string.h>

#include "tools/doctor/checks.h"

struct version {
	int number[3];
};

#define RACE                                                                                       \
	"can crash the kernel when a free calls nvidia_peermem back during a deregistration; "     \
	"peerpin deregisters before frees: missed frees and killed processes remain"
#define GUARD                                                                                      \
	"lacks a later guard of the free callback; peerpin deregisters before frees, so "          \
	"only missed frees and killed processes use it"
#define UPDATE "ask your administrator: NVIDIA driver "
#define GUIDE  "GPUDirect RDMA guide 12.6, 1.10"
#define TAGS   "tags of NVIDIA/open-gpu-kernel-modules"

static const struct {
	const char *of; /* part with the defect */
	struct version first, fixed;
	const char *words, *fix, *source;
} defects[] = {
	/* Where nvidia_peermem uses the callback and not the persistent interface. */
	{ "driver", { { 515, 43, 4 } }, { { 525, 105, 17 } }, RACE, UPDATE "525.105.17", GUIDE },
	{ "driver", { { 530 } }, { { 535, 14 } }, RACE, UPDATE "535.129.03", GUIDE },
	{ "driver", { { 535, 14 } }, { { 535, 129, 3 } }, GUARD, UPDATE "535.129.03", TAGS },
	{ "driver", { { 545 } }, { { 550, 40, 7 } }, GUARD, UPDATE "550.40.07", TAGS },
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
