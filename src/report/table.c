/* SPDX-License-Identifier: BSD-3-Clause */
/* table.c -- statistics as a table: 5 lines, and further lines for losses and errors */
#include "report/output.h"

#include <stdio.h>

#include "base/capped.h"
#include "base/plain_text.h"
#include "base/text.h"
#include "report/statistics.h"

#define LABEL_WIDTH 17
#define MOST_PAIRS  2 /* lines of reasons against the preferred registration method */
#define MOST_NAMED  4 /* reasons of failed registrations, or of forwarded requests */

/* A name must neither break the line nor change the terminal. */
static const char *table_clean(const char *text, char *to, size_t size)
{
	text_copy(to, size, text);
	return plain_text(to, '?');
}

static void table_begin_line(struct output *output, const char *title)
{
	output_add(output, "%-*s", LABEL_WIDTH, title);
}

static void table_add_header(struct output *output, uint64_t elapsed_ns)
{
	const struct statistics_process *process = &statistics.process;
	char time[32], program[128], host[128], job[128];

	usage_time(elapsed_ns, time, sizeof(time));
	output_add(output, "peerpin %s  %s  host %s  process %d", process->version,
		   table_clean(process->program, program, sizeof(program)),
		   table_clean(process->host, host, sizeof(host)), process->number);
	if (process->rank >= 0)
		output_add(output, "  rank %d", process->rank);
	if (process->local_size > 1)
		output_add(output, ", one of %d here", process->local_size);
	if (process->job[0])
		output_add(output, "  job %s", table_clean(process->job, job, sizeof(job)));
	output_add(output, "  %s\n", time);
}

/* The text ends at the name of the first row, the preferred method: reasons are against it. */
static const char reason_title[] = "not by "
#define METHOD(id, name) name "\0"
#include "report/methods.def"
#undef METHOD
	;

static const char *table_reason(const struct statistics_pair *pair, char to[STATISTICS_REASON])
{
	bool known = pair->known && pair->adapter >= 0 && pair->adapter < STATISTICS_ADAPTERS;

	return known ? statistics_reason(pair, to) : NULL;
}

/* Return the pair's reason. NULL: none, or an earlier pair has an equal one. */
static const char *table_new_reason(int pair, char to[STATISTICS_REASON])
{
	const char *reason = table_reason(&statistics.pairs[pair], to);
	char other[STATISTICS_REASON];

	for (int i = 0; i < pair && reason; i++) {
		if (table_reason(&statistics.pairs[i], other) && text_equals(reason, other))
			reason = NULL;
	}
	return reason;
}

/* `room`: number of lines, at least 1. The last line states how many reasons are omitted. */
static void table_add_reasons(struct output *output, unsigned int room)
{
	char reason[STATISTICS_REASON], line[STATISTICS_REASON], name[128], more[64] = "";
	unsigned int count = 0, at = 0;

	for (int i = 0; i < STATISTICS_PAIRS; i++)
		count += table_new_reason(i, reason) != NULL;
	for (int i = 0; i < STATISTICS_PAIRS && at < room; i++) {
		const struct statistics_pair *pair = &statistics.pairs[i];

		if (!table_new_reason(i, reason))
			continue;
		if (++at == room && count > room)
			snprintf(more, sizeof(more), "; %u more in PEERPIN_STATS_FILE=FILE",
				 count - room);
		output_add(output, "%-*sGPU %d, %s: %s%s\n", LABEL_WIDTH, reason_title, pair->gpu,
			   table_clean(statistics.adapters[pair->adapter].name, name, sizeof(name)),
			   table_clean(reason, line, sizeof(line)), more);
	}
}

static void table_add_usage(struct output *output)
{
	char usage[400];

	usage_write(usage, sizeof(usage));
	table_begin_line(output, "GPUDirect RDMA");
	output_add(output, "%s\n", usage);
}

static void table_add_requests(struct output *output)
{
	uint64_t misses =
		add_capped(statistics_get(synchronous), statistics_get(synchronous_queued));
	char share[16];

	usage_hit_rate(share, sizeof(share));
	table_begin_line(output, "requests");
	output_add(output, "%llu  %llu hits%s", llu(statistics_tallied(TALLY_requests)),
		   llu(statistics_tallied(TALLY_hits)), share);
	if (statistics_get(waited))
		output_add(output, "  %llu waited", llu(statistics_get(waited)));
	output_add(output, "  %llu %s  %llu forwarded", llu(misses),
		   misses == 1 ? "miss" : "misses", llu(statistics_get(forwarded)));
	if (statistics_get(ucx_unhooked))
		output_add(output, "  %llu UCX without hooks: its requests hit (use UCX 1.18.1)",
			   llu(statistics_get(ucx_unhooked)));
	output_add(output, "\n");
}

/* A number, and the time that it took, if any. */
static void table_add_timed(struct output *output, uint64_t number, const char *words,
			    uint64_t nanoseconds)
{
	char time[32];

	usage_time(nanoseconds, time, sizeof(time));
	output_add(output, "%llu %s", llu(number), words);
	if (nanoseconds)
		output_add(output, " (%s)", time);
	output_add(output, "  ");
}

static void table_add_registrations(struct output *output)
{
	uint64_t background = statistics_get(registrations_background);

	table_begin_line(output, "registrations");
	table_add_timed(output, background, "in the background", statistics_get(background_ns));
	table_add_timed(output, statistics_get(registrations) - background, "in the program",
			statistics_get(program_ns));
	output_add(output, "%llu failed", llu(statistics_get(registrations_failed)));
	if (statistics_get(evictions))
		output_add(output, "  %llu evicted", llu(statistics_get(evictions)));
	output_add(output, "\n");
}

static void table_add_frees(struct output *output)
{
	table_begin_line(output, "frees");
	output_add(output, "%llu of %llu allocations  ", llu(statistics_get(frees)),
		   llu(statistics_get(allocations)));
	table_add_timed(output, statistics_get(invalidated), "deregistrations",
			statistics_get(free_ns));
	output_add(output, "%llu missed\n", llu(statistics_get(missed_frees)));
}

static void table_add_kept(struct output *output)
{
	char device[32], host[32];

	if (!statistics_get(kept))
		return;
	usage_bytes(statistics_get(kept_bytes_peak), device, sizeof(device));
	usage_bytes(statistics_get(kept_host_bytes_peak), host, sizeof(host));
	table_begin_line(output, "kept memory");
	output_add(output, "%llu kept  %llu reused  %s at peak", llu(statistics_get(kept)),
		   llu(statistics_get(reused)), device);
	if (statistics_get(kept_host_bytes_peak))
		output_add(output, "  %s of host memory", host);
	output_add(output, "\n");
}

/* Names the reasons of one group that have a number. */
static void table_add_named(struct output *output, const char *title, const char *group)
{
	unsigned int named = 0, more = 0;

	for (struct statistics_row row = { .count = 0 }; statistics_next_row(&row);) {
		uint64_t number =
			*row.label && text_begins(row.name, group) ? statistics_number(&row) : 0;

		if (!number)
			continue;
		if (named == MOST_NAMED) {
			more++;
			continue;
		}
		if (!named++)
			table_begin_line(output, title);
		output_add(output, "%s%llu %s", named > 1 ? "  " : "", llu(number), row.label);
	}
	if (more)
		output_add(output, "  and %u more", more);
	if (named)
		output_add(output, "\n");
}

/* Lines that are there only after a loss or an error. */
static void table_add_problems(struct output *output)
{
	/* These explain missed frees. */
	if (statistics_get(bypasses))
		output_add(output,
			   "Bypassed by %llu: peerpin does not see all calls of CUDA. The log has "
			   "the names.\n",
			   llu(statistics_get(bypasses)));
	else if (statistics_get(missed_frees))
		output_add(output,
			   "Missed frees: run with PEERPIN_VERIFY=1 PEERPIN_LOG_LEVEL=debug, "
			   "and report the log.\n");
	if (statistics_get(internal_errors))
		output_add(output,
			   "Internal consistency checks failed: %llu. Please report the log.\n",
			   llu(statistics_get(internal_errors)));
}

void table_write(struct output *output, uint64_t elapsed_ns)
{
	table_add_header(output, elapsed_ns);
	table_add_usage(output);
	table_add_reasons(output, MOST_PAIRS);
	table_add_requests(output);
	table_add_named(output, "  forwarded", "forwarded_");
	table_add_registrations(output);
	table_add_named(output, "  failed", "failed_");
	table_add_frees(output);
	table_add_kept(output);
	table_add_problems(output);
}

void table_write_line(struct output *output)
{
	const struct statistics_process *process = &statistics.process;
	char bytes[24], usage[400] = "used", host[sizeof(process->host)];
	bool used = usage_is_used();

	/* A usage with served requests has the peak already. */
	if (!used)
		usage_write(usage, sizeof(usage));
	usage_bytes(statistics_get(pinned_bytes_peak), bytes, sizeof(bytes));
	output_add(output, "peerpin: ");
	if (process->rank >= 0)
		output_add(output, "rank %d ", process->rank);
	output_add(output, "%s GPUDirect RDMA %s, hits %llu/%llu",
		   table_clean(process->host, host, sizeof(host)), usage,
		   llu(statistics_tallied(TALLY_hits)), llu(statistics_tallied(TALLY_requests)));
	if (used || !usage_served())
		output_add(output, ", registered %s at peak", bytes);
	output_add(output, "\n");
}
