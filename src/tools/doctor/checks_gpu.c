/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_gpu.c -- checks of the GPUs, through the driver */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pci.h"
#include "tools/doctor/checks.h"
#include "tools/units.h"

#define GIB (1LL << 30)

#define FIX_OTHER_GPU "use a data centre or workstation GPU: GeForce GPUs have none"
#define DRIVER_FIX    "nvidia-smi, and sudo dmesg | grep NVRM: the driver or the GPU is in a bad state"

/* CUdevice_attribute, numbered as in cuda.h. */
enum {
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
	bool lost = ended && strcmp(ended, "ok");
	bool no_device = machine->driver_answers || strstr(init->text, "NO_DEVICE");
	enum result result = machine->gpu_count ? FAIL : UNKNOWN;

	if (machine->driver_answers && machine->gpu_count)
		return true;
	if (had_no_time(host, finding, "cuda/ended"))
		return false;
	if (!init->error)
		finding_add(finding, result, "cuInit: %s",
			    machine->driver_answers ? "no device is visible" : init->text);
	else if (lost)
		finding_add(finding, result, "the CUDA probe process %s", end_words(ended));
	else if (library->error && !reading_is_refused(library) && ended)
		finding_add(finding, result, "libcuda.so.1 cannot be loaded");
	else
		finding_add(finding, UNKNOWN, "the CUDA driver was not queried");
	if (machine->driver_answers && machine->hidden_gpus)
		finding_add(finding, UNKNOWN, "%u on the PCI bus are hidden from it",
			    machine->hidden_gpus);
	if (lost)
		finding_fix(finding, DRIVER_FIX);
	else if (no_device && host_has(host, "environment/CUDA_VISIBLE_DEVICES"))
		finding_fix(finding, "unset CUDA_VISIBLE_DEVICES, or name a GPU of this job in it");
	else
		finding_fix(finding, FIX_NO_GPU);
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
	host_read_noting(host, "cuda/%d/attribute/%d", gpu->ordinal, which);
	return -1;
}

/* Methods that the driver reports for a GPU. */
static const char *checks_gpu_methods(struct host *host, const struct gpu *gpu,
				      struct finding *finding, enum result *result)
{
	int64_t direct = checks_gpu_attribute(host, gpu, GPU_DIRECT_RDMA);
	int64_t buffer = checks_gpu_attribute(host, gpu, DMA_BUF);

	*result = OK;
	if (gpu_is_integrated(host, gpu))
		return "integrated: adapters access memory of cudaHostAlloc, not of cudaMalloc";
	*result = UNKNOWN;
	if (direct < 0 && buffer < 0)
		return "the driver reports no attribute (116 and 124)";
	if (direct < 0)
		return "the driver does not report support of peer memory (attribute 116)";
	if (buffer < 0)
		return "the driver does not report support of dma-buf (attribute 124)";
	*result = OK;
	if (!direct && buffer)
		return "dma-buf only";
	if (!direct) {
		*result = FAIL;
		return "no GPUDirect RDMA";
	}
	if (!is_past_peer_memory(host, gpu))
		return buffer ? "dma-buf and peer memory" : "peer memory only (attribute 124 is 0)";
	if (buffer)
		return "dma-buf; peer memory is unproven from compute capability 10 on";
	*result = WARN;
	finding_fix(finding, "%s", fix_no_export(host));
	return "peer memory only (attribute 124 is 0), unproven from compute capability 10 on";
}

static void checks_gpu_device(struct host *host, const struct gpu *gpu, struct finding *finding)
{
	const char *name = host_text(host, "cuda/%d/name", gpu->ordinal);
	const char *context = host_text(host, "cuda/%d/context", gpu->ordinal);
	enum result result;
	const char *methods = checks_gpu_methods(host, gpu, finding, &result);
	bool direct = checks_gpu_attribute(host, gpu, GPU_DIRECT_RDMA) > 0;

	if (direct && !checks_gpu_attribute(host, gpu, MAPPED))
		finding_item(finding, OK, gpu->label,
			     "peer memory cannot register VMM memory (attribute 110 is 0)");
	if (direct && !checks_gpu_attribute(host, gpu, FLUSH_WRITES) &&
	    !checks_gpu_attribute(host, gpu, WRITES_ORDERING)) {
		finding_implied(finding, gpu->label, NULL, WARN,
				"ask your administrator: update the driver",
				"adapter writes are neither ordered nor flushed for running "
				"kernels (attributes 117 and 118 are 0)");
	}
	if (!name)
		name = "(no name)";
	if (context && strcmp(context, "CUDA_SUCCESS")) {
		finding_item(finding, WARN, gpu->label, "%s: %s; no context: %s", name, methods,
			     context);
		finding_fix(
			finding,
			"nvidia-smi -q -d COMPUTE; nvidia-smi pmon -c 1 (processes that use it)");
	} else {
		finding_implied(finding, gpu->label,
				result == FAIL ? proof_of(host, gpu, NULL, METHODS) : NULL, result,
				result == FAIL ? FIX_OTHER_GPU : NULL, "%s: %s", name, methods);
	}
}

void check_gpu(struct host *host, struct finding *finding)
{
	const char *ended = host_text(host, "cuda/ended");

	if (!checks_gpu_driver_answers(host, finding))
		return;
	EACH_GPU(host, gpu)
		checks_gpu_device(host, gpu, finding);
	if (machine_of(host)->hidden_gpus)
		finding_add(finding, OK, "%u more on the PCI bus are not visible to CUDA",
			    machine_of(host)->hidden_gpus);
	if (ended && strcmp(ended, "ok"))
		finding_problem(finding, WARN, DRIVER_FIX, "the CUDA probe process %s",
				end_words(ended));
}

/* ---- BAR1 ---- */

static const char *checks_gpu_size(int64_t bytes)
{
	return bytes >= GIB ? text_of("%lld GiB", (long long)(bytes / GIB))
			    : text_of("%lld MiB", (long long)bytes >> 20);
}

#define FIX_BAR1 "ask your administrator: Above 4G Decoding and Resizable BAR on in the BIOS"

struct bar1 bar1_of(struct host *host, const struct gpu *gpu)
{
	const char *resource =
		*gpu->pci ? host_text(host, "/sys/bus/pci/devices/%s/resource", gpu->pci) : NULL;
	const char *nvml = gpu->ordinal >= 0 ? host_text(host, "cuda/%d/bar1", gpu->ordinal) : NULL;
	struct bar1 bar1 = { .unassigned = resource && *resource };
	long long total = 0;

	if (resource)
		bar1.bytes = (long long)pci_resource_bar1(resource);
	if (nvml && sscanf(nvml, "%lld %lld", &total, &bar1.used) > 0 && !bar1.bytes)
		bar1.bytes = total;
	bar1.unassigned &= !bar1.bytes;
	return bar1;
}

static void checks_gpu_bar1(struct host *host, const struct gpu *gpu, struct finding *finding)
{
	struct bar1 room = bar1_of(host, gpu);
	long long bytes = room.bytes;
	const char *size = checks_gpu_size(bytes);
	int64_t memory = 0;

	if (gpu->ordinal >= 0 && !host_number(host, &memory, "cuda/%d/memory", gpu->ordinal))
		memory = 0;
	if (gpu_is_integrated(host, gpu)) {
		finding_item(finding, OK, gpu->label, "integrated: no BAR1");
	} else if (room.unassigned) {
		finding_implied(finding, gpu->label, proof_of(host, gpu, NULL, METHODS), FAIL,
				FIX_BAR1, "has no BAR1: the firmware assigned no addresses to it");
	} else if (!bytes) {
		finding_item(finding, UNKNOWN, gpu->label, "reports no BAR1");
	} else if (bytes < GIB) {
		finding_item(finding, WARN, gpu->label, "%s: registrations cannot exceed it", size);
		finding_fix(finding, FIX_BAR1 "; else PEERPIN_PIN_LIMIT=%s",
			    bytes >= 256 << 20 ? "128M" : "64M");
	} else if (memory && bytes < memory) {
		finding_item(finding, WARN, gpu->label,
			     "%s of %s: registrations cannot cover all memory", size,
			     checks_gpu_size(memory));
		finding_fix(finding, FIX_BAR1);
	} else {
		finding_item(finding, OK, gpu->label, "%s%s", size,
			     memory ? ", all of its memory" : "");
	}
	if (room.used > bytes / 8 * 7) {
		finding_item(finding, WARN, gpu->label,
			     "%s of BAR1 in use: registrations may find no room",
			     checks_gpu_size(room.used));
		finding_fix(finding,
			    "nvidia-smi (processes that use it), nvidia-smi -q -d MEMORY (BAR1)");
	} else if (room.used > bytes / 8) {
		finding_item(finding, OK, gpu->label, "%s of BAR1 in use",
			     checks_gpu_size(room.used));
	}
}

void check_bar1(struct host *host, struct finding *finding)
{
	if (!machine_of(host)->gpu_count)
		finding_add(finding, UNKNOWN, NO_GPU);
	EACH_GPU(host, gpu)
		checks_gpu_bar1(host, gpu, finding);
}

/* ---- modes ---- */

static void checks_gpu_mode(struct host *host, const struct gpu *gpu, struct finding *finding)
{
	int64_t mig = -1, persistence = -1, pending = 0;
	bool known = host_number(host, &mig, "cuda/%d/mig", gpu->ordinal);

	known |= host_number(host, &persistence, "cuda/%d/persistence", gpu->ordinal);
	if (host_number(host, &pending, "cuda/%d/ecc_pending", gpu->ordinal) && pending) {
		finding_item(finding, WARN, gpu->label, "has memory errors that wait for a reset");
		finding_fix(finding, "ask your administrator: nvidia-smi --gpu-reset");
	}
	if (gpu_is_integrated(host, gpu)) {
		finding_item(finding, OK, gpu->label, "integrated");
	} else if (mig > 0) {
		finding_implied(
			finding, gpu->label, proof_of(host, gpu, NULL, METHODS), WARN,
			as_root(host, "nvidia-smi%s%s -mig 0", *gpu->pci ? " -i " : "", gpu->pci),
			"is in MIG mode: its instances may not be reachable");
	} else if (!known) {
		finding_item(finding, UNKNOWN, gpu->label, "NVML reports no mode");
	} else {
		finding_item(finding, OK, gpu->label, "whole, persistence mode %s",
			     persistence ? "on" : "off");
	}
}

void check_gpu_mode(struct host *host, struct finding *finding)
{
	if (!checks_gpu_driver_answers(host, finding)) {
		finding_set(finding, UNKNOWN, NO_GPU);
		return;
	}
	EACH_GPU(host, gpu)
		checks_gpu_mode(host, gpu, finding);
}

/* ---- dma-buf ---- */

/* Kinds of memory in the readings cuda/N/export and cuda/N/capable. */
static const struct kind {
	const char *name, *words;
} kinds[] = { { "mapped", "VMM" },
	      { "mapped_plain", "VMM without gpuDirectRDMACapable" },
	      { "pool", "pool" },
	      { "device_pcie", "PCIe mapping" } };

/* The probe registers device memory. VMM memory is measured by its export, where dma-bufs of this
 * GPU are registered. */
static const char *checks_gpu_reached(struct host *host, const struct gpu *gpu, const char *kind)
{
	const char *exported = host_text(host, "cuda/%d/export/%s", gpu->ordinal, kind);

	if (!strcmp(kind, "device"))
		return proof_of(host, gpu, NULL, METHODS);
	return exported && !strcmp(exported, "ok") && proof_of(host, gpu, NULL, METHOD_DMA_BUF)
		       ? "it is exported as a dma-buf"
		       : NULL;
}

/* Pointer attribute of new memory of each kind: supported by peer memory or not. */
static void checks_gpu_capable(struct host *host, const struct gpu *gpu, struct finding *finding)
{
	static const struct kind expected[] = { { "device", "device" }, { "mapped", "VMM" } };
	char *words = NULL;
	int64_t capable;

	for (const struct kind *kind = kinds + 1; kind < kinds + 3; kind++) {
		if (host_number(host, &capable, "cuda/%d/capable/%s", gpu->ordinal, kind->name) &&
		    !capable)
			list_append(&words, ", ", kind->words);
	}
	if (words)
		finding_item(finding, OK, gpu->label, "peer memory cannot register: %s", words);
	for (size_t i = 0; i < 2; i++) {
		if (!host_number(host, &capable, "cuda/%d/capable/%s", gpu->ordinal,
				 expected[i].name) ||
		    capable)
			continue;
		finding_implied(
			finding, gpu->label, checks_gpu_reached(host, gpu, expected[i].name), WARN,
			"nvidia-smi -q: a GPU in MIG mode, a virtual or an integrated one",
			"%s memory is out of adapters' reach (IS_GPU_DIRECT_RDMA_CAPABLE is 0)",
			expected[i].words);
	}
}

static void checks_gpu_export(struct host *host, const struct gpu *gpu, struct finding *finding)
{
	const char *plain = host_text(host, "cuda/%d/export/device", gpu->ordinal);
	const char *ended = plain ? NULL : host_text(host, "cuda/%d/ended", gpu->ordinal);
	char *words = NULL;

	for (const struct kind *kind = kinds; kind < kinds + 4; kind++) {
		const char *result = host_text(host, "cuda/%d/export/%s", gpu->ordinal, kind->name);

		if (result && strcmp(result, "ok"))
			list_append(&words, ", ", kind->words);
	}
	if (ended && strcmp(ended, "ok")) {
		finding_item(finding, WARN, gpu->label, "the CUDA probe process %s",
			     end_words(ended));
		finding_fix(finding, DRIVER_FIX);
	} else if (gpu_is_integrated(host, gpu)) {
		finding_item(finding, OK, gpu->label, "integrated: no dma-buf");
	} else if (!plain) {
		finding_item(finding, UNKNOWN, gpu->label, "was not tried");
	} else if (strcmp(plain, "ok")) {
		finding_implied(finding, gpu->label, proof_of(host, gpu, NULL, METHOD_DMA_BUF),
				FAIL, NULL, "device memory is not exported: %s", plain);
	} else {
		finding_item(finding, OK, gpu->label, "device memory is exported%s%s%s",
			     words ? " (not: " : "", words ? words : "", words ? ")" : "");
	}
}

void check_export(struct host *host, struct finding *finding)
{
	if (!checks_gpu_driver_answers(host, finding)) {
		finding_set(finding, UNKNOWN, NO_GPU);
		return;
	}
	EACH_GPU(host, gpu) {
		checks_gpu_export(host, gpu, finding);
		if (!gpu_is_integrated(host, gpu))
			checks_gpu_capable(host, gpu, finding);
	}
	if (finding->result == FAIL)
		finding_without(host, finding, NULL, METHOD_PEER_MEMORY, fix_no_export(host), "%s",
				finding_text(finding));
}
