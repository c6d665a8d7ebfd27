/* SPDX-License-Identifier: BSD-3-Clause */
/* emit_table.c -- statistics as a table of at most MOST_LINES lines */
#include "report/emit_forms.h"

#include "base/system.h"
#include "base/text.h"

#define LABEL_WIDTH 17
#define MOST_LINES  14

/* Print 4 lines always, the others only with a nonzero value. */
static bool emit_table_is_shown(const struct emitter *emitter, enum emit_line line)
{
	return line == LINE_ALLOCATIONS || line == LINE_REGISTRATIONS || line == LINE_REQUESTS ||
	       line == LINE_TIME || emitter->lines[line].shown;
}

static const char *emit_table_title(enum emit_line line)
{
	switch (line) {
	case LINE_ALLOCATIONS:
		return "allocations";
	case LINE_QUERIES:
		return "pointer queries";
	case LINE_REGISTRATIONS:
		return "registrations";
	case LINE_FAILURES:
		return "  failed";
	case LINE_REQUESTS:
		return "requests";
	case LINE_REASONS:
		return "  bypassed";
	case LINE_TIME:
		return "registering";
	case LINE_FREES:
		return "at free";
	case LINE_NEVER_USED:
		return "never used";
	case LINE_COUNT:
		break;
	}
	return "";
}

static void emit_table_format_value(const struct emit_row *row, char *to, size_t size)
{
	switch (row->unit) {
	case UNIT_COUNT:
	case UNIT_COUNT_NOW:
		system_format(to, size, "%llu", (unsigned long long)row->value);
		break;
	case UNIT_BYTES:
	case UNIT_BYTES_NOW:
	case UNIT_BYTES_PEAK:
		usage_bytes(row->value, to, size);
		break;
	case UNIT_NS:
	case UNIT_NS_NOW:
		usage_time(row->value, to, size);
		break;
	}
}

/* Omit a cell that does not fit: a cut number would be wrong. */
static void emit_table_add_cell(struct emitter *emitter, enum emit_line line, const char *value,
				const char *label)
{
	char *text = emitter->lines[line].text;
	size_t used = emitter->lines[line].used, room = EMIT_LINE_LENGTH - used;
	int length = system_format(text + used, room, used ? "  %s%s%s" : "%8s%s%s", value,
				   *label ? " " : "", label);

	if (length > 0 && (size_t)length < room)
		emitter->lines[line].used += (size_t)length;
	else
		text[used] = '\0';
}

void emit_table_row(void *argument, const struct emit_row *row)
{
	struct emitter *emitter = argument;
	const char *label = row->label;
	char value[32];

	if (row->line == LINE_NO_LINE)
		return;
	if (row->value)
		emitter->lines[row->line].shown = true;
	/* Omit reasons and failures with 0: many kinds exist, few occur. */
	if (!row->value &&
	    (*label == '+' || row->line == LINE_REASONS || row->line == LINE_FAILURES))
		return;
	if (*label == '+')
		label++;
	emit_table_format_value(row, value, sizeof(value));
	emit_table_add_cell(emitter, row->line, value, label);
}

static void emit_table_add_share(struct emitter *emitter)
{
	const struct segment *segment = emitter->source->segment;
	uint64_t requests = segment_tallied(segment, TALLY_requests),
		 hits = segment_tallied(segment, TALLY_hits);
	double percent;
	char share[16];

	if (!requests)
		return;
	percent = 100.0 * (double)hits / (double)requests;
	/* Print 100 % only if every request hit. */
	if (hits < requests && percent > 99.9)
		percent = 99.9;
	system_format(share, sizeof(share), "%.1f %%", percent);
	emit_table_add_cell(emitter, LINE_REQUESTS, share, "hit");
}

static void emit_table_add_saved(struct emitter *emitter)
{
	uint64_t saved = segment_value(&emitter->source->segment->counters.saved_ns);
	char time[32];

	if (!saved)
		return;
	usage_time(saved, time, sizeof(time));
	emit_table_add_cell(emitter, LINE_TIME, time, "saved (estimate: first uses that hit)");
}

/* Add the setting that excludes the regions that were never used. */
static void emit_table_add_setting(struct emitter *emitter)
{
	uint64_t bytes, skipped;
	char size[24], text[64];

	if (usage_registers_all(emitter->source->segment))
		emit_table_add_cell(emitter, LINE_NEVER_USED, "-> PEERPIN_PREREGISTER=auto",
				    "registers requested sizes only");
	if (!usage_smallest_size(emitter->source->segment, &bytes, &skipped))
		return;
	if (bytes >= 1 << 20)
		system_format(size, sizeof(size), "%lluM", (unsigned long long)bytes >> 20);
	else if (bytes >= 1 << 10)
		system_format(size, sizeof(size), "%lluK", (unsigned long long)bytes >> 10);
	else
		system_format(size, sizeof(size), "%llu", (unsigned long long)bytes);
	system_format(text, sizeof(text), "-> PEERPIN_MIN_SIZE=%s excludes", size);
	system_format(size, sizeof(size), "%llu", (unsigned long long)skipped);
	emit_table_add_cell(emitter, LINE_NEVER_USED, text, size);
}

/* Replace control characters: a name must not break the line. */
static const char *emit_table_clean(const char *text, char to[128])
{
	size_t length = 0;

	for (; text[length] && length < 127; length++)
		to[length] = (unsigned char)text[length] < ' ' || text[length] == 0x7f
				     ? '?'
				     : text[length];
	to[length] = '\0';
	return to;
}

static void emit_table_add_header(struct emitter *emitter)
{
	const struct emit_source *source = emitter->source;
	const struct segment_header *header = &source->segment->header;
	char time[32], program[128], host[128], job[128];

	usage_time(source->elapsed_ns, time, sizeof(time));
	output_add(emitter->output, "peerpin %s  %s  host %s", header->version,
		   emit_table_clean(header->program, program),
		   emit_table_clean(header->host, host));
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
		output_add(emitter->output, "  job %s", emit_table_clean(header->job, job));
	output_add(emitter->output, "  %s\n", time);
}

/* Labels of reasons: the method that was not used. */
static const char titles[][20] = { "not by dma-buf", "not by peer mem." };

static const char *emit_table_pair_reason(const struct segment_pair *pair, size_t title,
					  char to[SEGMENT_REASON])
{
	bool known = pair->known && pair->adapter >= 0 && pair->adapter < SEGMENT_ADAPTERS;

	return known && text_equals(pair->method, "dma-buf") == title ? segment_reason(pair, to)
								      : NULL;
}

/* Return the pair's reason under that title. NULL: none, or an earlier pair has an equal one. */
static const char *emit_table_new_reason(const struct segment *segment, int pair, size_t title,
					 char to[SEGMENT_REASON])
{
	const char *reason = emit_table_pair_reason(&segment->pairs[pair], title, to);
	char other[SEGMENT_REASON];

	for (int i = 0; i < pair && reason; i++) {
		if (emit_table_pair_reason(&segment->pairs[i], title, other) &&
		    text_equals(reason, other))
			reason = NULL;
	}
	return reason;
}

/* `room`: number of lines, at least 1. The last line states how many reasons are omitted. */
static void emit_table_add_reasons(struct emitter *emitter, unsigned int room)
{
	const struct segment *segment = emitter->source->segment;
	char reason[SEGMENT_REASON], line[128], name[128], more[64] = "";
	unsigned int count = 0, at = 0;

	for (size_t i = 0; i < sizeof(titles) / sizeof(*titles); i++) {
		for (int pair = 0; pair < SEGMENT_PAIRS; pair++)
			count += emit_table_new_reason(segment, pair, i, reason) != NULL;
	}
	for (size_t i = 0; i < sizeof(titles) / sizeof(*titles); i++) {
		for (int pair = 0; pair < SEGMENT_PAIRS && at < room; pair++) {
			if (!emit_table_new_reason(segment, pair, i, reason))
				continue;
			if (++at == room && count > room)
				system_format(more, sizeof(more),
					      "; %u more in PEERPIN_STATS_FILE=FILE", count - room);
			output_add(
				emitter->output, "%-*sGPU %d, %s: %s%s\n", LABEL_WIDTH, titles[i],
				segment->pairs[pair].gpu,
				emit_table_clean(
					segment->adapters[segment->pairs[pair].adapter].name, name),
				emit_table_clean(reason, line), more);
		}
	}
}

static void emit_table_add_usage(struct emitter *emitter)
{
	const struct emit_source *source = emitter->source;
	char usage[400];

	usage_write(source->segment, usage, sizeof(usage));
	output_add(emitter->output, "%-*s", LABEL_WIDTH, "GPUDirect RDMA");
	/* A plain "used" would claim use by all processes. */
	if (source->processes > 1 && source->used && source->used < source->processes)
		output_add(emitter->output, "used by %u of %u processes%s\n", source->used,
			   source->processes, usage + text_length("used"));
	else
		output_add(emitter->output, "%s\n", usage);
}

void emit_table_end(struct emitter *emitter)
{
	const struct segment *segment = emitter->source->segment;
	unsigned int lines = 2; /* header and usage */

	for (enum emit_line line = 0; line < LINE_COUNT; line++)
		lines += emit_table_is_shown(emitter, line);
	lines += segment_value(&segment->counters.missed_frees) != 0;
	lines += segment_value(&segment->counters.internal_errors) != 0;
	emit_table_add_header(emitter);
	emit_table_add_usage(emitter);
	emit_table_add_reasons(emitter, MOST_LINES - lines);
	emit_table_add_share(emitter);
	emit_table_add_saved(emitter);
	emit_table_add_setting(emitter);
	for (enum emit_line line = 0; line < LINE_COUNT; line++) {
		if (emit_table_is_shown(emitter, line))
			output_add(emitter->output, "%-*s%s\n", LABEL_WIDTH, emit_table_title(line),
				   emitter->lines[line].text);
	}
	if (segment_value(&segment->counters.missed_frees))
		output_add(emitter->output,
			   "Missed frees: run with PEERPIN_VERIFY=1 PEERPIN_LOG_LEVEL=debug, "
			   "and report the log.\n");
	if (segment_value(&segment->counters.internal_errors))
		output_add(emitter->output,
			   "Internal consistency checks failed: %llu. Please report the log.\n",
			   (unsigned long long)segment_value(&segment->counters.internal_errors));
}

void emit_table_line(struct emitter *emitter)
{
	const struct segment *segment = emitter->source->segment;
	const struct segment_header *header = &segment->header;
	char bytes[24], saved[24], usage[400] = "used";

	if (!usage_is_used(segment))
		usage_write(segment, usage, sizeof(usage));
	usage_bytes(segment_value(&segment->counters.pinned_bytes_peak), bytes, sizeof(bytes));
	usage_time(segment_value(&segment->counters.saved_ns), saved, sizeof(saved));
	output_add(emitter->output, "peerpin: ");
	if (emitter->source->processes > 1)
		output_add(emitter->output, "%u processes ", emitter->source->processes);
	else if (header->rank >= 0)
		output_add(emitter->output, "rank %d ", header->rank);
	output_add(emitter->output,
		   "%s GPUDirect RDMA %s, hits %llu/%llu, registered %s at peak, saved about %s\n",
		   header->host, usage, (unsigned long long)segment_tallied(segment, TALLY_hits),
		   (unsigned long long)segment_tallied(segment, TALLY_requests), bytes, saved);
}
