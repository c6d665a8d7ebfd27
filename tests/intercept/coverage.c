/* SPDX-License-Identifier: BSD-3-Clause */
/* coverage.c -- prints docs/coverage.md from the table of entry points */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum effect {
	ALLOCATION,
	FREE,
	CONTEXT,
	ACCESS,
	TAKEN,
	PHYSICAL,
	POOL,
	EXPORT,
	UNRECORDED,
	CAPTURE,
	QUERY,
	LOOKUP
};

/* Effect of a row on memory; whether a region may end with it. */
static const struct {
	const char *does, *ends;
} effects[] = {
	[ALLOCATION] = { "memory begins", "only what was freed there unseen" },
	[FREE] = { "memory ends", "yes" },
	[CONTEXT] = { "a context may end, and its memory", "yes" },
	[ACCESS] = { "mapped memory becomes usable, or no longer", "yes" },
	[TAKEN] = { "addresses are taken", "only what was freed there unseen" },
	[PHYSICAL] = { "physical memory is held or let go", "no" },
	[POOL] = { "a pool is cleaned up", "only what was freed unseen" },
	[EXPORT] = { "a dma-buf is made", "no" },
	[UNRECORDED] = { "memory appears that is not recorded", "no" },
	[CAPTURE] = { "a stream's capture begins or ends", "no" },
	[QUERY] = { "a question about a pointer", "no" },
	[LOOKUP] = { "functions are handed out", "no" },
};

enum ucx { UNHEARD, HEARD };

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
	return ucx == HEARD ? "yes" : "no";
}

static void print_function(const char *name)
{
	const struct row *first = NULL;
	char base[64], heard[256] = "";
	bool all = true, none = true;

	printf("| `%s` | ", name);
	for (size_t i = 0; i < COUNT(rows); i++) {
		base_of(rows[i].symbol, base, sizeof(base));
		if (strcmp(base, name))
			continue;
		printf("%s`%s` (%d.%d)", first ? ", " : "", rows[i].symbol, rows[i].since / 1000,
		       rows[i].since % 1000 / 10);
		first = first ? first : &rows[i];
		all &= rows[i].ucx == HEARD;
		none &= rows[i].ucx == UNHEARD;
		if (rows[i].ucx == HEARD)
			snprintf(heard + strlen(heard), sizeof(heard) - strlen(heard), "%s`%s`",
				 *heard ? ", " : "", rows[i].symbol);
	}
	if (first)
		printf(" | %s: %s | %s | %s |\n", effects[first->effect].does, first->why,
		       effects[first->effect].ends,
		       all    ? "yes"
		       : none ? "no"
			      : heard);
}

static void print_wrapped(void)
{
	char name[64], earlier[64];

	for (size_t i = 0; i < COUNT(rows); i++) {
		bool seen = false;

		base_of(rows[i].symbol, name, sizeof(name));
		for (size_t j = 0; j < i; j++) {
			base_of(rows[j].symbol, earlier, sizeof(earlier));
			seen |= !strcmp(name, earlier);
		}
		if (!seen)
			print_function(name);
	}
}

int main(void)
{
	printf("# Coverage: the doors that memory enters and leaves by\n\n"
	       "Made from `src/intercept/entry_points.def` by `make coverage`; `make check` "
	       "compares. A call "
	       "is seen\n"
	       "whether the program is linked to it, looks it up with `dlsym`, or gets it from "
	       "`cuGetProcAddress`\n"
	       "(`tests/intercept/check_matrix.sh` tries each row in each way). The column \"UCX "
	       "hears it\" "
	       "says what is in\n"
	       "the tables of UCX's own memory hooks, in its source of August 2026.\n\n"
	       "## CUDA driver: seen\n\n"
	       "| function | exported forms (since CUDA) | what it does | can end a registration | "
	       "UCX hears "
	       "it |\n"
	       "| --- | --- | --- | --- | --- |\n");
	print_wrapped();
	printf("\n## CUDA driver: passed through on purpose\n\n"
	       "These allocate, free, map or touch contexts by their name or parameters, and are "
	       "left alone. "
	       "A check in\n"
	       "`make check` compares both lists with an installed `cuda.h`, so that a new "
	       "function is "
	       "noticed.\n\n"
	       "| function | why it is left alone | UCX hears it |\n| --- | --- | --- |\n");
	for (size_t i = 0; i < COUNT(passed); i++)
		printf("| `%s` | %s | %s |\n", passed[i].symbol, passed[i].why, yes(passed[i].ucx));
	printf("\n## libibverbs: where its providers call it back\n\n"
	       "| function | since rdma-core | what it does |\n| --- | --- | --- |\n");
	for (size_t i = 0; i < COUNT(verbs); i++)
		printf("| `%s` | %d | %s%s |\n", verbs[i].symbol, verbs[i].since, verbs[i].why,
		       strcmp(verbs[i].effect, "PASS") && strcmp(verbs[i].effect, "IMPORT")
			       ? ""
			       : ": counted, and passed through");
	printf("\n## What no preload sees\n\n"
	       "- An object opened with `RTLD_DEEPBIND` is bound to the driver before the "
	       "program's own "
	       "scope; one opened\n"
	       "  by `dlmopen` has a driver of its own. Both are found when a registration is "
	       "asked for "
	       "(`bypasses` in the\n"
	       "  statistics, one warning each), and from then on every record is compared with "
	       "the driver's "
	       "BUFFER_ID\n"
	       "  before it is used.\n"
	       "- Programs that are linked statically to libc, or setuid, ignore `LD_PRELOAD`.\n"
	       "- `cuCheckpointProcess*` is called by another process.\n"
	       "- A free that goes unseen nevertheless is found at the next allocation at its "
	       "address, at "
	       "the "
	       "next clean-up of\n"
	       "  a pool, or by `PEERPIN_VERIFY=1`; it is counted as `missed_frees`.\n");
	return 0;
}
