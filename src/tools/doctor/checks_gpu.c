/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_gpu.c -- checks of the GPUs, through the driver */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pci_resource.h"
#include "tools/doctor/groups.h"

#define GIB (1ULL << 30)

#define DRIVER_FIX "nvidia-smi, and sudo dmesg | grep NVRM: the driver or the GPU is in a bad state"

/* CUdevice_attribute, numbered as in cuda.h. */
enum {
	INTEGRATED = 18,
	MAPPED = 110, /* GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
	GPU_DIRECT_RDMA = 116,
	FLUSH_WRITES = 117,
	WRITES_ORDERING = 118,
	DMA_BUF = 124,
};

/* False: no driver, or no GPU; the finding has the reason. */
static bool checks_gpu_driver_answers(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	const struct reading *library = host_read(host, "cuda/library");
	const struct reading *init = host_read(host, "cuda/init");
	const char *ended = host_text(host, "cuda/ended");
	enum verdict verdict = machine->gpu_count ? VERDICT_FAIL : VERDICT_UNKNOWN;

	if (machine->driver_answers && machine->gpu_count)
		return true;
	if (had_no_time(host, finding, "cuda/ended"))
		return false;
	if (!init->error)
		finding_set(finding, verdict, "cuInit: %s",
			    machine->driver_answers ? "no device is visible" : init->text);
	else if (ended && strcmp(ended, "ok"))
		finding_set(finding, verdict, "asking the driver ended with %s", ended);
	else if (library->error && !reading_is_refused(library) && ended)
		finding_set(finding, verdict, "libcuda.so.1 cannot be loaded");
	else
		finding_set(finding, VERDICT_UNKNOWN, "the CUDA driver was not asked");
	if (machine->driver_answers && machine->hidden_gpus) {
		finding_add(finding, VERDICT_UNKNOWN, "%u on the PCI bus are hidden from it",
			    machine->hidden_gpus);
		finding_fix(finding, "unset CUDA_VISIBLE_DEVICES");
	}
	if (ended && strcmp(ended, "ok"))
		finding_fix(finding, DRIVER_FIX);
	else if (!machine->hidden_gpus)
		finding_fix(finding, "run it where a GPU and its driver are: docker run --gpus "
				     "all, srun --gpus 1");
	return false;
}

/* Value of a device attribute; -1: unknown. 0 for INVALID_VALUE: a driver older than the
 * attribute lacks the feature. */
static int64_t checks_gpu_attribute(struct host *host, const struct gpu *gpu, int which)
{
	const struct reading *reading =
		host_read(host, "cuda/%d/attribute/%d", gpu->ordinal, which);

	if (!reading->error)
		return atoi(reading->text);
	if (strstr(reading->text, "INVALID_VALUE"))
		return 0;
	host_has(host, "cuda/%d/attribute/%d", gpu->ordinal, which); /* notes the error */
	return -1;
}

static void checks_gpu_device(struct host *host, const struct gpu *gpu, struct groups *groups,
			      struct finding *finding)
{
	const char *name = host_text(host, "cuda/%d/name", gpu->ordinal);
	const char *context = host_text(host, "cuda/%d/context", gpu->ordinal);
	int64_t direct = checks_gpu_attribute(host, gpu, GPU_DIRECT_RDMA),
		buffer = checks_gpu_attribute(host, gpu, DMA_BUF);
	enum verdict verdict = VERDICT_OK;
	const char *words = "dma-buf and peer memory";

	if (!name)
		name = "(no name)";
	if (direct < 0 && buffer < 0) {
		verdict = VERDICT_UNKNOWN;
		words = "the driver does not say what it supports";
	} else if (direct < 0 || buffer < 0) {
		verdict = VERDICT_UNKNOWN;
		words = direct < 0
				? "the driver does not say whether it has peer memory (attribute "
				  "116)"
				: "the driver does not say whether it has dma-buf (attribute 124)";
	} else if (direct < 1 && buffer < 1) {
		verdict = VERDICT_FAIL;
		words = checks_gpu_attribute(host, gpu, INTEGRATED) > 0
				? "integrated: no GPUDirect RDMA"
				: "no GPUDirect RDMA";
		finding_fix(finding, "use a data centre or workstation GPU: GeForce and integrated "
				     "ones have none");
	} else if (direct < 1) {
		words = "dma-buf only";
	} else if (is_past_peer_memory(host, gpu)) {
		verdict = buffer < 1 ? VERDICT_WARN : VERDICT_OK;
		words = buffer < 1 ? "peer memory only (attribute 124 is 0), which is not known to "
				     "work from "
				     "compute capability 10 on"
				   : "dma-buf; from compute capability 10 on peer memory is not "
				     "known to work";
	} else if (buffer < 1) {
		words = "peer memory only (attribute 124 is 0)";
	}
	if (verdict == VERDICT_WARN)
		finding_fix(finding,
			    "ask your administrator: install the driver's open kernel modules "
			    "(package nvidia-open)");
	if (direct > 0 && !checks_gpu_attribute(host, gpu, MAPPED))
		groups_add(groups, VERDICT_OK, gpu->label,
			   "peer memory takes no mapped memory (attribute 110 is 0)");
	if (direct > 0 && !checks_gpu_attribute(host, gpu, FLUSH_WRITES) &&
	    !checks_gpu_attribute(host, gpu, WRITES_ORDERING)) {
		groups_add(
			groups, VERDICT_WARN, gpu->label,
			"what adapters write is neither ordered nor flushed for kernels that run "
			"(attributes 117 and 118 are 0)");
		finding_fix(finding, "ask your administrator: update the driver");
	}
	if (context && strcmp(context, "CUDA_SUCCESS")) {
		groups_add(groups, VERDICT_WARN, gpu->label, "%s: %s; no context: %s", name, words,
			   context);
		finding_fix(finding,
			    "nvidia-smi -q -d COMPUTE; nvidia-smi pmon -c 1 (who uses it?)");
	} else {
		groups_add(groups, verdict, gpu->label, "%s: %s", name, words);
	}
}

void check_gpu(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	const char *ended;
	struct groups groups = { .count = 0 };

	finding_read(finding,
		     "cuInit, cuDeviceGetAttribute 18 110 116 117 118 124, compute capability");
	if (!checks_gpu_driver_answers(host, finding))
		return;
	for (unsigned int i = 0; i < machine->gpu_count; i++)
		checks_gpu_device(host, &machine->gpus[i], &groups, finding);
	groups_say(&groups, finding);
	if (machine->hidden_gpus)
		finding_add(finding, VERDICT_OK, "%u more on the PCI bus are not visible to CUDA",
			    machine->hidden_gpus);
	ended = host_text(host, "cuda/ended");
	if (ended && strcmp(ended, "ok")) {
		finding_add(finding, VERDICT_WARN, "asking the driver ended with %s", ended);
		finding_fix(finding, DRIVER_FIX);
	}
}

/* ---- BAR1 ---- */

static void checks_gpu_print_size(char *to, size_t size, uint64_t bytes)
{
	if (bytes >= GIB)
		snprintf(to, size, "%llu GiB", (unsigned long long)(bytes / GIB));
	else
		snprintf(to, size, "%llu MiB", (unsigned long long)(bytes >> 20));
}

static void checks_gpu_bar1(struct host *host, const struct gpu *gpu, struct groups *groups,
			    struct finding *finding)
{
	const char *resource =
		*gpu->pci ? host_text(host, "/sys/bus/pci/devices/%s/resource", gpu->pci) : NULL;
	uint64_t bytes = resource ? pci_resource_bar1(resource) : 0;
	int64_t memory = 0, total = 0;
	char bar1[32], whole[32];

	if (gpu->ordinal >= 0 && host_number(host, &total, "cuda/%d/bar1", gpu->ordinal) && !bytes)
		bytes = (uint64_t)total;
	if (gpu->ordinal >= 0 && !host_number(host, &memory, "cuda/%d/memory", gpu->ordinal))
		memory = 0;
	checks_gpu_print_size(bar1, sizeof(bar1), bytes);
	checks_gpu_print_size(whole, sizeof(whole), (uint64_t)memory);
	if (!bytes) {
		groups_add(groups, VERDICT_UNKNOWN, gpu->label, "tells no BAR1");
	} else if (bytes < GIB) {
		groups_add(groups, VERDICT_WARN, gpu->label,
			   "%s: only that much can be registered at a time", bar1);
		finding_fix(finding,
			    "ask your administrator: above 4G decoding and resizable BAR on in the "
			    "firmware; "
			    "else PEERPIN_PIN_LIMIT=%s",
			    bytes >= 256 << 20 ? "128M" : "64M");
	} else if (memory && bytes < (uint64_t)memory) {
		groups_add(groups, VERDICT_WARN, gpu->label,
			   "%s of %s: not all memory can be registered at a time", bar1, whole);
		finding_fix(finding, "ask your administrator: resizable BAR on in the firmware");
	} else {
		groups_add(groups, VERDICT_OK, gpu->label, "%s%s", bar1,
			   memory ? ", all of its memory" : "");
	}
}

void check_bar1(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	struct groups groups = { .count = 0 };

	finding_read(finding, "/sys/bus/pci/devices/GPU/resource, nvmlDeviceGetBAR1MemoryInfo");
	if (!machine->gpu_count) {
		finding_set(finding, VERDICT_UNKNOWN, "no GPU is visible");
		return;
	}
	for (unsigned int i = 0; i < machine->gpu_count; i++)
		checks_gpu_bar1(host, &machine->gpus[i], &groups, finding);
	groups_say(&groups, finding);
}

/* ---- modes ---- */

void check_gpu_mode(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	struct groups groups = { .count = 0 };

	finding_read(finding,
		     "nvmlDeviceGetMigMode, nvmlDeviceGetPersistenceMode, pending page retirement");
	if (!checks_gpu_driver_answers(host, finding)) {
		finding_set(finding, VERDICT_UNKNOWN, "no GPU is visible to the driver");
		return;
	}
	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		const struct gpu *gpu = &machine->gpus[i];
		int64_t mig = -1, persistence = -1, pending = 0;
		bool known = host_number(host, &mig, "cuda/%d/mig", gpu->ordinal);

		known |= host_number(host, &persistence, "cuda/%d/persistence", gpu->ordinal);
		if (host_number(host, &pending, "cuda/%d/ecc_pending", gpu->ordinal) && pending) {
			groups_add(&groups, VERDICT_WARN, gpu->label,
				   "has memory errors that wait for a reset");
			finding_fix(finding, "ask your administrator: nvidia-smi --gpu-reset");
		}
		if (mig > 0) {
			groups_add(&groups, VERDICT_WARN, gpu->label,
				   "is in MIG mode: its instances may not be reachable");
			finding_fix(finding, "sudo nvidia-smi -mig 0");
		} else if (!persistence) {
			groups_add(&groups, VERDICT_OK, gpu->label, "whole, persistence mode off");
		} else {
			groups_add(&groups, known ? VERDICT_OK : VERDICT_UNKNOWN, gpu->label, "%s",
				   known ? "whole, persistence mode on" : "NVML does not say");
		}
	}
	groups_say(&groups, finding);
}

/* ---- dma-buf ---- */

/* Pointer attribute of new memory of each kind: supported by peer memory or not. */
static void checks_gpu_capable(struct host *host, const struct gpu *gpu, struct groups *groups,
			       struct finding *finding)
{
	static const struct {
		const char *kind, *words;
	} kinds[] = { { "mapped_plain", "mapped without gpuDirectRDMACapable" },
		      { "pool", "pool" } };
	char words[100] = "";
	int64_t capable;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t length = strlen(words);

		if (host_number(host, &capable, "cuda/%d/capable/%s", gpu->ordinal,
				kinds[i].kind) &&
		    !capable)
			snprintf(words + length, sizeof(words) - length, "%s%s", length ? ", " : "",
				 kinds[i].words);
	}
	if (*words)
		groups_add(groups, VERDICT_OK, gpu->label, "peer memory takes none that is: %s",
			   words);
	for (size_t i = 0; i < 2; i++) {
		const char *kind = i ? "mapped" : "device";

		if (!host_number(host, &capable, "cuda/%d/capable/%s", gpu->ordinal, kind) ||
		    capable)
			continue;
		groups_add(groups, VERDICT_WARN, gpu->label,
			   "%s memory is out of adapters' reach (IS_GPU_DIRECT_RDMA_CAPABLE is 0)",
			   kind);
		finding_fix(finding,
			    "nvidia-smi -q: a GPU in MIG mode, a virtual or an integrated one");
	}
}

static void checks_gpu_export(struct host *host, const struct gpu *gpu, struct groups *groups)
{
	static const struct {
		const char *kind, *words;
	} others[] = { { "mapped", "mapped" },
		       { "mapped_plain", "mapped without gpuDirectRDMACapable" },
		       { "pool", "pool" },
		       { "device_pcie", "the PCIe mapping" } };
	const char *plain = host_text(host, "cuda/%d/export/device", gpu->ordinal);
	char words[200] = "";

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		const char *result =
			host_text(host, "cuda/%d/export/%s", gpu->ordinal, others[i].kind);
		size_t length = strlen(words);

		if (result && strcmp(result, "ok"))
			snprintf(words + length, sizeof(words) - length, "%s%s",
				 length ? ", " : " (not: ", others[i].words);
	}
	if (*words)
		strncat(words, ")", sizeof(words) - strlen(words) - 1);
	if (!plain)
		groups_add(groups, VERDICT_UNKNOWN, gpu->label, "was not tried");
	else if (!strcmp(plain, "ok"))
		groups_add(groups, VERDICT_OK, gpu->label, "device memory is exported%s", words);
	else
		groups_add(groups, VERDICT_FAIL, gpu->label, "device memory is not exported: %s",
			   plain);
}

void check_export(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	struct groups groups = { .count = 0 };
	char *text;

	finding_read(
		finding,
		"cuMemAlloc, cuMemGetHandleForAddressRange of 2 MiB, IS_GPU_DIRECT_RDMA_CAPABLE");
	if (!checks_gpu_driver_answers(host, finding)) {
		finding_set(finding, VERDICT_UNKNOWN, "no GPU is visible to the driver");
		return;
	}
	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		checks_gpu_export(host, &machine->gpus[i], &groups);
		checks_gpu_capable(host, &machine->gpus[i], &groups, finding);
	}
	groups_say(&groups, finding);
	if (finding->verdict == VERDICT_FAIL) {
		text = finding->text;
		finding->text = NULL;
		finding_without(host, finding, WAY_PEER_MEMORY, text);
		free(text);
		finding_fix(finding,
			    "ask your administrator: install the driver's open kernel modules "
			    "(package nvidia-open)");
	}
}
