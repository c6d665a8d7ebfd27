/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_probe.c -- what came of registering real GPU memory with each adapter: the check that decides */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/groups.h"

#define LARGE	 67108864
#define SMALL	 2097152
#define GIB	 1073741824.0
#define NS_OF_MS 1e6

/* What a failed call means. The first row whose words are in both is taken; "" is in everything. */
static const struct {
	const char *call;
	const char *error;
	const char *words;
	const char *mend;
} meanings[] = {
	{ "dmabuf", "ENOTSUPP", "the kernel refuses the PCIe path between them",
	  "peerpin doctor --only path --verbose; then another adapter, or nvidia-peermem" },
	{ "dmabuf", "EOPNOTSUPP", "the adapter's driver has no dma-buf", "sudo modprobe nvidia-peermem" },
	{ "dmabuf", "EPROTONOSUPPORT", "the adapter's driver has no dma-buf",
	  "sudo modprobe nvidia-peermem" },
	{ "dmabuf", "ENOMEM", "no room: RLIMIT_MEMLOCK, BAR1 or the adapter's tables",
	  "peerpin doctor --only limits,bar1" },
	{ "cuMemGetHandleForAddressRange", "", "the driver gives no dma-buf",
	  "ask your administrator: install the driver's open kernel modules (package nvidia-open)" },
	{ "ibv_reg_mr", "EFAULT", "no peer-memory client takes it", "sudo modprobe nvidia-peermem" },
	{ "ibv_reg_mr", "ENOMEM", "no room: RLIMIT_MEMLOCK, BAR1 or the adapter's tables",
	  "peerpin doctor --only limits,bar1" },
	{ "ibv_open_device", "", "the adapter cannot be opened", "peerpin doctor --only uverbs" },
	{ "cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", "the GPU has no 64 MiB left",
	  "nvidia-smi (who uses it?)" },
	{ "timeout", "", "it did not end in time", "dmesg | tail (as root)" },
	{ "", "EINVAL", "the rights or the range are refused", "peerpin doctor --verbose --dump host.txt" },
	{ "", "", "", "peerpin doctor --verbose --dump host.txt, and look into it" },
};

static size_t meaning_of(const char *failure)
{
	size_t i = 0;

	while (!strstr(failure, meanings[i].call) || !strstr(failure, meanings[i].error))
		i++;
	return i;
}

static const char *probe_text(struct host *host, const struct gpu *gpu, const struct adapter *adapter,
			      enum way way, const char *what)
{
	return host_text(host, "probe/%d/%s/%s/%s", gpu->ordinal, adapter->name, way_name(way), what);
}

static double milliseconds(const char *text)
{
	return text && !strncmp(text, "ok ", 3) ? atof(text + 3) / NS_OF_MS : 0;
}

static void say_time(struct host *host, const struct gpu *gpu, const struct adapter *adapter, enum way way,
		     struct finding *finding)
{
	double large = milliseconds(probe_text(host, gpu, adapter, way, "67108864"));
	double small = milliseconds(probe_text(host, gpu, adapter, way, "2097152"));
	const char *relaxed = probe_text(host, gpu, adapter, way, "relaxed");
	const char *returned = probe_text(host, gpu, adapter, way, "returned");
	const char *transfer = probe_text(host, gpu, adapter, way, "transfer");

	finding_add(finding, VERDICT_OK, "%s-%s %s", gpu->label, adapter->name, way_name(way));
	if (large > 0)
		finding_append(finding, " 64 MiB %.1f ms (%.0f ms/GiB)", large, large / LARGE * GIB);
	if (small > 0)
		finding_append(finding, "%s 2 MiB %.1f ms", large > 0 ? "," : "", small);
	if (relaxed && strncmp(relaxed, "ok", 2))
		finding_append(finding, ", not with relaxed ordering");
	if (transfer)
		finding_append(finding, ", data %s", strcmp(transfer, "ok") ? transfer : "arrives");
	if (transfer && strcmp(transfer, "ok")) {
		finding->verdict = VERDICT_FAIL;
		finding_mend(finding, "peerpin doctor --only acs,iommu,path --verbose");
	}
	if (returned && strcmp(returned, "ok")) {
		finding_append(finding, ", memory not returned (%s)", returned);
		if (finding->verdict < VERDICT_WARN)
			finding->verdict = VERDICT_WARN;
		finding_mend(finding, "ask your administrator: update the driver; it keeps freed memory");
	}
}

/* The way that was proved for the pair; WAYS: none. */
static enum way proved_way(struct host *host, const struct gpu *gpu, const struct adapter *adapter)
{
	for (enum way way = WAY_DMA_BUF; way < WAY_DATA_DIRECT; way++) {
		if (way_between(host, gpu, adapter, way).answer == ANSWER_PROVED)
			return way;
	}
	return WAYS;
}

/* Why it fails, by each way that was tried; NULL if none was. */
static const char *failure_of(struct host *host, const struct gpu *gpu, const struct adapter *adapter,
			      enum way way)
{
	const char *large = probe_text(host, gpu, adapter, way, "67108864");
	const char *small = probe_text(host, gpu, adapter, way, "2097152");
	const char *text = small && !strncmp(small, "fail ", 5) ? small : large;

	return text && !strncmp(text, "fail ", 5) ? text + 5 : NULL;
}

static void say_failure(struct host *host, const struct gpu *gpu, const struct adapter *adapter,
			enum verdict verdict, struct groups *groups, struct finding *finding)
{
	char pair[96];

	snprintf(pair, sizeof(pair), "%s-%s", gpu->label, adapter->name);
	for (enum way way = WAY_DMA_BUF; way < WAY_DATA_DIRECT; way++) {
		const char *failure = failure_of(host, gpu, adapter, way);
		size_t meaning = failure ? meaning_of(failure) : 0;

		if (!failure)
			continue;
		groups_add(groups, verdict, pair, "%s fails: %s%s%s", way_name(way), failure,
			   *meanings[meaning].words ? ", " : "", meanings[meaning].words);
		finding_mend(finding, "%s", meanings[meaning].mend);
	}
}

/* Where a GPU works by one adapter, the others' failures are a warning. */
static void look_at_probed(struct host *host, const struct gpu *gpu, struct groups *failures,
			   struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	struct answered answered;
	const struct adapter *chosen = adapter_of_gpu(host, gpu, &answered);
	bool works = chosen && proved_way(host, gpu, chosen) != WAYS;

	if (works)
		say_time(host, gpu, chosen, proved_way(host, gpu, chosen), finding);
	for (unsigned int i = 0; i < machine->adapter_count; i++) {
		const struct adapter *adapter = &machine->adapters[i];

		if (proved_way(host, gpu, adapter) == WAYS)
			say_failure(host, gpu, adapter,
				    !works		? VERDICT_FAIL
				    : adapter->software ? VERDICT_OK
							: VERDICT_WARN,
				    failures, finding);
	}
	if (!works && answered.answer != ANSWER_NO)
		finding_add(finding, VERDICT_UNKNOWN, "%s was not tried", gpu->label);
}

static void say_untried(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	const char *option = host_text(host, "option/probe");
	const char *ended = host_text(host, "probe/ended");

	if (option && !strcmp(option, "off"))
		finding_set(finding, VERDICT_UNKNOWN, "left out (--no-probe): nothing was registered");
	else if (!machine->gpu_count || !machine->adapter_count)
		finding_set(finding, VERDICT_UNKNOWN, "nothing to register: no %s is visible",
			    machine->gpu_count	     ? "RDMA adapter"
			    : machine->adapter_count ? "GPU"
						     : "GPU and no RDMA adapter");
	else if (ended && strcmp(ended, "ok"))
		finding_set(finding, VERDICT_UNKNOWN, "nothing was registered: the probe ended with %s",
			    ended);
	else
		finding_set(finding, VERDICT_UNKNOWN,
			    "nothing was registered: GPU or adapter cannot be opened");
	if (machine->gpu_count && machine->adapter_count)
		finding_mend(finding, "peerpin doctor --only gpu,uverbs,verbs");
}

static bool was_tried(struct host *host)
{
	const struct machine *machine = machine_of(host);

	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		for (unsigned int j = 0; j < machine->adapter_count; j++) {
			for (enum way way = WAY_DMA_BUF; way < WAY_DATA_DIRECT; way++) {
				if (failure_of(host, &machine->gpus[i], &machine->adapters[j], way) ||
				    way_between(host, &machine->gpus[i], &machine->adapters[j], way).answer ==
					    ANSWER_PROVED)
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

	finding_read(finding,
		     "2 MiB and 64 MiB of each GPU, registered with each adapter: local and remote write, "
		     "remote read, remote atomic");
	if (!was_tried(host)) {
		say_untried(host, finding);
		return;
	}
	for (unsigned int i = 0; i < machine->gpu_count; i++)
		look_at_probed(host, &machine->gpus[i], &failures, finding);
	groups_say(&failures, finding);
	if (ended && strcmp(ended, "ok"))
		finding_add(finding, VERDICT_WARN, "the probe ended with %s", ended);
}
