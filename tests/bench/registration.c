/* SPDX-License-Identifier: BSD-3-Clause */
/* registration.c -- cost of registrations and allocations to a client, with peerpin and without
 *
 * Preloaded, it runs each part in a process of its own with the settings in question. Hits stand
 * beside a process without the preload, allocations beside the driver's own in the same process.
 * Without a preload only the former rows exist. Needs a driver and an adapter, real or simulated,
 * and libc alone: it runs on GPU machines.
 */
#include "registration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SKIPPED 77
#define BARE	"without peerpin"

/* ---- the runs ---- */

#define BARE_ROWS 128

static struct bench_row bare[BARE_ROWS];
static unsigned int bare_count;

static void keep_bare(struct bench_row row, void *unused)
{
	(void)unused;
	bench_require(bare_count < BARE_ROWS, "too many rows");
	bare[bare_count++] = row;
}

/* A row with peerpin; `mode` is appended to its name. */
static void report_with(struct bench_row row, void *mode)
{
	char name[sizeof(row.name)];

	for (unsigned int i = 0; i < bare_count; i++) {
		if (strcmp(bare[i].name, row.name) || bare[i].live != row.live ||
		    bare[i].threads != row.threads)
			continue;
		snprintf(row.peer, sizeof(row.peer), BARE);
		row.peer_ns = bare[i].ns;
	}
	if (mode) {
		snprintf(name, sizeof(name), "%.60s, %s", row.name, (const char *)mode);
		memcpy(row.name, name, sizeof(name));
	}
	if (bench_wants(row.name))
		bench_report(row);
}

static void report_bare(struct bench_row row, void *unused)
{
	(void)unused;
	snprintf(row.name + strlen(row.name), sizeof(row.name) - strlen(row.name), ", " BARE);
	if (bench_wants(row.name))
		bench_report(row);
}

/* Of each part the run without peerpin is first: the peer of the others. */
static void run_hits_apart(bool preloaded)
{
	static const char *const without[] = { "LD_PRELOAD", NULL };

	bare_count = 0;
	bench_again("hits", without, preloaded ? keep_bare : report_bare, NULL);
	if (preloaded)
		bench_again("hits", without + 1, report_with, NULL);
}

/* A delay in the simulated adapter: as long as the shortest measured registration on a real one. */
#define DELAY "PEERPIN_SIM_ADAPTER_DELAY=50"

/* With peerpin, in a mode of background registration. `setting`: NULL: none. */
static void run_in_mode(const char *part, const char *mode, const char *setting)
{
	char preregister[32];
	const char *const with[] = { preregister, setting, NULL };

	snprintf(preregister, sizeof(preregister), "PEERPIN_PREREGISTER=%s", mode);
	bench_again(part, with, report_with, (void *)mode);
}

static void run_allocating(bool preloaded)
{
	static const char *const modes[] = { "off", "sync", "auto", "all", NULL };
	static const char *const without[] = { "LD_PRELOAD", DELAY, NULL };

	if (!preloaded && allocating_is_wanted(BARE))
		bench_again("allocating", without, report_bare, NULL);
	bare_count = 0;
	for (const char *const *mode = modes; preloaded && *mode; mode++) {
		if (allocating_is_wanted(*mode))
			run_in_mode("allocating", *mode, DELAY);
	}
}

/* The simulated adapter registers at once: times show what peerpin adds. A second run without
 * peerpin, after those with it, shows how much the machine's own times vary. */
static void run_first(bool preloaded)
{
	static const char *const without[] = { "LD_PRELOAD", NULL };

	bare_count = 0;
	if (!preloaded && first_is_wanted(BARE))
		bench_again("first", without, report_bare, NULL);
	if (!preloaded || !(first_is_wanted("off") || first_is_wanted("auto")))
		return;
	bench_again("first", without, keep_bare, NULL);
	run_in_mode("first", "off", NULL);
	run_in_mode("first", "auto", NULL);
	bench_again("first", without, report_with, (void *)"again " BARE);
}

static void run_part(const char *part)
{
	if (!strcmp(part, "hits"))
		run_hits();
	else if (!strcmp(part, "first"))
		run_first_requests();
	else if (!strcmp(part, "allocating"))
		run_allocations();
}

static const char *add_to_machine(void)
{
	return client.machine;
}

int main(int argc, char **argv)
{
	static const unsigned int threads[] = { 1, 2, 4, 8, 16, 0 };
	static const struct bench bench = {
		.name = "registration",
		.about = "What registrations and allocations of GPU memory cost a client: with "
			 "peerpin preloaded beside\nthe same without it, in processes that this "
			 "one starts. What is \"added\" to cuMemAlloc and\ncuMemFree is the median "
			 "of what they take more than the driver's own, called in turn with\n"
			 "them; not least and most are beside it, but between what it lies with "
			 "95 % certainty.\n",
		.threads = threads,
		.add_to_machine = add_to_machine,
	};
	bool preloaded;

	bench_begin(&bench, argc, argv);
	if (!client_begin())
		return SKIPPED;
	if (bench_part()) {
		run_part(bench_part());
		return bench_end();
	}
	preloaded = client.peerpin_statistic;
	if (!preloaded)
		fprintf(stderr, "registration: peerpin is not preloaded: this is what there is "
				"without it\n");
	run_hits_apart(preloaded);
	run_first(preloaded);
	run_allocating(preloaded);
	return bench_end();
}
