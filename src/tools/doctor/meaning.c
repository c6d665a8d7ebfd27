/* SPDX-License-Identifier: BSD-3-Clause */
/* meaning.c -- explains a failed call in plain words, with a fix */
#include "tools/doctor/meaning.h"

#include <string.h>

/* First row with both parts in the failure applies; "" matches everything. */
static const struct meaning meanings[] = {
	{ "dmabuf", "ENOTSUPP", "the kernel refuses the PCIe path between them",
	  "peerpin doctor --only path --verbose; then another adapter, or nvidia-peermem" },
	{ "dmabuf", "EOPNOTSUPP", "the adapter's driver has no dma-buf", NULL },
	{ "dmabuf", "EPROTONOSUPPORT", "the adapter's driver has no dma-buf", NULL },
	{ "dmabuf", "ENOMEM", "no room: RLIMIT_MEMLOCK, BAR1 or the adapter's tables",
	  "peerpin doctor --only limits,bar1" },
	{ "cuMemGetHandleForAddressRange", "", "the driver exports no dma-buf", NULL },
	{ "ibv_reg_mr", "EFAULT", "no peer-memory client accepts it", NULL },
	{ "ibv_reg_mr", "ENOMEM", "no room: RLIMIT_MEMLOCK, BAR1 or the adapter's tables",
	  "peerpin doctor --only limits,bar1" },
	{ "ibv_reg_mr", "EINVAL", "the access flags are refused, or the GPU's pages are not 64 KiB",
	  "peerpin doctor --only kernel-log" },
	{ "ibv_open_device", "", "the adapter cannot be opened", "peerpin doctor --only uverbs" },
	{ "cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", "the GPU has no 64 MiB left",
	  "nvidia-smi (processes that use it)" },
	{ "timeout", "", "it did not end in time", "dmesg | tail (as root)" },
	{ "", "EINVAL", "the access flags or the range are refused",
	  "peerpin doctor --verbose --dump host.txt" },
	{ "", "", "", "peerpin doctor --verbose --dump host.txt, and read it" },
};

const struct meaning *meaning_of(const char *failure)
{
	size_t i = 0;

	while (!strstr(failure, meanings[i].call) || !strstr(failure, meanings[i].error))
		i++;
	return &meanings[i];
}
