/* SPDX-License-Identifier: BSD-3-Clause */
/* check_statistics.c -- statistics segments: output as table, JSON and Prometheus text; sums;
 * damaged files; the timeline */
#include "suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/plain_text.h"
#include "base/system.h"
#include "report/emit.h"
#include "report/statistics.h"

static struct segment segment, other;
static char text[1 << 18];
static size_t used;

static int take(void *argument, const char *bytes, size_t length)
{
	(void)argument;
	ck_assert_uint_lt(used + length, sizeof(text));
	memcpy(text + used, bytes, length);
	used += length;
	text[used] = '\0';
	return 0;
}

static unsigned int processes = 1;

static const char *emitted(enum emit_form form)
{
	static struct output output;
	struct emit_source source = {
		.segment = &segment, .elapsed_ns = 5000000000, .processes = processes, .used = 2
	};

	used = 0;
	output = (struct output){ .take = take };
	emit(&output, &source, form);
	ck_assert_int_eq(output_end(&output), 0);
	return text;
}

/* Set all counters to `value`. */
static void fill(struct segment *what, uint64_t value)
{
#define STATISTIC(name, unit, meaning) what->counters.name = value;
#include "report/statistics.def"
#undef STATISTIC
	what->header.threads = 1;
	for (unsigned int i = 0; i < TALLY_COUNT; i++)
		what->tallies[0].counts[i] = value;
	for (unsigned int i = 0; i < HISTOGRAM_COUNT; i++) {
		for (unsigned int bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
			what->histograms[i][bucket] = value;
	}
}

static void set_up(void)
{
	memset(&segment, 0, sizeof(segment));
	memset(&other, 0, sizeof(other));
	memcpy(segment.header.magic, SEGMENT_MAGIC, sizeof(segment.header.magic));
	segment.header.layout = segment_layout();
	segment.header.size = sizeof(segment);
	segment.header.rank = segment.header.local_rank = -1;
	strcpy(segment.header.program, "app");
	strcpy(segment.header.host, "node");
	strcpy(segment.header.version, "0");
}

static unsigned int lines_of(const char *of)
{
	unsigned int lines = 0;

	for (; *of; of++)
		lines += *of == '\n';
	return lines;
}

/* Each pair has its own fallback reason. */
static void add_pairs(unsigned int count)
{
	char reason[32];

	for (unsigned int i = 0; i < count; i++) {
		snprintf(reason, sizeof(reason), "reason %u", i);
		segment_set_reason(&segment,
				   segment_pair(&segment, (int)i,
						segment_adapter(&segment, "mlx5_0"), "PIX",
						"peer memory"),
				   reason);
	}
}

CASE(statistics, .set_up = set_up);

TEST(statistics, the_table_has_at_most_13_lines_and_a_screen_s_width)
{
	size_t width = 0;

	fill(&segment, 123456789012);
	segment.tallies[0].counts[TALLY_hits] = 1;
	add_pairs(8);
	emitted(EMIT_TABLE);
	ck_assert_uint_eq(lines_of(text), 13);
	ck_assert_ptr_nonnull(strstr(text, "\nnot by dma-buf   GPU 0, mlx5_0: reason 0\n"
					   "not by dma-buf   GPU 1, mlx5_0: reason 1; 6 more in "
					   "PEERPIN_STATS_FILE=FILE\n"));
	for (const char *line = text; *line; line += width + 1) {
		width = strcspn(line, "\n");
		ck_assert_uint_le(width, 220);
	}
}

TEST(statistics, without_losses_the_table_has_5_lines)
{
	segment.header.threads = 1;
	segment.tallies[0].counts[TALLY_requests] = segment.tallies[0].counts[TALLY_hits] = 4;
	segment.counters.allocations = segment.counters.frees = 2;
	segment.counters.registrations = segment.counters.registrations_background = 2;
	segment.counters.background_ns = 189200;
	segment.counters.never_used = 1;
	segment_pair(&segment, 0, segment_adapter(&segment, "mlx5_0"), "PIX", "peer memory")
		->registrations = 2;
	ck_assert_str_eq(
		emitted(EMIT_TABLE),
		"peerpin 0  app  host node  process 0  5.0 s\n"
		"GPUDirect RDMA   used: peer memory; mlx5_0 (PIX); 0 B registered at peak\n"
		"requests         4  4 hits (100.0 %)  0 misses  0 bypassed\n"
		"registrations    2 in the background (189.2 µs)  0 in the program  0 failed\n"
		"frees            2 of 2 allocations  0 deregistrations  0 missed\n");
}

TEST(statistics, use_by_some_processes_is_not_called_use_by_all)
{
	segment.header.threads = 1;
	segment.tallies[0].counts[TALLY_requests] = segment.tallies[0].counts[TALLY_hits] = 4;
	processes = 3;
	ck_assert_ptr_nonnull(strstr(emitted(EMIT_TABLE), " used by 2 of 3 processes: "));
	processes = 2;
	ck_assert_ptr_nonnull(strstr(emitted(EMIT_TABLE), " used: "));
}

TEST(statistics, the_line_says_reason_it_is_not_used)
{
	segment.counters.host_requests = 3;
	ck_assert_str_eq(
		emitted(EMIT_LINE),
		"peerpin: node GPUDirect RDMA not used: only host memory was registered, hits 0/0, "
		"registered 0 B at peak\n");
	segment.counters.allocations = segment.counters.untracked = 2;
	ck_assert_ptr_nonnull(strstr(emitted(EMIT_LINE), "GPU memory is not recorded"));
	segment.counters.allocations = 3;
	ck_assert_ptr_nonnull(strstr(emitted(EMIT_LINE), "only host memory was registered"));
}

/* A software adapter copies by the processor: no claim of GPUDirect RDMA in any form. */
TEST(statistics, a_software_adapter_is_no_gpudirect_rdma)
{
	struct segment_pair *pair;

	segment.header.threads = 1;
	segment.tallies[0].counts[TALLY_requests] = segment.tallies[0].counts[TALLY_hits] = 4;
	pair = segment_pair(&segment, 0, segment_adapter(&segment, "rxe0"), "none", "peer memory");
	pair->registrations = 2;
	ck_assert_ptr_nonnull(strstr(emitted(EMIT_TABLE),
				     "\nGPUDirect RDMA   not used: software adapter rxe0; peer "
				     "memory; 0 B registered at peak\n"));
	ck_assert_ptr_nonnull(strstr(emitted(EMIT_JSON), "\"used\": false"));
	ck_assert_ptr_nonnull(strstr(emitted(EMIT_LINE), "RDMA not used: software adapter rxe0;"));
	pair = segment_pair(&segment, 0, segment_adapter(&segment, "mlx5_0"), "PIX", "dma-buf");
	pair->registrations = 1;
	ck_assert_ptr_nonnull(
		strstr(emitted(EMIT_TABLE), " used: peer memory; rxe0, mlx5_0 (PIX); "));
}

/* Percentages are rounded down: 100.0 % means no miss. */
TEST(statistics, one_miss_of_many_requests_is_seen)
{
	segment.header.threads = 1;
	segment.tallies[0].counts[TALLY_requests] = 100000;
	segment.tallies[0].counts[TALLY_hits] = 99999;
	ck_assert_ptr_nonnull(strstr(emitted(EMIT_TABLE), " hits (99.9 %)  "));
	segment.tallies[0].counts[TALLY_hits] = 100000;
	ck_assert_ptr_nonnull(strstr(emitted(EMIT_TABLE), " hits (100.0 %)  "));
	segment.tallies[0].counts[TALLY_requests] = UINT64_MAX;
	segment.tallies[0].counts[TALLY_hits] = UINT64_MAX - 1;
	ck_assert_ptr_nonnull(strstr(emitted(EMIT_TABLE), " hits (99.9 %)  "));
}

TEST(statistics, no_number_reaches_the_next_unit_by_being_rounded)
{
	char shown[24];

	usage_bytes(1023, shown, sizeof(shown));
	ck_assert_str_eq(shown, "1023 B");
	usage_bytes((1 << 20) - 1, shown, sizeof(shown));
	ck_assert_str_eq(shown, "1.0 MiB");
	usage_time(999, shown, sizeof(shown));
	ck_assert_str_eq(shown, "999 ns");
	usage_time(999999, shown, sizeof(shown));
	ck_assert_str_eq(shown, "1.0 ms");
}

/* GPU 0 may be a different GPU in each rank. */
TEST(statistics, all_paths_to_an_adapter_are_named)
{
	segment_pair(&segment, 0, segment_adapter(&segment, "mlx5_0"), "PIX", "dma-buf")
		->registrations = 2;
	segment_pair(&other, 0, segment_adapter(&other, "mlx5_0"), "SYS", "dma-buf")
		->registrations = 3;
	segment_pair(&other, 1, segment_adapter(&other, "mlx5_0"), "PIX", "dma-buf")
		->registrations = 4;
	segment_add(&segment, &other);
	segment.counters.waited = segment.counters.registrations_dma_buf = 9;
	ck_assert_ptr_nonnull(strstr(emitted(EMIT_TABLE), " used: dma-buf; mlx5_0 (PIX, SYS); "));
	ck_assert_uint_eq(
		segment_value(&segment_pair(&segment, 0, 0, "PIX", "dma-buf")->registrations), 2);
	ck_assert_uint_eq(
		segment_value(&segment_pair(&segment, 0, 0, "SYS", "dma-buf")->registrations), 3);
}

TEST(statistics, every_counter_is_in_each_form_for_programs)
{
	fill(&segment, 7);
	emitted(EMIT_JSON);
#define STATISTIC(name, unit, meaning) ck_assert_ptr_nonnull(strstr(text, "\"" #name "\": 7,"));
#define TALLY(name, unit, meaning)     ck_assert_ptr_nonnull(strstr(text, "\"" #name "\": 7,"));
#define HISTOGRAM(name, sum, meaning)  ck_assert_ptr_nonnull(strstr(text, "\"" #name "\": [7, 7,"));
#include "report/statistics.def"
#undef HISTOGRAM
#undef TALLY
#undef STATISTIC
	emitted(EMIT_PROMETHEUS);
#define STATISTIC(name, unit, meaning) ck_assert_ptr_nonnull(strstr(text, "\npeerpin_" #name));
#define TALLY(name, unit, meaning)     ck_assert_ptr_nonnull(strstr(text, "\npeerpin_" #name));
#include "report/statistics.def"
#undef TALLY
#undef STATISTIC
	ck_assert_ptr_nonnull(strstr(text, "\n# TYPE peerpin_registered_bytes_total counter\n"));
	ck_assert_ptr_nonnull(strstr(text, "\n# TYPE peerpin_pinned_bytes gauge\n"));
	ck_assert_ptr_nonnull(strstr(text, "\n# TYPE peerpin_pinned_bytes_peak gauge\n"));
}

TEST(statistics, names_that_are_no_utf_8_and_quotes_are_still_json)
{
	strcpy(segment.header.program, "a\"b\\c\x01\xff\xc3\xa4\xe2\x82");
	emitted(EMIT_JSON);
	ck_assert_ptr_nonnull(
		strstr(text, "\"program\": \"a\\\"b\\\\c\\u0001\\ufffd\xc3\xa4\\ufffd\\ufffd\","));
}

/* Overlong forms, UTF-16 surrogates and values above U+10FFFF: strict parsers reject them. */
TEST(statistics, what_only_looks_like_utf_8_is_none)
{
	strcpy(segment.header.program, "\xe0\x80\x80\xed\xa0\x80\xf0\x80\x80\x80\xf4\x90\x80\x80.");
	strcpy(segment.header.host, "\xed\x9f\xbf\xf4\x8f\xbf\xbf\xf0\x90\x80\x80\xe0\xa0\x80");
	emitted(EMIT_JSON);
	for (const char *at = strstr(text, "\"program\": \"") + 12; *at != '.'; at++)
		ck_assert_int_ge(*at, 0);
	ck_assert_ptr_nonnull(strstr(text, segment.header.host));
	emitted(EMIT_PROMETHEUS);
	ck_assert_ptr_null(strstr(text, "\xed\xa0"));
	ck_assert_ptr_nonnull(strstr(text, segment.header.host));
}

TEST(statistics, names_do_not_lengthen_the_table)
{
	strcpy(segment.header.program, "a\nb");
	strcpy(segment.header.job, "\x1b[2J\n");
	emitted(EMIT_TABLE);
	ck_assert_ptr_nonnull(strstr(text, "  a?b  "));
	ck_assert_ptr_nonnull(strstr(text, "  job ?[2J?  "));
}

/* No form has a control character but line feeds of its own. */
TEST(statistics, names_do_not_change_a_terminal)
{
	static const char name[] = "\x1b]0;a\x07\x7f\x9b"
				   "2J\xc2\x9b"
				   "31m\xe2\x80\xae\n";

	strcpy(segment.header.program, name);
	strcpy(segment.header.host, name);
	strcpy(segment.header.job, name);
	snprintf(segment.header.settings, sizeof(segment.header.settings), "A=%s", name);
	segment_set_reason(
		&segment,
		segment_pair(&segment, 0, segment_adapter(&segment, name), "P\x9b", "m\x1b"), name);
	segment.pairs[0].registrations = 1;
	segment.counters.waited = segment.counters.registrations_dma_buf = 1;
	for (enum emit_form form = EMIT_TABLE; form <= EMIT_LINE; form++) {
		emitted(form);
		ck_assert_ptr_nonnull(strstr(text, "]0;a"));
		for (const char *at = text; (at = plain_text_find_other(at)); at++)
			ck_assert_int_eq(*at, '\n');
	}
	emitted(EMIT_LINE);
	ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
	emitted(EMIT_JSON);
	ck_assert_ptr_nonnull(strstr(text,
				     "\"program\": \"\\u001b]0;a\\u0007\\u007f\\ufffd2J\\u009b"
				     "31m\\u202e\\u000a\""));
}

TEST(statistics, settings_are_pairs_whatever_is_in_them)
{
	strcpy(segment.header.settings, "PEERPIN_STATS_FILE=a=b\nno equals\n\nPEERPIN_LOG_LEVEL=");
	emitted(EMIT_JSON);
	ck_assert_ptr_nonnull(strstr(
		text,
		"\"settings\": {\"PEERPIN_STATS_FILE\": \"a=b\", \"PEERPIN_LOG_LEVEL\": \"\"},"));
}

TEST(statistics, a_sum_has_both_and_adapters_by_name)
{
	char reason[SEGMENT_REASON];

	fill(&segment, 5);
	fill(&other, 3);
	segment.adapters[0].named = other.adapters[0].named = other.adapters[1].named = true;
	strcpy(segment.adapters[0].name, "mlx5_0");
	strcpy(other.adapters[0].name, "mlx5_1");
	strcpy(other.adapters[1].name, "mlx5_0");
	other.adapters[0].pinned.peak = 10;
	other.adapters[1].pinned.peak = 20;
	segment.adapters[0].pinned.peak = 1;
	other.pairs[0].known = true;
	other.pairs[0].adapter = 1;
	strcpy(other.pairs[0].method, "dma-buf");
	other.pairs[0].registrations = 4;
	segment_set_reason(&other, &other.pairs[0], "it is so");
	segment_add(&segment, &other);
	ck_assert_uint_eq(segment_value(&segment.counters.allocations), 8);
	ck_assert_uint_eq(segment_tallied(&segment, TALLY_hits), 8);
	ck_assert_uint_eq(segment_value(&segment.histograms[HISTOGRAM_wait_ns][9]), 8);
	ck_assert_str_eq(segment.adapters[1].name, "mlx5_1");
	ck_assert_uint_eq(segment_value(&segment.adapters[0].pinned.peak), 21);
	ck_assert_uint_eq(segment_value(&segment.adapters[1].pinned.peak), 10);
	ck_assert_int_eq(segment.pairs[0].adapter, 0);
	ck_assert_uint_eq(segment_value(&segment.pairs[0].registrations), 4);
	ck_assert_str_eq(segment_reason(&segment.pairs[0], reason), "it is so");
	/* A GPU and an adapter have one fallback reason, the latest. */
	segment_set_reason(&segment, segment_pair(&segment, 0, 0, "", "peer memory"),
			   "not any more");
	ck_assert_ptr_null(segment_reason(&segment.pairs[0], reason));
}

TEST(statistics, a_damaged_file_is_refused_with_the_reason)
{
	ck_assert_ptr_null(segment_refused(&segment, sizeof(segment)));
	ck_assert_ptr_nonnull(strstr(segment_refused(&segment, 3), "too short"));
	ck_assert_ptr_nonnull(strstr(segment_refused(&segment, sizeof(segment) - 1), "cut off"));
	segment.header.layout++;
	ck_assert_ptr_nonnull(strstr(segment_refused(&segment, sizeof(segment)), "another build"));
	segment.header.layout--;
	memset(segment.header.job, 'x', sizeof(segment.header.job));
	ck_assert_ptr_nonnull(strstr(segment_refused(&segment, sizeof(segment)), "damaged"));
	segment.header.job[0] = '\0';
	memset(segment.adapters[3].name, 'x', SEGMENT_NAME);
	ck_assert_ptr_nonnull(strstr(segment_refused(&segment, sizeof(segment)), "damaged"));
	segment.adapters[3].name[0] = '\0';
	segment.header.magic[7]++;
	ck_assert_ptr_nonnull(strstr(segment_refused(&segment, sizeof(segment)), "no statistics"));
}

TEST(statistics, values_are_sorted_by_their_highest_bit)
{
	statistics_sort(free_ns, 0);
	statistics_sort(free_ns, 1);
	statistics_sort(free_ns, 1023);
	statistics_sort(free_ns, 1024);
	statistics_sort(free_ns, UINT64_MAX);
	ck_assert_uint_eq(segment_value(&statistics_segment.histograms[HISTOGRAM_free_ns][0]), 2);
	ck_assert_uint_eq(segment_value(&statistics_segment.histograms[HISTOGRAM_free_ns][9]), 1);
	ck_assert_uint_eq(segment_value(&statistics_segment.histograms[HISTOGRAM_free_ns][10]), 1);
	ck_assert_uint_eq(segment_value(&statistics_segment.histograms[HISTOGRAM_free_ns][63]), 1);
}

/* At any length, samples are in order and include the latest. */
TEST(statistics, samples_of_any_length_of_time_have_room)
{
	struct segment_timeline *timeline = &statistics_segment.timeline;
	uint64_t last = 0, number = 0;

	for (uint64_t age = 1; age < (uint64_t)1 << 50; age += age / 64 + 1000000) {
		statistics_segment.header.clock_ns = system_clock() - age;
		statistics_count(registrations);
		statistics_pinned(0, -1, 1);
		number++;
	}
	for (int i = 0; i < SEGMENT_SAMPLES; i++) {
		uint64_t at = segment_value(&timeline->samples[i].at_ns);

		if (!at)
			continue;
		ck_assert_uint_gt(at, last);
		ck_assert_uint_eq(at >> timeline->shift, (uint64_t)i);
		last = at;
		ck_assert_uint_le(segment_value(&timeline->samples[i].registrations), number);
	}
	ck_assert_uint_ge(last, (uint64_t)1 << 49);
}

/* The latest sample must not depend on a later event. */
TEST(statistics, a_sample_has_the_last_of_what_happened_at_once)
{
	const struct segment_timeline *timeline = &statistics_segment.timeline;
	const struct segment_sample *last = NULL;

	statistics_segment.header.clock_ns = system_clock() - ((uint64_t)1 << 30);
	for (int i = 0; i < 5; i++) {
		statistics_count(registrations);
		statistics_pinned(0, -1, 4096);
	}
	for (int i = 0; i < SEGMENT_SAMPLES; i++)
		last = segment_value(&timeline->samples[i].at_ns) ? &timeline->samples[i] : last;
	ck_assert_ptr_nonnull(last);
	ck_assert_uint_eq(segment_value(&last->registrations), 5);
	ck_assert_uint_eq(segment_value(&last->pinned_bytes), 5 * 4096);
}

SUITE("statistics")
