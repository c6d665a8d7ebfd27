/* SPDX-License-Identifier: BSD-3-Clause */
/* attributes.c -- attributes of an allocation, read from the driver once; SYNC_MEMOPS, set before
 * the first use by an adapter */
#include <stddef.h>

#include "base/log.h"
#include "memory/driver.h"
#include "memory/table.h"
#include "report/errors.h"
#include "report/statistics.h"

/* Registrable memory by the guide (GPUDirect RDMA guide 5.1). */
static bool attributes_is_plain(enum allocation_kind kind)
{
	return kind == ALLOCATION_DEVICE || kind == ALLOCATION_PITCHED;
}

static CUresult attributes_query(unsigned int count, CUpointer_attribute *attributes, void **values,
				 uint64_t address)
{
	const struct driver_calls *driver = driver_calls();

	return driver->cuPointerGetAttributes
		       ? driver->cuPointerGetAttributes(count, attributes, values, address)
		       : CUDA_ERROR_NOT_SUPPORTED;
}

/* Attributes of 4 bytes each. */
struct words {
	unsigned int memory_type, managed, rdma_capable;
};

/* The driver's range of memory: RANGE_START_ADDR, RANGE_SIZE; of VMM memory the reservation
 * (measured). And its pool. */
struct origin {
	uint64_t base, size;
	CUmemoryPool pool;
};

/* True if queries may be answered from the record. For other than VMM memory a range that differs
 * from the allocation leaves them to the driver. So do pools and VMM memory of the host, and
 * managed pools, which were not measured. */
static bool attributes_are_as_expected(uint64_t address, const struct allocation *of,
				       const struct words *words, const struct origin *origin)
{
	bool device = words->memory_type == CU_MEMORYTYPE_DEVICE;
	bool pooled = of->kind == ALLOCATION_POOL, mapped = of->kind == ALLOCATION_MAPPED;

	if (mapped ? origin->pool || address - origin->base >= origin->size
		   : origin->base != address || origin->size != of->size)
		return false;
	if (origin->pool && !pooled && of->kind != ALLOCATION_SHARED)
		return false;
	return pooled || mapped ? device && !of->managed
				: device || words->memory_type == CU_MEMORYTYPE_HOST;
}

static CUresult attributes_read_all(uint64_t address, struct allocation *to)
{
	struct words words = { 0 };
	struct origin origin = { 0 };
	CUpointer_attribute attributes[] = {
		CU_POINTER_ATTRIBUTE_CONTEXT,
		CU_POINTER_ATTRIBUTE_BUFFER_ID,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
	};
	void *values[] = {
		&to->context,	     &to->buffer_id,	 &to->device,
		&words.rdma_capable, &words.memory_type, &words.managed,
		&origin.base,	     &origin.size,	 &origin.pool,
	};
	CUresult result = attributes_query(sizeof(attributes) / sizeof(attributes[0]), attributes,
					   values, address);

	if (result != CUDA_SUCCESS)
		return result;
	to->rdma_capable = words.rdma_capable;
	to->host = words.memory_type == CU_MEMORYTYPE_HOST;
	to->managed = words.managed;
	if (!to->size && to->buffer_id && address - origin.base < origin.size)
		to->size = origin.base + origin.size - address;
	to->described = attributes_are_as_expected(address, to, &words, &origin);
	return result;
}

/* An older driver refuses a list with an unknown attribute, but supports these 3. Plain device
 * memory is then registrable, by the guide. */
static CUresult attributes_read_few(uint64_t address, struct allocation *to)
{
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_CONTEXT,
					     CU_POINTER_ATTRIBUTE_BUFFER_ID,
					     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
	void *values[] = { &to->context, &to->buffer_id, &to->device };

	to->rdma_capable = attributes_is_plain(to->kind);
	return attributes_query(sizeof(attributes) / sizeof(attributes[0]), attributes, values,
				address);
}

bool attributes_read(uint64_t address, struct allocation *allocation)
{
	allocation->context = NULL;
	allocation->buffer_id = 0;
	allocation->device = -1;
	allocation->described = false;
	if (attributes_read_all(address, allocation) != CUDA_SUCCESS &&
	    attributes_read_few(address, allocation) != CUDA_SUCCESS)
		return false;
	return allocation->buffer_id != 0;
}

/* Cache the answers for the first 64 devices. */
bool attributes_integrated(int device)
{
	static _Atomic signed char answers[64]; /* 0: not queried; 1: true; -1: false */
	int value;

	if (device < 0)
		return false;
	if ((size_t)device < sizeof(answers) && answers[device])
		return answers[device] > 0;
	if (!driver_device_attribute(device, CU_DEVICE_ATTRIBUTE_INTEGRATED, &value))
		return false;
	if ((size_t)device < sizeof(answers))
		answers[device] = value ? 1 : -1;
	return value;
}

/* Query a list: no error without memory, and far cheaper than a single query (measured). */
bool attributes_match(const struct allocation *allocation)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
	uint64_t buffer_id = 0;
	void *value = &buffer_id;

	return attributes_query(1, &attribute, &value, allocation->base) == CUDA_SUCCESS &&
	       buffer_id == allocation->buffer_id;
}

/* ---- SYNC_MEMOPS ---- */

/* False: adapters use the memory without. */
static bool attributes_set_sync(const struct allocation *allocation)
{
	const struct driver_calls *driver = driver_calls();
	CUstreamCaptureMode mode;
	unsigned int on = 1;
	bool relaxed;
	CUresult result;

	/* The driver refuses SYNC_MEMOPS for VMM memory (measured). */
	if (allocation->kind == ALLOCATION_MAPPED || !driver->cuPointerSetAttribute)
		return false;
	/* The allocation has ended: its address may be another's. */
	if (!memory_is_live(allocation))
		return false;
	relaxed = driver_relax_capture(&mode);
	result = driver->cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
					       allocation->base);
	driver_restore_capture(relaxed, &mode);
	if (result != CUDA_SUCCESS)
		log_once(LOG_INFO,
			 "CU_POINTER_ATTRIBUTE_SYNC_MEMOPS could not be set at 0x%llx: %s. %s",
			 (unsigned long long)allocation->base,
			 errors_cause(ERRORS_SYNC_MEMOPS, (int)result),
			 errors_fix(ERRORS_SYNC_MEMOPS, (int)result));
	return result == CUDA_SUCCESS;
}

/* Two threads may both set SYNC_MEMOPS; neither continues before it is set. */
void memory_used_by_adapter(const struct allocation *allocation)
{
	bool set;

	if (table_is_used(allocation))
		return;
	set = attributes_set_sync(allocation);
	if (table_mark_used(allocation) && !set)
		statistics_count(sync_missing);
}
