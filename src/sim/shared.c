/* SPDX-License-Identifier: BSD-3-Clause */
/* shared.c -- IPC memory, external memory and dma-buf exports
 *
 * Device memory is a range of a memory file: a handle holds process id, file descriptor and range.
 * A process with access to the exporter's /proc can open the handle.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "sim.h"
#include "freed.h"

struct sim_ipc_handle {
	uint64_t offset, size;
	pid_t process;
	int file, device;
	uint32_t unused; /* explicit padding: handles are compared as bytes */
};
_Static_assert(sizeof(struct sim_ipc_handle) <= sizeof(CUipcMemHandle),
	       "a handle has room for ours");

/* Opened IPC handles. */
static struct sim_ipc_mapping {
	struct sim_ipc_mapping *next;
	struct sim_ipc_handle handle;
	uint64_t base; /* 0: closed */
} * all_opened;

SIM_CALL(cuIpcGetMemHandle, (handle, address), CUipcMemHandle *handle, CUdeviceptr address)
{
	const struct sim_allocation *allocation;
	const struct sim_device *device;
	struct sim_ipc_handle content;

	allocation = sim_find(address);
	if (!handle || !allocation || allocation->kind != SIM_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	device = &sim_devices[allocation->device];
	content = (struct sim_ipc_handle){ .offset = allocation->base - device->base,
					   .size = allocation->size,
					   .process = getpid(),
					   .file = device->file,
					   .device = allocation->device };
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &content, sizeof(content));
	return CUDA_SUCCESS;
}

static struct sim_ipc_mapping *shared_find_opened(const struct sim_ipc_handle *handle)
{
	struct sim_ipc_mapping *opened = all_opened;

	while (opened && (!opened->base || memcmp(&opened->handle, handle, sizeof(*handle)) != 0))
		opened = opened->next;
	return opened;
}

void sim_forget_opened(uint64_t base)
{
	struct sim_ipc_mapping *opened = all_opened;

	while (opened && opened->base != base)
		opened = opened->next;
	if (opened)
		opened->base = 0;
}

static struct sim_allocation *shared_open(CUcontext context, const struct sim_ipc_handle *handle)
{
	struct sim_allocation *allocation = NULL;
	struct sim_ipc_mapping *opened;
	char name[64];
	int file;

	snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)handle->process, handle->file);
	file = open(name, O_RDWR | O_CLOEXEC);
	if (file < 0)
		return NULL;
	opened = calloc(1, sizeof(*opened));
	if (opened)
		allocation = sim_attach(SIM_OPENED, context, context->device, 0, file,
					handle->offset, handle->size);
	close(file);
	if (!allocation) {
		free(opened);
		return NULL;
	}
	*opened = (struct sim_ipc_mapping){ .next = all_opened,
					    .handle = *handle,
					    .base = allocation->base };
	all_opened = opened;
	return allocation;
}

/* A handle opened again returns its first address, and needs one close per open (measured). */
SIM_CONTEXT_CALL(cuIpcOpenMemHandle_v2, (address, handle, flags), CUdeviceptr *address,
		 CUipcMemHandle handle, unsigned int flags)
{
	struct sim_allocation *allocation;
	const struct sim_ipc_mapping *opened;
	struct sim_ipc_handle content;

	memcpy(&content, &handle, sizeof(content));
	if (!address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || !content.size)
		return CUDA_ERROR_INVALID_VALUE;
	if (content.process == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	opened = shared_find_opened(&content);
	allocation = opened ? sim_find_attached(opened->base) : shared_open(context, &content);
	if (!allocation)
		return CUDA_ERROR_INVALID_VALUE;
	allocation->openings++;
	*address = allocation->base;
	return CUDA_SUCCESS;
}

SIM_FORWARD(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, (address, handle, flags),
	    CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags);

SIM_CALL(cuIpcCloseMemHandle, (address), CUdeviceptr address)
{
	struct sim_allocation *allocation;

	allocation = sim_find_attached(address);
	if (!allocation || allocation->kind != SIM_OPENED || allocation->base != address)
		return CUDA_ERROR_INVALID_VALUE;
	if (--allocation->openings)
		return CUDA_SUCCESS;
	sim_detach(allocation, false);
	return CUDA_SUCCESS;
}

/* ---- external memory: physical memory exported as a descriptor ---- */

struct CUextMemory_st {
	struct sim_object object;
	struct sim_physical *physical;
};

static struct sim_object *externals;

/* On success the driver owns the descriptor. */
SIM_CALL(cuImportExternalMemory, (memory, handle), CUexternalMemory *memory,
	 const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *handle)
{
	struct sim_physical *physical;

	if (!memory || !handle || handle->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
		return CUDA_ERROR_INVALID_VALUE;
	physical = sim_open_physical(handle->handle.fd);
	if (!physical)
		return CUDA_ERROR_INVALID_VALUE;
	*memory = sim_make_object(&externals, sizeof(**memory));
	if (!*memory) {
		sim_close_physical(physical);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	(*memory)->physical = physical;
	close(handle->handle.fd);
	return CUDA_SUCCESS;
}

SIM_CONTEXT_CALL(cuExternalMemoryGetMappedBuffer, (address, memory, buffer), CUdeviceptr *address,
		 CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer)
{
	struct sim_allocation *allocation;
	uint64_t end;

	if (!address || !buffer || !sim_is_live(externals, memory) || !buffer->size ||
	    __builtin_add_overflow(buffer->offset, buffer->size, &end) ||
	    end > memory->physical->size)
		return CUDA_ERROR_INVALID_VALUE;
	allocation = sim_attach(SIM_EXTERNAL, context, context->device, 0, memory->physical->file,
				buffer->offset, buffer->size);
	if (!allocation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* The buffer keeps the physical memory, also after the import is destroyed (measured). */
	allocation->physical = sim_open_physical(memory->physical->file);
	*address = allocation->base;
	return CUDA_SUCCESS;
}

SIM_CALL(cuDestroyExternalMemory, (memory), CUexternalMemory memory)
{
	if (!sim_is_live(externals, memory))
		return CUDA_ERROR_INVALID_VALUE;
	memory->object.live = false;
	sim_close_physical(memory->physical);
	return CUDA_SUCCESS;
}

/* ---- exports as dma-buf ---- */

/* Measured: one descriptor may cover adjacent VMM mappings, or blocks that all have memory, where a
 * byte of the range is live. `allocation`: the first in the range. */
static bool shared_can_export(const struct sim_allocation *allocation, uint64_t from, uint64_t to)
{
	if (!allocation || to <= from)
		return false;
	if (allocation->kind == SIM_DEVICE || allocation->kind == SIM_POOL)
		return sim_blocks_are_used(from, to);
	while (allocation && allocation->kind == SIM_MAPPED && from < to) {
		from = allocation->base + allocation->size;
		allocation = sim_find_attached(from);
	}
	return from >= to;
}

/* The descriptor is a file of its own, like each dma-buf. The file holds a struct sim_dmabuf and
 * none of the memory. -1: errno. */
static int shared_make_dmabuf(uint64_t address, uint64_t size, unsigned long long flags)
{
	const struct sim_dmabuf content = {
		.magic = SIM_DMABUF_MAGIC, .address = address, .size = size, .flags = flags
	};
	int file = memfd_create("peerpin-sim-dmabuf", MFD_CLOEXEC);

	if (file >= 0 && (ftruncate(file, (off_t)size) ||
			  pwrite(file, &content, sizeof(content), 0) != sizeof(content))) {
		close(file);
		return -1;
	}
	return file;
}

bool sim_driver_take_pages(uint64_t start, uint64_t length)
{
	uint64_t first = sim_round_down(start, 4096);
	int file;

	pthread_mutex_lock(&sim_lock);
	file = shared_make_dmabuf(first, sim_round_down(start + length + 4095, 4096) - first, 0);
	sim_leave(CUDA_SUCCESS);
	return file >= 0 && !close(file);
}

SIM_CONTEXT_CALL(cuMemGetHandleForAddressRange, (handle, address, size, type, flags), void *handle,
		 CUdeviceptr address, size_t size, CUmemRangeHandleType type,
		 unsigned long long flags)
{
	const struct sim_allocation *allocation;
	int file;

	if (!sim_dma_buf)
		return CUDA_ERROR_NOT_SUPPORTED;
	allocation = sim_find_in_range(address, address + size);
	if (flags && allocation &&
	    !(sim_c2c && flags == CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!handle || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || address % 4096 ||
	    size % 4096 || !shared_can_export(allocation, address, address + size))
		return CUDA_ERROR_INVALID_VALUE;
	file = shared_make_dmabuf(address, size, flags);
	if (file < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*(int *)handle = file;
	return CUDA_SUCCESS;
}
