/* SPDX-License-Identifier: BSD-3-Clause */
/* observed_judge.c -- findings with their advice, and what peerpin would save */
#include "base/capped.h"
#include "tools/findings.h"
#include "tools/observed.h"
#include "tools/rows.h"
#include "tools/units.h"

/* A served registration with its deregistration, and kept memory with its free, take so long at
 * most (docs/performance.md). */
#define SERVED_NS 3000
#define KEPT_NS	  2000

static int64_t number_in(const json_t *json, const char *key)
{
	return json_integer_value(json_object_get(json, key));
}

static int64_t share(int64_t part, int64_t whole, int64_t of)
{
	double result = whole ? (double)part / (double)whole * (double)of : 0;

	return result < 9e18 ? (int64_t)result : INT64_MAX;
}

int64_t observed_waiting(const json_t *sums)
{
	int64_t waiting = 0, sampled = 0;
	json_t *size;
	size_t at;

	json_array_foreach(json_object_get(sums, "sizes"), at, size) {
		sampled |= number_in(size, "sampled");
		waiting = add_capped(waiting,
				     share(number_in(size, "waited_ns"), number_in(size, "sampled"),
					   number_in(size, "freed_count")));
	}
	return sampled ? waiting : -1;
}

/* Of allocations that kept memory serves, and of the frees that kept it: without their waits, which
 * stay. */
static struct prediction observed_predict_memory(const json_t *sums)
{
	struct prediction saved = { 0, 0 };
	json_t *size;
	size_t at;

	json_array_foreach(json_object_get(sums, "sizes"), at, size) {
		int64_t reused = number_in(size, "reused_count"),
			sampled = number_in(size, "sampled"),
			own = sampled ? share(number_in(size, "sampled_ns"), sampled, reused)
				      : share(number_in(size, "freed_ns"),
					      number_in(size, "freed_count"), reused),
			gross = add_capped(number_in(size, "reused_ns"), own),
			net = gross - multiply_capped(KEPT_NS, reused);

		if (net <= 0)
			continue;
		saved.low = add_capped(saved.low, net / 2);
		saved.high = add_capped(saved.high, gross);
	}
	return saved;
}

/* At least: registrations of ranges that a region has by then. At most: also the first ones of new
 * memory, where the worker had the time; and with kept memory, those of memory that was registered
 * in its last use. */
struct prediction observed_predict(const json_t *sums, bool with_keep)
{
	const json_t *saving = json_object_get(sums, "saving");
	int64_t served = number_in(saving, "served_ns"),
		net = served - multiply_capped(SERVED_NS, number_in(saving, "served_count"));
	struct prediction saved = {
		.low = net > 0 ? net - net / 4 : 0,
		.high = add_capped(served, number_in(saving, "background_ns")),
	};
	int64_t kept = number_in(saving, "kept_ns"), both = number_in(saving, "kept_background_ns");
	struct prediction memory;

	if (!with_keep)
		return saved;
	memory = observed_predict_memory(sums);
	saved.low = add_capped(saved.low, memory.low);
	saved.high = add_capped(saved.high, memory.high);
	saved.high = add_capped(saved.high, kept > both ? kept - both : 0);
	return saved;
}

/* ---- the first line ---- */

static double percent(int64_t part, int64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0.0;
}

static const char *range_text(const json_t *sums, struct prediction saved)
{
	int64_t whole = number_in(sums, "process_ns");

	if (saved.high < 1000000)
		return "nothing";
	return text_of("%s to %s (%.1f %% to %.1f %%) of the time", show(UNIT_TIME, saved.low),
		       show(UNIT_TIME, saved.high), percent(saved.low, whole),
		       percent(saved.high, whole));
}

static const char *reason_for_nothing(const json_t *sums)
{
	const json_t *saving = json_object_get(sums, "saving"), *row;
	size_t at;
	int64_t host = 0;

	if (number_in(saving, "served_count") || number_in(saving, "first_count") ||
	    number_in(saving, "background_count"))
		return "its registrations of GPU memory are few, or kept by their client";
	json_array_foreach(json_object_get(sums, "registrations"), at, row) {
		host += number_in(row, "count");
	}
	return host ? "it registers host memory alone" : "it registers no memory";
}

/* Nothing: below a thousandth of the run, or 1 ms. */
static const char *observed_summary(const json_t *sums)
{
	struct prediction most = observed_predict(sums, true);

	if (most.high < 1000000 || most.high < number_in(sums, "process_ns") / 1000)
		return text_of("peerpin would save nothing here: %s.", reason_for_nothing(sums));
	return text_of("peerpin would save %s; with --keep %s.",
		       range_text(sums, observed_predict(sums, false)), range_text(sums, most));
}

static json_t *observed_range(const json_t *sums, bool with_keep)
{
	struct prediction saved = observed_predict(sums, with_keep);

	return json_pack("{s:I, s:I}", "low_ns", (json_int_t)saved.low, "high_ns",
			 (json_int_t)saved.high);
}

json_t *observed_judge(json_t *sums)
{
	json_t *report = json_copy(sums);

	json_object_set_new(report, "schema", json_string("peerpin-observed/1"));
	json_object_set_new(report, "version", json_string(PACKAGE_VERSION));
	json_object_set_new(report, "summary", json_string(observed_summary(sums)));
	json_object_set_new(report, "findings", findings_judge(json_object_get(sums, "findings")));
	json_object_set_new(report, "prediction",
			    json_pack("{s:o, s:o}", "default", observed_range(sums, false), "keep",
				      observed_range(sums, true)));
	json_object_set_new(report, "free_waiting_ns", json_integer(observed_waiting(sums)));
	return report;
}
