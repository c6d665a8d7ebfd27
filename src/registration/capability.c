/* SPDX-License-Identifier: BSD-3-Clause */
/* capability.c -- capability probe of GPU, adapter and kernel for GPUDirect RDMA */
#include "registration/capability.h"

#include <errno.h>

#include "base/text.h"
#include "memory/driver.h"
#include "registration/own_calls.h"
#include "registration/sysfs.h"

static bool capability_gpu_has(int device, CUdevice_attribute attribute)
{
	const struct driver_calls *driver = driver_calls();
	int value = 0;

	return driver->cuDeviceGetAttribute &&
	       driver->cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS && value;
}

/* An adapter with dma-buf support checks the descriptor and fails with EBADF; others reject the
 * call itself. */
static bool capability_adapter_has_dma_buf(struct ibv_pd *pd)
{
	const struct verbs_calls *verbs = verbs_calls();
	struct ibv_mr *mr;
	bool found;

	errno = 0;
	own_call_begin();
	mr = verbs->ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, 0);
	found = !mr && errno == EBADF;
	/* Do not trust an adapter that registers the descriptor -1. */
	if (mr && verbs->ibv_dereg_mr)
		verbs->ibv_dereg_mr(mr);
	own_call_end();
	return found;
}

static enum dma_buf_answer capability_probe_dma_buf(const struct pin_request *request)
{
	if (!driver_calls()->cuMemGetHandleForAddressRange)
		return DMA_BUF_NOT_IN_DRIVER;
	if (!capability_gpu_has(request->device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED))
		return DMA_BUF_NOT_OF_GPU;
	if (!verbs_calls()->ibv_reg_dmabuf_mr)
		return DMA_BUF_NOT_IN_LIBRARY;
	return capability_adapter_has_dma_buf(request->pd) ? DMA_BUF_THERE : DMA_BUF_NOT_OF_ADAPTER;
}

static enum peer_answer capability_probe_module(void)
{
	char mode[8];

	if (sysfs_exists("module/nvidia_peermem/version")) {
		if (!sysfs_read("module/nvidia_peermem/parameters/persistent_api_support", mode,
				sizeof(mode)))
			return PEER_THERE;
		return text_equals(mode, "0") ? PEER_INVALIDATED : PEER_PERSISTENT;
	}
	if (sysfs_exists("module/nv_peer_mem/version") ||
	    sysfs_exists("kernel/mm/memory_peers/nv_mem/version"))
		return PEER_THERE;
	return PEER_NO_MODULE;
}

struct capability capability_probe(const struct pin_request *request)
{
	int saved_errno = errno;
	struct capability capability = {
		.dma_buf = capability_probe_dma_buf(request),
		.peer = capability_gpu_has(request->device,
					   CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED)
				? capability_probe_module()
				: PEER_NOT_OF_GPU,
		.peer_of_mapped = capability_gpu_has(
			request->device,
			CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED),
	};

	errno = saved_errno;
	return capability;
}

bool capability_expects_peer(const struct capability *capability, bool mapped)
{
	return capability->peer >= PEER_THERE && (!mapped || capability->peer_of_mapped);
}

const char *capability_dma_buf_text(enum dma_buf_answer answer)
{
	static const char texts[][56] = {
		[DMA_BUF_THERE] = "GPU and adapter have it",
		[DMA_BUF_NOT_IN_DRIVER] = "the GPU's driver is too old for it",
		[DMA_BUF_NOT_OF_GPU] = "the GPU's driver does not export dma-bufs",
		[DMA_BUF_NOT_IN_LIBRARY] = "libibverbs is too old for it",
		[DMA_BUF_NOT_OF_ADAPTER] = "the adapter does not take dma-bufs",
	};

	return texts[answer];
}

const char *capability_peer_text(enum peer_answer answer)
{
	static const char texts[][56] = {
		[PEER_NO_MODULE] = "nvidia-peermem is not loaded",
		[PEER_NOT_OF_GPU] = "the GPU has no GPUDirect RDMA",
		[PEER_THERE] = "its module is loaded",
		[PEER_INVALIDATED] = "nvidia-peermem is loaded, not in its persistent mode",
		[PEER_PERSISTENT] = "nvidia-peermem is loaded, in its persistent mode",
	};

	return texts[answer];
}
