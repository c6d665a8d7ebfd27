/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_probe.c -- check of the probe: registrations of real GPU memory with each adapter */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/groups.h"
#include "tools/doctor/meaning.h"

#define LARGE	 67108864
#define SMALL	 2097152
#define GIB	 1073741824.0
#define NS_OF_MS 1e6

static const char *checks_probe_text(struct host *host, const struct gpu *gpu,
				     const struct adapter *adapter, enum way way, const char *what)
{
	return host_text(host, "probe/%d/%s/%s/%s", gpu->ordinal, adapter->name, way_name(way),
			 what);
}

static double checks_probe_milliseconds(const char *text)
{
	return text && !strncmp(text, "ok ", 3) ? atof(text + 3) / NS_OF_MS : 0;
}

/* Registration times of the pairs proved by one method, in ms: minimum and maximum. */
struct times {
	char *pairs;
	unsigned int count;
	double large, large_most, small, small_most;
};

static void checks_probe_widen(double *least, double *most, double time)
{
	if (time <= 0)
		return;
	if (*least <= 0 || time < *least)
		*least = time;
	if (time > *most)
		*most = time;
}

static void checks_probe_add_time(struct host *host, const struct gpu *gpu,
				  const struct adapter *adapter, enum way way,
				  struct times times[WAYS])
{
	char pair[96];

	snprintf(pair, sizeof(pair), "%s-%s", gpu->label, adapter->name);
	list_add(&times[way].pairs, pair);
	times[way].count++;
	checks_probe_widen(
		&times[way].large, &times[way].large_most,
		checks_probe_milliseconds(checks_probe_text(host, gpu, adapter, way, "67108864")));
	checks_probe_widen(
		&times[way].small, &times[way].small_most,
		checks_probe_milliseconds(checks_probe_text(host, gpu, adapter, way, "2097152")));
}

/* "2.9", or "2.9 to 3.4" */
static void checks_probe_print_range(char *to, size_t size, double least, double most, int digits)
{
	snprintf(to, size, "%.*f", digits, least);
	if (most > least) {
		char end[24];

		snprintf(end, sizeof(end), "%.*f", digits, most);
		if (strcmp(to, end))
			snprintf(to, size, "%.*f to %s", digits, least, end);
	}
}

static void checks_probe_report_times(const struct times *times, const char *way,
				      struct finding *finding)
{
	char range[64], per_gib[64];

	if (!times->count)
		return;
	if (times->count > 2)
		finding_add(finding, VERDICT_OK, "%u pairs %s", times->count, way);
	else
		finding_add(finding, VERDICT_OK, "%s %s", times->pairs, way);
	if (times->large > 0) {
		checks_probe_print_range(range, sizeof(range), times->large, times->large_most, 1);
		checks_probe_print_range(per_gib, sizeof(per_gib), times->large / LARGE * GIB,
					 times->large_most / LARGE * GIB, 0);
		finding_append(finding, " 64 MiB %s ms (%s ms/GiB)", range, per_gib);
	}
	if (times->small > 0) {
		checks_probe_print_range(range, sizeof(range), times->small, times->small_most, 2);
		finding_append(finding, "%s 2 MiB %s ms", times->large > 0 ? "," : "", range);
	}
}

/* Reports defects of a successful registration: relaxed ordering, transfer, memory not returned. */
static void checks_probe_report_defects(struct host *host, const struct gpu *gpu,
					const struct adapter *adapter, enum way way,
					struct groups *groups, struct finding *finding)
{
	const char *relaxed = checks_probe_text(host, gpu, adapter, way, "relaxed");
	const char *returned = checks_probe_text(host, gpu, adapter, way, "returned");
	const struct reading *transfer = host_read(host, "probe/%d/%s/%s/transfer", gpu->ordinal,
						   adapter->name, way_name(way));
	char pair[96];

	snprintf(pair, sizeof(pair), "%s-%s", gpu->label, adapter->name);
	if (relaxed && strncmp(relaxed, "ok", 2))
		groups_add(groups, VERDICT_OK, pair, "not with relaxed ordering");
	if (!transfer->error && !strncmp(transfer->text, "ok", 2)) {
		groups_add(groups, VERDICT_OK, pair, "data arrives and comes back");
	} else if (transfer->error == EOPNOTSUPP) {
		groups_add(groups, VERDICT_UNKNOWN, pair, "no data could be sent: %s",
			   transfer->text);
	}
	if (returned && !strncmp(returned, "lost", 4)) {
		groups_add(groups, VERDICT_WARN, pair, "%lld KiB of GPU memory are not given back",
			   atoll(returned + 4) / 1024);
		finding_fix(finding,
			    "ask your administrator: update the driver; it keeps freed memory");
	}
}

/* Method proved for the pair; WAYS: none. */
static enum way checks_probe_proved_method(struct host *host, const struct gpu *gpu,
					   const struct adapter *adapter)
{
	for (enum way way = WAY_DMA_BUF; way < WAY_DATA_DIRECT; way++) {
		if (way_between(host, gpu, adapter, way).answer == ANSWER_PROVED)
			return way;
	}
	return WAYS;
}

/* Failure of this method, "CALL ERRNO"; NULL: it was not tried, or works. The small size takes
 * precedence. */
static const char *checks_probe_failure(struct host *host, const struct gpu *gpu,
					const struct adapter *adapter, enum way way)
{
	const char *large = checks_probe_text(host, gpu, adapter, way, "67108864");
	const char *small = checks_probe_text(host, gpu, adapter, way, "2097152");
	const char *text = small && !strncmp(small, "fail ", 5) ? small : large;

	return text && !strncmp(text, "fail ", 5) ? text + 5 : NULL;
}

static void checks_probe_report_failure(struct host *host, const struct gpu *gpu,
					const struct adapter *adapter, enum verdict verdict,
					struct groups *groups, struct finding *finding)
{
	char pair[96];

	snprintf(pair, sizeof(pair), "%s-%s", gpu->label, adapter->name);
	for (enum way way = WAY_DMA_BUF; way < WAY_DATA_DIRECT; way++) {
		const char *failure = checks_probe_failure(host, gpu, adapter, way);
		const struct meaning *meaning;

		if (!failure)
			continue;
		meaning = meaning_of(failure);
		groups_add(groups, verdict, pair, "%s fails: %s%s%s", way_name(way), failure,
			   *meaning->words ? ", " : "", meaning->words);
		finding_fix(finding, "%s",
			    adapter->software ? "use an RDMA adapter of hardware"
			    : meaning->fix    ? meaning->fix
					      : peermem_fix(host));
	}
}

/* Reports a method that registers memory but loses data, even if another method works: silent
 * data loss is worse than a failed registration. */
static void checks_probe_report_data_loss(struct host *host, const struct gpu *gpu,
					  const struct adapter *adapter, enum verdict verdict,
					  struct groups *groups, struct finding *finding)
{
	char pair[96];

	snprintf(pair, sizeof(pair), "%s-%s", gpu->label, adapter->name);
	for (enum way way = 0; way < WAYS; way++) {
		const char *broken = transfer_failure(host, gpu, adapter, way);

		if (!broken)
			continue;
		groups_add(groups, verdict, pair, "%s registers it, but data does not arrive: %s",
			   way_name(way), broken);
		finding_fix(finding, "peerpin doctor --only acs,iommu,path --verbose");
	}
}

/* If the GPU works with one adapter, failures of other adapters are warnings. */
static void checks_probe_gpu(struct host *host, const struct gpu *gpu, struct times times[WAYS],
			     struct groups *failures, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	struct answered answered;
	const struct adapter *chosen = adapter_of_gpu(host, gpu, &answered);
	enum way way = chosen ? checks_probe_proved_method(host, gpu, chosen) : WAYS;
	bool works = way != WAYS, skipped = false;

	if (works)
		checks_probe_add_time(host, gpu, chosen, way, times);
	for (unsigned int i = 0; i < machine->adapter_count; i++) {
		const struct adapter *adapter = &machine->adapters[i];

		checks_probe_report_data_loss(
			host, gpu, adapter, works ? VERDICT_WARN : VERDICT_FAIL, failures, finding);
		if (checks_probe_proved_method(host, gpu, adapter) == WAYS)
			checks_probe_report_failure(host, gpu, adapter,
						    !works		? VERDICT_FAIL
						    : adapter->software ? VERDICT_OK
									: VERDICT_WARN,
						    failures, finding);
	}
	for (unsigned int i = 0; i < machine->adapter_count; i++)
		skipped |= host_read(host, "probe/%d/%s/ended", gpu->ordinal,
				     machine->adapters[i].name)
				   ->error == ETIME;
	if (skipped) {
		finding_add(finding, VERDICT_UNKNOWN, "%s was not tried with each adapter: %s",
			    gpu->label, NO_TIME);
		finding_fix(finding, "peerpin doctor --limit 1200");
	} else if (!works && answered.answer != ANSWER_NO) {
		finding_add(finding, VERDICT_UNKNOWN, "%s was not tried", gpu->label);
	}
}

static void checks_probe_report_untried(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	const char *option = host_text(host, "option/probe");
	const char *ended = host_text(host, "probe/ended");

	if (option && !strcmp(option, "off"))
		finding_set(finding, VERDICT_UNKNOWN,
			    "left out (--no-probe): nothing was registered");
	else if (!machine->gpu_count || !machine->adapter_count)
		finding_set(finding, VERDICT_UNKNOWN, "nothing to register: no %s is visible",
			    machine->gpu_count	     ? "RDMA adapter"
			    : machine->adapter_count ? "GPU"
						     : "GPU and no RDMA adapter");
	else if (ended && strcmp(ended, "ok"))
		finding_set(finding, VERDICT_UNKNOWN,
			    "nothing was registered: the probe ended with %s", ended);
	else
		finding_set(finding, VERDICT_UNKNOWN,
			    "nothing was registered: GPU or adapter cannot be opened");
	if (option && !strcmp(option, "off"))
		finding_fix(finding, "peerpin doctor, without --no-probe");
	else if (machine->gpu_count && machine->adapter_count)
		finding_fix(finding, "peerpin doctor --only gpu,uverbs,verbs");
}

/* True if some pair was skipped for lack of time. */
static bool checks_probe_was_skipped(struct host *host)
{
	const struct machine *machine = machine_of(host);

	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		for (unsigned int j = 0; j < machine->adapter_count; j++) {
			if (host_read(host, "probe/%d/%s/ended", machine->gpus[i].ordinal,
				      machine->adapters[j].name)
				    ->error == ETIME)
				return true;
		}
	}
	return false;
}

static bool checks_probe_was_tried(struct host *host)
{
	const struct machine *machine = machine_of(host);

	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		for (unsigned int j = 0; j < machine->adapter_count; j++) {
			for (enum way way = WAY_DMA_BUF; way < WAY_DATA_DIRECT; way++) {
				if (checks_probe_failure(host, &machine->gpus[i],
							 &machine->adapters[j], way) ||
				    transfer_failure(host, &machine->gpus[i], &machine->adapters[j],
						     way) ||
				    way_between(host, &machine->gpus[i], &machine->adapters[j], way)
						    .answer == ANSWER_PROVED)
					return true;
			}
		}
	}
	return false;
}

void check_probe(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	const char *ended = host_text(host, "probe/ended");
	struct groups failures = { .count = 0 };
	struct times times[WAYS] = { { .count = 0 } };

	finding_read(finding, "2 MiB and 64 MiB of each GPU, registered with each adapter: local "
			      "and remote write, "
			      "remote read, remote atomic");
	if (!checks_probe_was_tried(host) && !checks_probe_was_skipped(host)) {
		checks_probe_report_untried(host, finding);
		return;
	}
	for (unsigned int i = 0; i < machine->gpu_count; i++)
		checks_probe_gpu(host, &machine->gpus[i], times, &failures, finding);
	for (enum way way = 0; way < WAYS; way++) {
		checks_probe_report_times(&times[way], way_name(way), finding);
		free(times[way].pairs);
	}
	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		struct answered answered;
		const struct adapter *chosen = adapter_of_gpu(host, &machine->gpus[i], &answered);
		enum way way =
			chosen ? checks_probe_proved_method(host, &machine->gpus[i], chosen) : WAYS;

		if (way != WAYS)
			checks_probe_report_defects(host, &machine->gpus[i], chosen, way, &failures,
						    finding);
	}
	groups_say(&failures, finding);
	if (ended && strcmp(ended, "ok")) {
		finding_add(finding, VERDICT_WARN, "the probe ended with %s", ended);
		finding_fix(finding, "dmesg | tail (as root)");
	}
}
