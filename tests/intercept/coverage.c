/* SPDX-License-Identifier: BSD-3-Clause */
/* coverage.c -- prints docs/internals/coverage.md from the table of entry points */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum effect {
#define EFFECT_CUDA(name, ...) name,
#include "intercept/entry_points.def"
#undef EFFECT_CUDA
};

/* Effect of a row on memory; whether a region may end with it. */
static const struct {
	const char *does, *ends;
} effects[] = {
#define EFFECT_CUDA(name, does, ends) { does, ends },
#include "intercept/entry_points.def"
#undef EFFECT_CUDA
};

enum ucx { UNHOOKED, HOOKED };

struct row {
	const char *symbol;
	enum effect effect;
	int since;
	enum ucx ucx;
	const char *why;
};

static const struct row rows[] = {
#define ENTRY_CUDA(symbol, effect, since, ucx, why) { #symbol, effect, since, ucx, why },
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
};

static const struct {
	const char *symbol;
	enum ucx ucx;
	const char *why;
} passed[] = {
#define FORWARDED_CUDA(symbol, ucx, why) { #symbol, ucx, why },
#include "intercept/entry_points.def"
#undef FORWARDED_CUDA
};

static const struct {
	const char *symbol, *effect;
	int since;
	const char *why;
} verbs[] = {
#define ENTRY_VERBS(symbol, effect, since, why) { #symbol, #effect, since, why },
#include "intercept/entry_points.def"
#undef ENTRY_VERBS
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void base_of(const char *symbol, char *name, size_t size)
{
	static const char *const ends[] = { "_ptsz", "_v4", "_v3", "_v2" };

	snprintf(name, size, "%s", symbol);
	for (size_t i = 0; i < COUNT(ends); i++) {
		size_t length = strlen(name), end = strlen(ends[i]);

		if (length > end && !strcmp(name + length - end, ends[i]))
			name[length - end] = '\0';
	}
}

static const char *yes(enum ucx ucx)
{
	return ucx == HOOKED ? "yes" : "no";
}

static void print_function(const char *name, enum effect effect)
{
	const struct row *first = NULL;
	char base[64], hooked[256] = "";
	bool all = true, none = true;

	printf("| `%s` | ", name);
	for (size_t i = 0; i < COUNT(rows); i++) {
		base_of(rows[i].symbol, base, sizeof(base));
		if (strcmp(base, name) || rows[i].effect != effect)
			continue;
		printf("%s`%s` (%d.%d)", first ? ", " : "", rows[i].symbol, rows[i].since / 1000,
		       rows[i].since % 1000 / 10);
		first = first ? first : &rows[i];
		all &= rows[i].ucx == HOOKED;
		none &= rows[i].ucx == UNHOOKED;
		if (rows[i].ucx == HOOKED)
			snprintf(hooked + strlen(hooked), sizeof(hooked) - strlen(hooked), "%s`%s`",
				 *hooked ? ", " : "", rows[i].symbol);
	}
	if (first)
		printf(" | %s: %s | %s | %s |\n", effects[first->effect].does, first->why,
		       effects[first->effect].ends,
		       all    ? "yes"
		       : none ? "no"
			      : hooked);
}

static void print_wrapped(void)
{
	char name[64], earlier[64];

	for (size_t i = 0; i < COUNT(rows); i++) {
		bool seen = false;

		base_of(rows[i].symbol, name, sizeof(name));
		for (size_t j = 0; j < i; j++) {
			base_of(rows[j].symbol, earlier, sizeof(earlier));
			seen |= !strcmp(name, earlier) && rows[i].effect == rows[j].effect;
		}
		if (!seen)
			print_function(name, rows[i].effect);
	}
}

int main(void)
{
	printf("# Coverage: entry points that allocate, free or query memory\n\n"
	       "Generated from `src/intercept/entry_points.def` by `make coverage`; `make check` "
	       "compares. peerpin intercepts a\n"
	       "call whether the program is linked to it, looks it up with `dlsym`, or gets it "
	       "from "
	       "`cuGetProcAddress`\n"
	       "(`tests/intercept/check_matrix.sh` calls each row by each lookup path). The column "
	       "\"UCX hooks it\" lists the\n"
	       "tables of UCX's own memory hooks, in its source of August 2026.\n\n"
	       "## CUDA driver: intercepted\n\n"
	       "| function | exported forms (since CUDA) | effect | can end a registration | UCX "
	       "hooks it |\n"
	       "| --- | --- | --- | --- | --- |\n");
	print_wrapped();
	printf("\n## CUDA driver: forwarded on purpose\n\n"
	       "By name or parameters these functions allocate, free, map or change contexts; "
	       "peerpin does not intercept them.\n"
	       "`make check` compares both lists with an installed `cuda.h`, so that a new "
	       "function "
	       "is reported.\n\n"
	       "| function | why it is forwarded | UCX hooks it |\n| --- | --- | --- |\n");
	for (size_t i = 0; i < COUNT(passed); i++)
		printf("| `%s` | %s | %s |\n", passed[i].symbol, passed[i].why, yes(passed[i].ucx));
	printf("\n## libibverbs: functions that its clients or providers call\n\n"
	       "| function | since rdma-core | effect |\n| --- | --- | --- |\n");
	for (size_t i = 0; i < COUNT(verbs); i++)
		printf("| `%s` | %d | %s%s |\n", verbs[i].symbol, verbs[i].since, verbs[i].why,
		       strcmp(verbs[i].effect, "FORWARD") && strcmp(verbs[i].effect, "IMPORT")
			       ? ""
			       : ": counted and forwarded");
	printf("\n## Bypassing callers\n\n"
	       "From the first of these on peerpin compares each record with the driver's BUFFER_ID "
	       "before use, keeps no memory and\n"
	       "forwards queries. One warning names it (`bypasses` is 1).\n\n"
	       "- An object opened with `RTLD_DEEPBIND` is bound to the driver and to libc's `dlsym` "
	       "before the program's scope; an\n"
	       "  object opened by `dlmopen` has a driver of its own. The load itself counts, "
	       "whatever the object is linked to:\n"
	       "  by libc's `dlopen` it may reach the driver later. Loads by the driver's own "
	       "libraries do not count.\n"
	       "- An audit library (`LD_AUDIT`, `DT_AUDIT`) may rebind each call and each look-up "
	       "of the driver's functions, and peerpin\n"
	       "  cannot see which. It has objects in another namespace when peerpin's constructor "
	       "runs.\n"
	       "- A second libcuda, once a look-up returns a function of it; a preload in front of "
	       "peerpin that defines functions of\n"
	       "  the driver, or whose `dlsym` or `dlopen` does not hand on to peerpin's; a preload "
	       "behind it whose look-ups return\n"
	       "  functions that it does not export.\n"
	       "- A look-up of `dlopen` gets peerpin's, also in libc and by version. Beside "
	       "another library that defines `dlopen` the\n"
	       "  look-up keeps its result, and a result in libc counts.\n\n"
	       "Calls that nothing announces:\n\n"
	       "- A library that defines `dlopen` itself, and opens with RTLD_DEEPBIND by its own "
	       "RTLD_NEXT.\n"
	       "- Programs that are linked statically to libc, or setuid, ignore `LD_PRELOAD`.\n"
	       "- A process, mostly another one, calls `cuCheckpointProcess*`.\n"
	       "- peerpin finds a missed free at the next allocation at its address, at the next "
	       "trim of a pool, or with\n"
	       "  `PEERPIN_VERIFY=1`, and counts it as `missed_frees`.\n");
	return 0;
}
