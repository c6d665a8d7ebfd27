/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_probe.c -- check of the probe: registrations of real GPU memory with each adapter */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/checks.h"
#include "tools/doctor/meaning.h"
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
	finding_add(finding, OK, "%s %s%s%s",
		    times->count > 2 ? text_of("%u pairs", times->count) : times->pairs, method,
		    by_large, by_small);
}

/* ---- pairs ---- */

/* Reports on a successful registration: relaxed ordering, transfers, memory not returned. */
static void checks_probe_report_defects(struct host *host, const struct gpu *gpu,
					const struct adapter *adapter, enum method method,
					struct finding *finding)
{
	const char *lost = probe_text(host, gpu, adapter, method, "returned", "lost");
	const char *relaxed = probe_text(host, gpu, adapter, method, "relaxed", "");
	const char *copies = probe_text(host, gpu, adapter, method, "copies", "ok");
	const struct reading *transfer = probe_reading(host, gpu, adapter, method, "transfer");
	unsigned int old = 0, old_synced = 0, rounds;
	const char *pair = pair_name(gpu, adapter);

	if (relaxed && strncmp(relaxed, "ok", 2))
		finding_item(finding, OK, pair, "no relaxed ordering");
	if (!transfer->error && !strncmp(transfer->text, "ok", 2))
		finding_item(finding, OK, pair, "transferred data is correct");
	else if (transfer->error == EOPNOTSUPP)
		finding_item(finding, UNKNOWN, pair, "no data could be sent: %s", transfer->text);
	if (copies && sscanf(copies, "%u %u %u", &old, &old_synced, &rounds) == 3)
		finding_item(finding, old_synced ? WARN : OK, pair,
			     "an adapter's read behind a copy had old data in %u of %u rounds, "
			     "with SYNC_MEMOPS in %u",
			     old, rounds, old_synced);
	if (copies && old_synced)
		finding_fix(finding, "synchronize before each send (docs/memory-ordering.md)");
	if (lost) {
		finding_item(finding, WARN, pair, "%lld KiB of GPU memory are not freed",
			     atoll(lost) / 1024);
		finding_fix(finding,
			    "ask your administrator: update the driver; it keeps freed memory");
	}
}

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

		if (!failure)
			continue;
		finding_item(finding, result, pair_name(gpu, adapter), "%s fails: %s%s%s",
			     method_name(method), failure, *meaning->words ? ", " : "",
			     meaning->words);
		finding_fix(finding, "%s",
			    adapter->software				  ? FIX_HARDWARE
			    : strstr(failure, "cuMemGetHandleForAddress") ? fix_no_export(host)
			    : meaning->fix				  ? meaning->fix
									  : peermem_fix(host));
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
			     "%s registers memory, but data does not arrive: %s",
			     method_name(method), broken);
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
		finding_problem(finding, UNKNOWN, fix_limit(host),
				"%s was not tried with each adapter: %s", gpu->label, NO_TIME);
	else if (!works && level != SUPPORT_NO)
		finding_add(finding, UNKNOWN, "%s was not tried", gpu->label);
}

/* ---- all pairs ---- */

static void checks_probe_report_untried(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	const char *option = host_text(host, "option/probe");
	const char *ended = host_text(host, "probe/ended");

	if (option && !strcmp(option, "off")) {
		finding_problem(finding, UNKNOWN, "peerpin doctor, without --no-probe",
				"skipped (--no-probe): nothing was registered");
	} else if (!machine->gpu_count || !machine->adapter_count) {
		finding_add(finding, UNKNOWN, "%s", invisible_words(machine));
	} else {
		finding_problem(finding, UNKNOWN, "peerpin doctor --only gpu,uverbs,verbs",
				"nothing was registered: %s",
				ended && strcmp(ended, "ok")
					? text_of("the probe process %s", end_words(ended))
					: "GPU or adapter cannot be opened");
	}
}

static bool checks_probe_was_tried(struct host *host)
{
	EACH_GPU(host, gpu) {
		EACH_ADAPTER(host, adapter) {
			if (checks_probe_was_skipped(host, gpu, adapter) ||
			    checks_probe_proved_method(host, gpu, adapter) != METHODS)
				return true;
			EACH_METHOD(method)
			{
				if (checks_probe_failure(host, gpu, adapter, method) ||
				    transfer_failure(host, gpu, adapter, method))
					return true;
			}
		}
	}
	return false;
}

void check_probe(struct host *host, struct finding *finding)
{
	const char *ended = host_text(host, "probe/ended");
	struct times times[METHODS] = { { .count = 0 } };
	const struct adapter *chosen[GPUS_MAX];
	enum method proved[GPUS_MAX];
	struct support support;

	if (!checks_probe_was_tried(host)) {
		checks_probe_report_untried(host, finding);
		return;
	}
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
	EACH_GPU(host, gpu) {
		long i = gpu - machine_of(host)->gpus;

		if (proved[i] != METHODS)
			checks_probe_report_defects(host, gpu, chosen[i], proved[i], finding);
	}
	if (ended && strcmp(ended, "ok"))
		finding_problem(finding, WARN, "dmesg | tail (as root)", "the probe process %s",
				end_words(ended));
}
