/* SPDX-License-Identifier: BSD-3-Clause */
/* check_statistics.c -- output of the statistics as table, line and JSON */
#include "suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/plain_text.h"
#include "base/system.h"
#include "report/output.h"
#include "report/statistics.h"

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

enum form { TABLE, LINE, JSON, FORMS };

static const char *emitted(enum form form)
{
	static struct output output;

	used = 0;
	output = (struct output){ .take = take };
	if (form == TABLE)
		table_write(&output, 5000000000);
	else if (form == LINE)
		table_write_line(&output);
	else
		json_write(&output, true, 5000000000);
	ck_assert_int_eq(output_end(&output), 0);
	return text;
}

/* Set all counters to `value`. */
static void fill(uint64_t value)
{
#define STATISTIC(name, unit, meaning) statistics.counters.name = value;
#include "report/statistics.def"
#undef STATISTIC
	statistics.threads = 1;
	for (unsigned int i = 0; i < TALLY_COUNT; i++)
		statistics.tallies[0].counts[i] = value;
	for (unsigned int i = 0; i < HISTOGRAM_COUNT; i++) {
		for (unsigned int bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
			statistics.histograms[i][bucket] = value;
	}
}

static void set_up(void)
{
	memset(&statistics, 0, sizeof(statistics));
	statistics.process.rank = statistics.process.local_rank = -1;
	statistics.process.local_size = -1;
	strcpy(statistics.process.program, "app");
	strcpy(statistics.process.host, "node");
	strcpy(statistics.process.version, "0");
}

/* Count regions of GPU `gpu` on an adapter. */
static void count_pair(int gpu, const char *adapter, const char *path, const char *method,
		       uint64_t registrations)
{
	add_relaxed(statistics_registered_by(gpu, statistics_adapter(adapter), path, method, NULL),
		    registrations);
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
		statistics_registered_by((int)i, statistics_adapter("mlx5_0"), "PIX", "peer memory",
					 reason);
	}
}

CASE(statistics, .set_up = set_up);

TEST(statistics, the_table_has_at_most_12_lines_and_a_screen_s_width)
{
	size_t width = 0;

	fill(123456789012);
	statistics.tallies[0].counts[TALLY_hits] = 1;
	add_pairs(8);
	emitted(TABLE);
	ck_assert_uint_eq(lines_of(text), 12);
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
	statistics.threads = 1;
	statistics.tallies[0].counts[TALLY_requests] = statistics.tallies[0].counts[TALLY_hits] = 4;
	statistics.counters.allocations = statistics.counters.frees = 2;
	statistics.counters.registrations = statistics.counters.registrations_background = 2;
	statistics.counters.background_ns = 189200;
	statistics.counters.never_used = 1;
	count_pair(0, "mlx5_0", "PIX", "peer memory", 2);
	ck_assert_str_eq(
		emitted(TABLE),
		"peerpin 0  app  host node  process 0  5.0 s\n"
		"GPUDirect RDMA   used: peer memory; mlx5_0 (PIX); 0 B registered at peak\n"
		"requests         4  4 hits (100.0 %)  0 misses  0 forwarded\n"
		"registrations    2 in the background (189.2 µs)  0 in the program  0 failed\n"
		"frees            2 of 2 allocations  0 deregistrations  0 missed\n");
}

TEST(statistics, the_table_of_a_rank_names_it_and_the_ranks_beside_it)
{
	statistics.process.rank = 8;
	ck_assert_ptr_nonnull(strstr(emitted(TABLE), "  process 0  rank 8  5.0 s\n"));
	statistics.process.local_size = 1;
	ck_assert_ptr_nonnull(strstr(emitted(TABLE), "  process 0  rank 8  5.0 s\n"));
	statistics.process.local_size = 4;
	strcpy(statistics.process.job, "j");
	ck_assert_ptr_nonnull(
		strstr(emitted(TABLE), "  process 0  rank 8, one of 4 here  job j  5.0 s\n"));
}

TEST(statistics, the_line_says_reason_it_is_not_used)
{
	statistics.counters.host_requests = 3;
	ck_assert_str_eq(
		emitted(LINE),
		"peerpin: node GPUDirect RDMA not used: only host memory was registered, hits 0/0, "
		"registered 0 B at peak\n");
	statistics.counters.allocations = statistics.counters.untracked = 2;
	ck_assert_ptr_nonnull(strstr(emitted(LINE), "GPU memory is not recorded"));
	statistics.counters.allocations = 3;
	ck_assert_ptr_nonnull(strstr(emitted(LINE), "only host memory was registered"));
}

/* Percentages are rounded down: 100.0 % means no miss. */
TEST(statistics, one_miss_of_many_requests_is_seen)
{
	statistics.threads = 1;
	statistics.tallies[0].counts[TALLY_requests] = 100000;
	statistics.tallies[0].counts[TALLY_hits] = 99999;
	ck_assert_ptr_nonnull(strstr(emitted(TABLE), " hits (99.9 %)  "));
	statistics.tallies[0].counts[TALLY_hits] = 100000;
	ck_assert_ptr_nonnull(strstr(emitted(TABLE), " hits (100.0 %)  "));
	statistics.tallies[0].counts[TALLY_requests] = UINT64_MAX;
	statistics.tallies[0].counts[TALLY_hits] = UINT64_MAX - 1;
	ck_assert_ptr_nonnull(strstr(emitted(TABLE), " hits (99.9 %)  "));
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

TEST(statistics, every_counter_is_in_the_json)
{
	fill(7);
	emitted(JSON);
#define STATISTIC(name, unit, meaning) ck_assert_ptr_nonnull(strstr(text, "\"" #name "\": 7,"));
#define TALLY(name, unit, meaning)     ck_assert_ptr_nonnull(strstr(text, "\"" #name "\": 7,"));
#define HISTOGRAM(name, sum, meaning)  ck_assert_ptr_nonnull(strstr(text, "\"" #name "\": [7, 7,"));
#include "report/statistics.def"
#undef HISTOGRAM
#undef TALLY
#undef STATISTIC
}

TEST(statistics, names_that_are_no_utf_8_and_quotes_are_still_json)
{
	strcpy(statistics.process.program, "a\"b\\c\x01\xff\xc3\xa4\xe2\x82");
	emitted(JSON);
	ck_assert_ptr_nonnull(
		strstr(text, "\"program\": \"a\\\"b\\\\c\\u0001\\ufffd\xc3\xa4\\ufffd\\ufffd\","));
}

/* Overlong forms, UTF-16 surrogates and values above U+10FFFF: strict parsers reject them. */
TEST(statistics, what_only_looks_like_utf_8_is_none)
{
	strcpy(statistics.process.program,
	       "\xe0\x80\x80\xed\xa0\x80\xf0\x80\x80\x80\xf4\x90\x80\x80.");
	strcpy(statistics.process.host, "\xed\x9f\xbf\xf4\x8f\xbf\xbf\xf0\x90\x80\x80\xe0\xa0\x80");
	emitted(JSON);
	for (const char *at = strstr(text, "\"program\": \"") + 12; *at != '.'; at++)
		ck_assert_int_ge(*at, 0);
	ck_assert_ptr_nonnull(strstr(text, statistics.process.host));
}

TEST(statistics, names_do_not_lengthen_the_table)
{
	strcpy(statistics.process.program, "a\nb");
	strcpy(statistics.process.job, "\x1b[2J\n");
	emitted(TABLE);
	ck_assert_ptr_nonnull(strstr(text, "  a?b  "));
	ck_assert_ptr_nonnull(strstr(text, "  job ?[2J?  "));
}

/* No form has a control character but line feeds of its own. */
TEST(statistics, names_do_not_change_a_terminal)
{
	static const char name[] = "\x1b]0;a\x07\x7f\x9b"
				   "2J\xc2\x9b"
				   "31m\xe2\x80\xae\n";

	strcpy(statistics.process.program, name);
	strcpy(statistics.process.host, name);
	strcpy(statistics.process.job, name);
	snprintf(statistics.process.settings, sizeof(statistics.process.settings), "A=%s", name);
	count_pair(0, name, "P\x9b", "m\x1b", 1);
	statistics_registered_by(0, statistics_adapter(name), "P\x9b", "m\x1b", name);
	statistics.counters.waited = statistics.counters.registrations_dma_buf = 1;
	for (enum form form = TABLE; form < FORMS; form++) {
		emitted(form);
		ck_assert_ptr_nonnull(strstr(text, "]0;a"));
		for (const char *at = text; (at = plain_text_find_other(at)); at++)
			ck_assert_int_eq(*at, '\n');
	}
	emitted(LINE);
	ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
	emitted(JSON);
	ck_assert_ptr_nonnull(strstr(text,
				     "\"program\": \"\\u001b]0;a\\u0007\\u007f\\ufffd2J\\u009b"
				     "31m\\u202e\\u000a\""));
}

TEST(statistics, settings_are_pairs_whatever_is_in_them)
{
	strcpy(statistics.process.settings,
	       "PEERPIN_STATS_FILE=a=b\nno equals\n\nPEERPIN_LOG_LEVEL=");
	emitted(JSON);
	ck_assert_ptr_nonnull(strstr(
		text,
		"\"settings\": {\"PEERPIN_STATS_FILE\": \"a=b\", \"PEERPIN_LOG_LEVEL\": \"\"},"));
}

/* A software adapter copies by the processor: no claim of GPUDirect RDMA in any form. */
TEST(statistics, a_software_adapter_is_no_gpudirect_rdma)
{
	statistics.threads = 1;
	statistics.tallies[0].counts[TALLY_requests] = statistics.tallies[0].counts[TALLY_hits] = 4;
	count_pair(0, "rxe0", "none", "peer memory", 2);
	ck_assert_ptr_nonnull(strstr(emitted(TABLE),
				     "\nGPUDirect RDMA   not used: software adapter rxe0; peer "
				     "memory; 0 B registered at peak\n"));
	ck_assert_ptr_nonnull(strstr(emitted(JSON), "\"used\": false"));
	ck_assert_ptr_nonnull(strstr(emitted(LINE), "RDMA not used: software adapter rxe0;"));
	count_pair(0, "mlx5_0", "PIX", "dma-buf", 1);
	ck_assert_ptr_nonnull(strstr(emitted(TABLE), " used: peer memory; rxe0, mlx5_0 (PIX); "));
}

TEST(statistics, all_paths_to_an_adapter_are_named)
{
	count_pair(0, "mlx5_0", "PIX", "dma-buf", 2);
	count_pair(1, "mlx5_0", "SYS", "dma-buf", 3);
	count_pair(2, "mlx5_0", "PIX", "dma-buf", 4);
	statistics.counters.waited = statistics.counters.registrations_dma_buf = 9;
	ck_assert_ptr_nonnull(strstr(emitted(TABLE), " used: dma-buf; mlx5_0 (PIX, SYS); "));
}

TEST(statistics, a_gpu_and_an_adapter_have_the_latest_reason)
{
	int adapter = statistics_adapter("mlx5_0");
	char reason[STATISTICS_REASON];

	statistics_registered_by(0, adapter, "PIX", "dma-buf", "it is so");
	ck_assert_str_eq(statistics_reason(&statistics.pairs[0], reason), "it is so");
	statistics_registered_by(0, adapter, "PIX", "peer memory", "not any more");
	ck_assert_ptr_null(statistics_reason(&statistics.pairs[0], reason));
	ck_assert_str_eq(statistics_reason(&statistics.pairs[1], reason), "not any more");
}

TEST(statistics, values_are_sorted_by_their_highest_bit)
{
	statistics_sort(free_ns, 0);
	statistics_sort(free_ns, 1);
	statistics_sort(free_ns, 1023);
	statistics_sort(free_ns, 1024);
	statistics_sort(free_ns, UINT64_MAX);
	ck_assert_uint_eq(load_relaxed(&statistics.histograms[HISTOGRAM_free_ns][0]), 2);
	ck_assert_uint_eq(load_relaxed(&statistics.histograms[HISTOGRAM_free_ns][9]), 1);
	ck_assert_uint_eq(load_relaxed(&statistics.histograms[HISTOGRAM_free_ns][10]), 1);
	ck_assert_uint_eq(load_relaxed(&statistics.histograms[HISTOGRAM_free_ns][63]), 1);
}

SUITE("statistics")
