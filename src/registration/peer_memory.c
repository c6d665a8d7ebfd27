/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_memory.c -- registration of GPU memory by address
 *
 * The kernel recognises a GPU address and gets its pages from nvidia-peermem. The library registers
 * with libibverbs' public functions, so the provider allocates and keeps its own struct.
 */
#include <errno.h>

#include "base/text.h"
#include "memory/driver.h"
#include "registration/methods.h"
#include "registration/sysfs.h"

int peer_memory_pin(const struct pin_request *request, struct pin_result *result)
{
	void *base = (void *)request->base;
	const struct verbs_calls *verbs = verbs_calls();
	int saved_errno = errno;
	int error;

	errno = 0;
	own_call_begin();
	/* Where ibv_reg_mr_iova2 exists, ibv_reg_mr alone does not support relaxed ordering. */
	if (verbs->ibv_reg_mr_iova2)
		result->mr = verbs->ibv_reg_mr_iova2(request->pd, base, request->length,
						     request->base, (unsigned int)request->access);
	else if (verbs->ibv_reg_mr)
		result->mr = verbs->ibv_reg_mr(request->pd, base, request->length, request->access);
	else
		errno = ENOSYS;
	own_call_end();
	error = result->mr ? 0 : errno ? -errno : -EIO;
	errno = saved_errno;
	return error;
}

bool peer_memory_accepts(const struct pin_request *request)
{
	return !request->dma_buf_only && !request->pcie;
}

/* The module that resolves GPU addresses. NULL: none is loaded. */
static const char *peer_memory_find_module(void)
{
	char version[64], mode[8];

	if (sysfs_read("module", "nvidia_peermem", "version", version, sizeof(version))) {
		if (!sysfs_read("module", "nvidia_peermem", "parameters/persistent_api_support",
				mode, sizeof(mode)))
			return "the module is loaded";
		return text_equals(mode, "0")
			       ? "nvidia-peermem is loaded, not in its persistent mode"
			       : "nvidia-peermem is loaded, in its persistent mode";
	}
	if (sysfs_read("module", "nv_peer_mem", "version", version, sizeof(version)) ||
	    sysfs_read("kernel/mm/memory_peers", "nv_mem", "version", version, sizeof(version)))
		return "the module is loaded";
	return NULL;
}

struct method_support peer_memory_probe(const struct pin_request *request)
{
	bool by_gpu =
		driver_device_has(request->device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
	const char *module = by_gpu ? peer_memory_find_module() : NULL;

	return (struct method_support){
		.possible = true,
		.expected = module,
		.expected_vmm =
			module &&
			driver_device_has(
				request->device,
				CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED),
		.text = module	 ? module
			: by_gpu ? "nvidia-peermem is not loaded"
				 : "the GPU does not support GPUDirect RDMA",
	};
}
