/* SPDX-License-Identifier: BSD-3-Clause */
/* emit_table.c -- statistics as a table: 5 lines, and further lines for losses and errors */
#include "report/emit_forms.h"

#include <stdio.h>

#include "base/capped.h"
#include "base/plain_text.h"
#include "base/text.h"

#define LABEL_WIDTH 17
#define MOST_PAIRS  2 /* lines of reasons against the preferred registration method */
#define MOST_NAMED  4 /* reasons of failed registrations, or of bypassed requests */

#define counter(emitter, name) segment_value(&(emitter)->source->segment->counters.name)
#define tallied(emitter, name) segment_tallied((emitter)->source->segment, TALLY_##name)

/* A name must neither break the line nor change the terminal. */
static const char *emit_table_clean(const char *text, char *to, size_t size)
{
	text_copy(to, size, text);
	return plain_text(to, '?');
}

static void emit_table_begin_line(struct emitter *emitter, const char *title)
{
	output_add(emitter->output, "%-*s", LABEL_WIDTH, title);
}

static void emit_table_add_header(struct emitter *emitter)
{
	const struct emit_source *source = emitter->source;
	const struct segment_header *header = &source->segment->header;
	char time[32], program[128], host[128], job[128];

	usage_time(source->elapsed_ns, time, sizeof(time));
	output_add(emitter->output, "peerpin %s  %s  host %s", header->version,
		   emit_table_clean(header->program, program, sizeof(program)),
		   emit_table_clean(header->host, host, sizeof(host)));
	if (source->processes > 1) {
		output_add(emitter->output, "  %u processes", source->processes);
		if (source->killed)
			output_add(emitter->output, ", %u of them killed", source->killed);
	} else if (header->rank >= 0) {
		output_add(emitter->output, "  process %d  rank %d", header->process, header->rank);
	} else {
		output_add(emitter->output, "  process %d", header->process);
	}
	if (header->job[0])
		output_add(emitter->output, "  job %s",
			   emit_table_clean(header->job, job, sizeof(job)));
	output_add(emitter->output, "  %s\n", time);
}

/* The text ends at the name of the first row, the preferred method: reasons are against it. */
static const char reason_title[] = "not by "
#define METHOD(id, name, call, prepare, unpin) name "\0"
#include "report/methods.def"
#undef METHOD
	;

static const char *emit_table_reason(const struct segment_pair *pair, char to[SEGMENT_REASON])
{
	bool known = pair->known && pair->adapter >= 0 && pair->adapter < SEGMENT_ADAPTERS;

	return known ? segment_reason(pair, to) : NULL;
}

/* Return the pair's reason. NULL: none, or an earlier pair has an equal one. */
static const char *emit_table_new_reason(const struct segment *segment, int pair,
					 char to[SEGMENT_REASON])
{
	const char *reason = emit_table_reason(&segment->pairs[pair], to);
	char other[SEGMENT_REASON];

	for (int i = 0; i < pair && reason; i++) {
		if (emit_table_reason(&segment->pairs[i], other) && text_equals(reason, other))
			reason = NULL;
	}
	return reason;
}

/* `room`: number of lines, at least 1. The last line states how many reasons are omitted. */
static void emit_table_add_reasons(struct emitter *emitter, unsigned int room)
{
	const struct segment *segment = emitter->source->segment;
	char reason[SEGMENT_REASON], line[SEGMENT_REASON], name[128], more[64] = "";
	unsigned int count = 0, at = 0;

	for (int i = 0; i < SEGMENT_PAIRS; i++)
		count += emit_table_new_reason(segment, i, reason) != NULL;
	for (int i = 0; i < SEGMENT_PAIRS && at < room; i++) {
		const struct segment_pair *pair = &segment->pairs[i];

		if (!emit_table_new_reason(segment, i, reason))
			continue;
		if (++at == room && count > room)
			snprintf(more, sizeof(more), "; %u more in PEERPIN_STATS_FILE=FILE",
				 count - room);
		output_add(
			emitter->output, "%-*sGPU %d, %s: %s%s\n", LABEL_WIDTH, reason_title,
			pair->gpu,
			emit_table_clean(segment->adapters[pair->adapter].name, name, sizeof(name)),
			emit_table_clean(reason, line, sizeof(line)), more);
	}
}

static void emit_table_add_usage(struct emitter *emitter)
{
	const struct emit_source *source = emitter->source;
	char usage[400];

	usage_write(source->segment, usage, sizeof(usage));
	emit_table_begin_line(emitter, "GPUDirect RDMA");
	/* A plain "used" would claim use by all processes. */
	if (source->processes > 1 && source->used && source->used < source->processes &&
	    text_begins(usage, "used"))
		output_add(emitter->output, "used by %u of %u processes%s\n", source->used,
			   source->processes, usage + text_length("used"));
	else
		output_add(emitter->output, "%s\n", usage);
}

static void emit_table_add_requests(struct emitter *emitter)
{
	uint64_t misses =
		add_capped(counter(emitter, synchronous), counter(emitter, synchronous_queued));
	char share[16];

	usage_hit_rate(emitter->source->segment, share, sizeof(share));
	emit_table_begin_line(emitter, "requests");
	output_add(emitter->output, "%llu  %llu hits%s", llu(tallied(emitter, requests)),
		   llu(tallied(emitter, hits)), share);
	if (counter(emitter, waited))
		output_add(emitter->output, "  %llu waited", llu(counter(emitter, waited)));
	output_add(emitter->output, "  %llu %s  %llu bypassed", llu(misses),
		   misses == 1 ? "miss" : "misses", llu(counter(emitter, bypassed)));
	if (counter(emitter, ucx_unhooked))
		output_add(emitter->output,
			   "  %llu UCX without hooks: its requests hit (use UCX 1.18.1)",
			   llu(counter(emitter, ucx_unhooked)));
	output_add(emitter->output, "\n");
}

/* A number, and the time that it took, if any. */
static void emit_table_add_timed(struct emitter *emitter, uint64_t number, const char *words,
				 uint64_t nanoseconds)
{
	char time[32];

	usage_time(nanoseconds, time, sizeof(time));
	output_add(emitter->output, "%llu %s", llu(number), words);
	if (nanoseconds)
		output_add(emitter->output, " (%s)", time);
	output_add(emitter->output, "  ");
}

static void emit_table_add_registrations(struct emitter *emitter)
{
	uint64_t background = counter(emitter, registrations_background);

	emit_table_begin_line(emitter, "registrations");
	emit_table_add_timed(emitter, background, "in the background",
			     counter(emitter, background_ns));
	emit_table_add_timed(emitter, counter(emitter, registrations) - background,
			     "in the program", counter(emitter, program_ns));
	output_add(emitter->output, "%llu failed", llu(counter(emitter, registrations_failed)));
	if (counter(emitter, evictions))
		output_add(emitter->output, "  %llu evicted", llu(counter(emitter, evictions)));
	if (hints_lacks_idle_cpu(emitter->source->segment))
		output_add(emitter->output, "  no idle CPU (delays: %llu)",
			   llu(counter(emitter, background_delays)));
	output_add(emitter->output, "\n");
}

static void emit_table_add_frees(struct emitter *emitter)
{
	emit_table_begin_line(emitter, "frees");
	output_add(emitter->output, "%llu of %llu allocations  ", llu(counter(emitter, frees)),
		   llu(counter(emitter, allocations)));
	emit_table_add_timed(emitter, counter(emitter, invalidated), "deregistrations",
			     counter(emitter, free_ns));
	output_add(emitter->output, "%llu missed\n", llu(counter(emitter, missed_frees)));
}

static void emit_table_add_kept(struct emitter *emitter)
{
	char device[32], host[32];

	if (!counter(emitter, kept))
		return;
	usage_bytes(counter(emitter, kept_bytes_peak), device, sizeof(device));
	usage_bytes(counter(emitter, kept_host_bytes_peak), host, sizeof(host));
	emit_table_begin_line(emitter, "kept memory");
	output_add(emitter->output, "%llu kept  %llu reused  %s at peak",
		   llu(counter(emitter, kept)), llu(counter(emitter, reused)), device);
	if (counter(emitter, kept_host_bytes_peak))
		output_add(emitter->output, "  %s of host memory", host);
	output_add(emitter->output, "\n");
}

/* Names the reasons of one group that have a number. */
static void emit_table_add_named(struct emitter *emitter, const char *title, const char *group)
{
	unsigned int named = 0, more = 0;

	for (struct segment_row row = { .count = 0 }; segment_next_row(&row);) {
		uint64_t number = *row.label && text_begins(row.name, group)
					  ? segment_number(emitter->source->segment, &row)
					  : 0;

		if (!number)
			continue;
		if (named == MOST_NAMED) {
			more++;
			continue;
		}
		if (!named++)
			emit_table_begin_line(emitter, title);
		output_add(emitter->output, "%s%llu %s", named > 1 ? "  " : "", llu(number),
			   row.label);
	}
	if (more)
		output_add(emitter->output, "  and %u more", more);
	if (named)
		output_add(emitter->output, "\n");
}

/* Lines that are there only after a loss or an error. */
static void emit_table_add_problems(struct emitter *emitter)
{
	char hint[300];

	if (hints_find(emitter->source->segment, hint, sizeof(hint)))
		output_add(emitter->output, "%-*s%s\n", LABEL_WIDTH, "hint", hint);
	/* These explain missed frees. */
	if (counter(emitter, bypasses))
		output_add(emitter->output,
			   "Bypassed by %llu: peerpin does not see all calls of CUDA. The log has "
			   "the names.\n",
			   llu(counter(emitter, bypasses)));
	else if (counter(emitter, missed_frees))
		output_add(emitter->output,
			   "Missed frees: run with PEERPIN_VERIFY=1 PEERPIN_LOG_LEVEL=debug, "
			   "and report the log.\n");
	if (counter(emitter, internal_errors))
		output_add(emitter->output,
			   "Internal consistency checks failed: %llu. Please report the log.\n",
			   llu(counter(emitter, internal_errors)));
}

void emit_table(struct emitter *emitter)
{
	emit_table_add_header(emitter);
	emit_table_add_usage(emitter);
	emit_table_add_reasons(emitter, MOST_PAIRS);
	emit_table_add_requests(emitter);
	emit_table_add_named(emitter, "  bypassed", "bypassed_");
	emit_table_add_registrations(emitter);
	emit_table_add_named(emitter, "  failed", "failed_");
	emit_table_add_frees(emitter);
	emit_table_add_kept(emitter);
	emit_table_add_problems(emitter);
}

/* One process of many: without the numbers that the table has. */
void emit_table_line(struct emitter *emitter)
{
	const struct segment_header *header = &emitter->source->segment->header;
	char bytes[24], usage[400] = "used", host[sizeof(header->host)];

	if (!usage_is_used(emitter->source->segment))
		usage_write(emitter->source->segment, usage, sizeof(usage));
	usage_bytes(counter(emitter, pinned_bytes_peak), bytes, sizeof(bytes));
	output_add(emitter->output, "peerpin: ");
	if (emitter->source->processes > 1)
		output_add(emitter->output, "%u processes ", emitter->source->processes);
	else if (header->rank >= 0)
		output_add(emitter->output, "rank %d ", header->rank);
	output_add(emitter->output, "%s GPUDirect RDMA %s, hits %llu/%llu, registered %s at peak\n",
		   emit_table_clean(header->host, host, sizeof(host)), usage,
		   llu(tallied(emitter, hits)), llu(tallied(emitter, requests)), bytes);
}
