/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_probe.c -- check of the probe: registrations of real GPU memory with each adapter */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/rules.h"
#include "tools/units.h"

#define LARGE_PER_GIB 16
#define NS_OF_MS      1e6

/* Methods that peerpin uses. */
#define EACH_METHOD(method)                                                                        \
	for (enum method method = METHOD_DMA_BUF; method < METHOD_DATA_DIRECT; method++)

/* ---- times ---- */

/* Shortest and longest registration, in ms; 0: none. */
struct range {
	double least, most;
};

/* Pairs proved by one method. */
struct times {
	char *pairs;
	unsigned int count;
	struct range large, small;
};

static void checks_probe_widen(struct range *range, const char *nanoseconds)
{
	double time = nanoseconds ? atof(nanoseconds) / NS_OF_MS : 0;

	if (time > 0 && (range->least <= 0 || time < range->least))
		range->least = time;
	if (time > range->most)
		range->most = time;
}

static void checks_probe_add_time(struct host *host, const struct gpu *gpu,
				  const struct adapter *adapter, enum method method,
				  struct times *times)
{
	list_add(&times->pairs, pair_name(gpu, adapter));
	times->count++;
	checks_probe_widen(&times->large,
			   probe_text(host, gpu, adapter, method, PROBE_LARGE, "ok"));
	checks_probe_widen(&times->small,
			   probe_text(host, gpu, adapter, method, PROBE_SMALL, "ok"));
}

/* "2.9", or "2.9 to 3.4" */
static const char *checks_probe_range(struct range range, int digits)
{
	const char *least = text_of("%.*f", digits, range.least);
	const char *most = text_of("%.*f", digits, range.most);

	return strcmp(least, most) ? text_of("%s to %s", least, most) : least;
}

static void checks_probe_report_times(const struct times *times, const char *method,
				      struct finding *finding)
{
	const struct range large = times->large, small = times->small,
			   gib = { large.least * LARGE_PER_GIB, large.most * LARGE_PER_GIB };
	const char *by_large = "", *by_small = "";

	if (!times->count)
		return;
	if (large.least > 0)
		by_large = text_of(" 64 MiB %s ms (%s ms/GiB)", checks_probe_range(large, 1),
				   checks_probe_range(gib, 0));
	if (small.least > 0)
		by_small = text_of("%s 2 MiB %s ms", *by_large ? "," : "",
				   checks_probe_range(small, 2));
	finding_add(finding, OK,
		    text_of("%s %s%s%s",
			    times->count > 2 ? text_of("%u pairs", times->count) : times->pairs,
			    method, by_large, by_small));
}

/* ---- pairs ---- */

/* Method proved for the pair; METHODS: none. */
static enum method checks_probe_proved_method(struct host *host, const struct gpu *gpu,
					      const struct adapter *adapter)
{
	EACH_METHOD(method)
	{
		if (adapter && support_between(host, gpu, adapter, method).level == SUPPORT_PROVED)
			return method;
	}
	return METHODS;
}

/* Failure of this method, "CALL ERRNO"; NULL: it was not tried, or works. The small size takes
 * precedence. */
static const char *checks_probe_failure(struct host *host, const struct gpu *gpu,
					const struct adapter *adapter, enum method method)
{
	const char *large = probe_text(host, gpu, adapter, method, PROBE_LARGE, "fail");
	const char *small = probe_text(host, gpu, adapter, method, PROBE_SMALL, "fail");

	return small ? small : large;
}

static void checks_probe_report_failure(struct host *host, const struct gpu *gpu,
					const struct adapter *adapter, enum result result,
					struct finding *finding)
{
	EACH_METHOD(method)
	{
		const char *failure = checks_probe_failure(host, gpu, adapter, method);
		const struct meaning *meaning = failure ? meaning_of(failure) : NULL;

		if (failure && failed_as_integrated(host, gpu, failure)) {
			if (method == METHOD_PEER_MEMORY)
				finding_implied(finding, pair_name(gpu, adapter), NULL, UNKNOWN,
						"peerpin doctor on that host: this version "
						"registers memory of cudaHostAlloc",
						gpu_is_integrated(host, gpu)
							? "the probe tried device memory: of an "
							  "integrated GPU, adapters access memory "
							  "of cudaHostAlloc"
							: "whether the GPU is integrated cannot be "
							  "read");
			continue;
		}
		if (!failure)
			continue;
		finding_item(finding, result, pair_name(gpu, adapter),
			     text_of("%s fails: %s%s%s", method_name(method), failure,
				     *meaning->words ? ", " : "", meaning->words));
		finding_fix(finding, adapter->software ? FIX_HARDWARE
				     : strstr(failure, "cuMemGetHandleForAddress")
					     ? host_value(host, "fix_no_export")
				     : meaning->fix ? meaning->fix
						    : host_value(host, "fix_peermem"));
	}
}

/* Reports a method that registers memory but loses data, even if another method works: silent
 * data loss is worse than a failed registration. */
static void checks_probe_report_data_loss(struct host *host, const struct gpu *gpu,
					  const struct adapter *adapter, struct finding *finding)
{
	for (enum method method = 0; method < METHODS; method++) {
		const char *broken = transfer_failure(host, gpu, adapter, method);

		if (!broken)
			continue;
		finding_item(finding, FAIL, pair_name(gpu, adapter),
			     text_of("%s registers memory, but data does not arrive: %s",
				     method_name(method), broken));
		finding_fix(finding, "peerpin doctor --only acs,iommu,path --verbose");
	}
}

static bool checks_probe_was_skipped(struct host *host, const struct gpu *gpu,
				     const struct adapter *adapter)
{
	return host_read(host, "probe/%d/%s/ended", gpu->ordinal, adapter->name)->error == ETIME;
}

/* If the GPU works with one adapter, failures of other adapters are warnings. */
static void checks_probe_report_pairs(struct host *host, const struct gpu *gpu, bool works,
				      struct finding *finding)
{
	EACH_ADAPTER(host, adapter) {
		checks_probe_report_data_loss(host, gpu, adapter, finding);
		if (checks_probe_proved_method(host, gpu, adapter) == METHODS)
			checks_probe_report_failure(host, gpu, adapter,
						    !works		? FAIL
						    : adapter->software ? OK
									: WARN,
						    finding);
	}
}

static void checks_probe_report_skipped(struct host *host, const struct gpu *gpu, bool works,
					enum level level, struct finding *finding)
{
	bool skipped = false;

	EACH_ADAPTER(host, adapter)
		skipped |= checks_probe_was_skipped(host, gpu, adapter);
	if (skipped)
		finding_implied(
			finding, NULL, NULL, UNKNOWN, host_value(host, "fix_limit"),
			text_of("%s was not tried with each adapter: %s", gpu->label, NO_TIME));
	else if (!works && level != SUPPORT_NO)
		finding_add(finding, UNKNOWN, text_of("%s was not tried", gpu->label));
}

/* ---- all pairs ---- */

const char *facts_probe_tried(const struct subject *subject)
{
	struct host *host = subject->host;

	EACH_GPU(host, gpu) {
		EACH_ADAPTER(host, adapter) {
			if (checks_probe_was_skipped(host, gpu, adapter) ||
			    checks_probe_proved_method(host, gpu, adapter) != METHODS)
				return "1";
			EACH_METHOD(method)
			{
				if (checks_probe_failure(host, gpu, adapter, method) ||
				    transfer_failure(host, gpu, adapter, method))
					return "1";
			}
		}
	}
	return NULL;
}

int64_t facts_probe_lost_bytes(const struct subject *subject)
{
	const char *lost = probe_text(subject->host, subject->gpu, subject->adapter,
				      subject->method, "returned", "lost");

	return lost ? atoll(lost) : 0;
}

bool next_proved_pair(struct subject *subject)
{
	while (next_pair(subject)) {
		subject->method =
			checks_probe_proved_method(subject->host, subject->gpu, subject->adapter);
		if (subject->method != METHODS)
			return true;
	}
	return false;
}

void check_probe(struct host *host, struct finding *finding)
{
	struct times times[METHODS] = { { .count = 0 } };
	const struct adapter *chosen[GPUS_MAX];
	enum method proved[GPUS_MAX];
	struct support support;

	EACH_GPU(host, gpu) {
		long i = gpu - machine_of(host)->gpus;

		chosen[i] = adapter_of_gpu(host, gpu, &support);
		proved[i] = checks_probe_proved_method(host, gpu, chosen[i]);
		if (proved[i] != METHODS)
			checks_probe_add_time(host, gpu, chosen[i], proved[i], &times[proved[i]]);
		checks_probe_report_skipped(host, gpu, proved[i] != METHODS, support.level,
					    finding);
	}
	for (enum method method = 0; method < METHODS; method++)
		checks_probe_report_times(&times[method], method_name(method), finding);
	EACH_GPU(host, gpu)
		checks_probe_report_pairs(host, gpu,
					  proved[gpu - machine_of(host)->gpus] != METHODS, finding);
}
