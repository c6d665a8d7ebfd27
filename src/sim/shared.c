/* SPDX-License-Identifier: BSD-3-Clause */
/* shared.c -- memory of other processes and of other interfaces, and what is exported to them
 *
 * Device memory is a range of a memory file, so a handle names the process, its descriptor of that file, and the
 * range; whoever may read the other's /proc can open it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "sim.h"
#include "ended.h"

struct handle {
	uint64_t offset, size;
	pid_t process;
	int file, device;
	uint32_t unused; /* handles are compared byte by byte */
};
_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "a handle has room for ours");

/* What is open, by what it was opened from. */
static struct opened {
	struct opened *next;
	struct handle handle;
	uint64_t base; /* 0: closed */
} * all_opened;

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	const struct sim_allocation *allocation;
	const struct sim_device *device;
	struct handle ours;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	allocation = sim_find(address);
	if (!handle || !allocation || allocation->kind != SIM_DEVICE)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	device = &sim_devices[allocation->device];
	ours = (struct handle){ .offset = allocation->base - device->base,
				.size = allocation->size,
				.process = getpid(),
				.file = device->file,
				.device = allocation->device };
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &ours, sizeof(ours));
	return sim_leave(CUDA_SUCCESS);
}

static struct opened *find_opened(const struct handle *handle)
{
	struct opened *opened = all_opened;

	while (opened && (!opened->base || memcmp(&opened->handle, handle, sizeof(*handle)) != 0))
		opened = opened->next;
	return opened;
}

void sim_forget_opened(uint64_t base)
{
	struct opened *opened = all_opened;

	while (opened && opened->base != base)
		opened = opened->next;
	if (opened)
		opened->base = 0;
}

static struct sim_allocation *open_handle(CUcontext context, const struct handle *handle)
{
	struct sim_allocation *allocation = NULL;
	struct opened *opened;
	char name[64];
	uint64_t at;
	int file;

	snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)handle->process, handle->file);
	file = open(name, O_RDWR | O_CLOEXEC);
	if (file < 0)
		return NULL;
	opened = calloc(1, sizeof(*opened));
	at = opened ? sim_reserve_addresses(handle->offset % 4096 + handle->size) : 0;
	if (at)
		allocation = sim_attach(SIM_OPENED, context, context->device, at, file, handle->offset,
					handle->size);
	close(file);
	if (!allocation) {
		free(opened);
		return NULL;
	}
	*opened = (struct opened){ .next = all_opened, .handle = *handle, .base = allocation->base };
	all_opened = opened;
	return allocation;
}

/* Opened again it has the same address, and is closed as often (measured). */
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	struct sim_allocation *allocation;
	const struct opened *opened;
	struct handle ours;
	CUcontext context;
	CUresult result = sim_enter_context(&context);

	if (result != CUDA_SUCCESS)
		return result;
	memcpy(&ours, &handle, sizeof(ours));
	if (!address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || !ours.size)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (ours.process == getpid())
		return sim_leave(CUDA_ERROR_INVALID_CONTEXT);
	opened = find_opened(&ours);
	allocation = opened ? sim_find_attached(opened->base) : open_handle(context, &ours);
	if (!allocation)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	allocation->openings++;
	*address = allocation->base;
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	return cuIpcOpenMemHandle_v2(address, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
	struct sim_allocation *allocation;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	allocation = sim_find_attached(address);
	if (!allocation || allocation->kind != SIM_OPENED || allocation->base != address)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (--allocation->openings)
		return sim_leave(CUDA_SUCCESS);
	sim_detach(allocation, false);
	return sim_leave(CUDA_SUCCESS);
}

/* ---- external memory: physical memory that was exported as a descriptor ---- */

/* Never given back, so that a stale handle is recognised. */
struct CUextMemory_st {
	struct CUextMemory_st *next;
	struct sim_physical *physical;
	bool alive;
};

static struct CUextMemory_st *externals;

static bool is_external(CUexternalMemory memory)
{
	const struct CUextMemory_st *known = externals;

	while (known && known != memory)
		known = known->next;
	return known && known->alive;
}

/* The descriptor is the driver's from a success on. */
CUresult cuImportExternalMemory(CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *handle)
{
	struct sim_physical *physical;
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	if (!memory || !handle || handle->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	physical = sim_open_physical(handle->handle.fd);
	if (!physical)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	*memory = calloc(1, sizeof(**memory));
	if (!*memory) {
		sim_close_physical(physical);
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	**memory = (struct CUextMemory_st){ .next = externals, .physical = physical, .alive = true };
	externals = *memory;
	close(handle->handle.fd);
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *address, CUexternalMemory memory,
					 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer)
{
	struct sim_allocation *allocation;
	CUcontext context;
	CUresult result = sim_enter_context(&context);
	uint64_t at, end;

	if (result != CUDA_SUCCESS)
		return result;
	if (!address || !buffer || !is_external(memory) || !buffer->size ||
	    __builtin_add_overflow(buffer->offset, buffer->size, &end) || end > memory->physical->size)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	at = sim_reserve_addresses(buffer->offset % 4096 + buffer->size);
	allocation = at ? sim_attach(SIM_EXTERNAL, context, context->device, at, memory->physical->file,
				     buffer->offset, buffer->size)
			: NULL;
	if (!allocation)
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	/* The buffer keeps the memory, also after its import has gone (measured). */
	allocation->physical = sim_open_physical(memory->physical->file);
	*address = allocation->base;
	return sim_leave(CUDA_SUCCESS);
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
	CUresult result = sim_enter();

	if (result != CUDA_SUCCESS)
		return result;
	if (!is_external(memory))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	memory->alive = false;
	sim_close_physical(memory->physical);
	return sim_leave(CUDA_SUCCESS);
}

/* ---- exports as dma-buf ---- */

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* Where the memory ends that one descriptor may stand for: of mapped memory that of the last adjacent mapping
 * (measured), of other memory that of its blocks. */
static uint64_t end_of_range(const struct sim_allocation *allocation)
{
	const struct sim_allocation *next = allocation;

	if (allocation->kind != SIM_MAPPED)
		return round_up(allocation->base + allocation->size, SIM_BLOCK);
	do {
		allocation = next;
		next = sim_find_attached(allocation->base + allocation->size);
	} while (next && next->kind == SIM_MAPPED);
	return allocation->base + allocation->size;
}

/* The descriptor is a file of its own, as each dma-buf is, and shows none of the memory: it says what it stands for. */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size,
				       CUmemRangeHandleType type, unsigned long long flags)
{
	const struct sim_allocation *allocation;
	CUcontext context;
	CUresult result = sim_enter_context(&context);
	struct sim_dmabuf says;
	int file;

	if (result != CUDA_SUCCESS)
		return result;
	if (!sim_dma_buf)
		return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
	allocation = sim_find(address);
	if (flags && allocation)
		return sim_leave(CUDA_ERROR_NOT_SUPPORTED);
	if (!handle || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || !allocation || !size ||
	    address % 4096 || size % 4096 ||
	    (allocation->kind != SIM_DEVICE && allocation->kind != SIM_POOL &&
	     allocation->kind != SIM_MAPPED))
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	if (size > end_of_range(allocation) - address)
		return sim_leave(CUDA_ERROR_INVALID_VALUE);
	says = (struct sim_dmabuf){ .magic = SIM_DMABUF_MAGIC, .address = address, .size = size };
	file = memfd_create("peerpin-sim-dmabuf", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, (off_t)size) ||
	    pwrite(file, &says, sizeof(says), 0) != sizeof(says)) {
		close(file);
		return sim_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	*(int *)handle = file;
	return sim_leave(CUDA_SUCCESS);
}
