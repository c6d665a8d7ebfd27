/* SPDX-License-Identifier: BSD-3-Clause */
/* facts_gpu.c -- values of a GPU that a function computes */
#include <stdio.h>
#include <string.h>

#include "base/pci.h"
#include "tools/doctor/facts.h"
#include "tools/units.h"

#define GIB (1LL << 30)

/* ---- BAR1 ---- */

const char *facts_size(int64_t bytes)
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

const char *facts_bar1_used(struct host *host, const struct gpu *gpu, int eighths)
{
	struct bar1 bar1 = bar1_of(host, gpu);

	return bar1.used > bar1.bytes / 8 * eighths ? facts_size(bar1.used) : NULL;
}

/* ---- kinds of memory ---- */

static const struct kind {
	const char *name, *words;
} kinds[] = { { "mapped", "VMM" },
	      { "mapped_plain", "VMM without gpuDirectRDMACapable" },
	      { "pool", "pool" },
	      { "device_pcie", "PCIe mapping" } };

const char *facts_unexported(const struct subject *subject)
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

const char *facts_incapable(const struct subject *subject)
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
