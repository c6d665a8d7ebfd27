/* SPDX-License-Identifier: BSD-3-Clause */
/* facts_gpu.c -- values of a GPU that a function computes */
#include <stdio.h>
#include <string.h>

#include "base/pci_resource.h"
#include "tools/doctor/rules.h"
#include "tools/units.h"

#define GIB (1LL << 30)

const char *fact_pci(const struct subject *subject)
{
	return subject->gpu ? subject->gpu->pci : subject->adapter->pci;
}

const char *fact_gpu_lost(const struct subject *subject)
{
	const char *ended = host_text(subject->host, "cuda/%d/ended", subject->gpu->ordinal);

	return ended && strcmp(ended, "ok") ? end_words(ended) : NULL;
}

const char *fact_past_peer_memory(const struct subject *subject)
{
	return truth(is_past_peer_memory(subject->host, subject->gpu));
}

/* ---- BAR1 ---- */

static const char *facts_size(int64_t bytes)
{
	return bytes >= GIB ? text_of("%lld GiB", (long long)(bytes / GIB))
			    : text_of("%lld MiB", (long long)bytes >> 20);
}

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

const char *fact_bar1(const struct subject *subject)
{
	long long bytes = bar1_of(subject->host, subject->gpu).bytes;

	return bytes ? text_of("%lld", bytes) : NULL;
}

const char *fact_bar1_size(const struct subject *subject)
{
	return facts_size(bar1_of(subject->host, subject->gpu).bytes);
}

const char *fact_bar1_unassigned(const struct subject *subject)
{
	return truth(bar1_of(subject->host, subject->gpu).unassigned);
}

const char *fact_bar1_used(const struct subject *subject)
{
	struct bar1 bar1 = bar1_of(subject->host, subject->gpu);

	return bar1.used > bar1.bytes / 8 ? facts_size(bar1.used) : NULL;
}

const char *fact_bar1_crowded(const struct subject *subject)
{
	struct bar1 bar1 = bar1_of(subject->host, subject->gpu);

	return truth(bar1.used > bar1.bytes / 8 * 7);
}

const char *fact_memory_size(const struct subject *subject)
{
	int64_t memory;

	return value_number(subject, "memory", &memory) && memory ? facts_size(memory) : NULL;
}

/* ---- kinds of memory ---- */

static const struct kind {
	const char *name, *words;
} kinds[] = { { "mapped", "VMM" },
	      { "mapped_plain", "VMM without gpuDirectRDMACapable" },
	      { "pool", "pool" },
	      { "device_pcie", "PCIe mapping" } };

const char *fact_unexported(const struct subject *subject)
{
	char *list = NULL;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const char *result = host_text(subject->host, "cuda/%d/export/%s",
					       subject->gpu->ordinal, kinds[i].name);

		if (result && strcmp(result, "ok"))
			list_append(&list, ", ", kinds[i].words);
	}
	return list;
}

const char *fact_incapable(const struct subject *subject)
{
	char *list = NULL;
	int64_t capable;

	for (size_t i = 1; i < 3; i++) {
		if (host_number(subject->host, &capable, "cuda/%d/capable/%s",
				subject->gpu->ordinal, kinds[i].name) &&
		    !capable)
			list_append(&list, ", ", kinds[i].words);
	}
	return list;
}
