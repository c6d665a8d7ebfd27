/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_driver.c -- calls into a real driver: what an address is, its pages, copies of device
 * memory
 *
 * A preload intercepts the program's calls, not these: the functions come from the driver's own
 * symbol table. Copies run on a context of the adapter, so that they neither end with a context of
 * the program nor fail after an error in one.
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "sim/adapter.h"

#define FUNCTIONS(X)                                                                               \
	X(cuPointerGetAttributes)                                                                  \
	X(cuCtxCreate_v2)                                                                          \
	X(cuCtxDestroy_v2)                                                                         \
	X(cuCtxPushCurrent_v2)                                                                     \
	X(cuCtxPopCurrent_v2)                                                                      \
	X(cuDeviceGet)                                                                             \
	X(cuStreamCreate)                                                                          \
	X(cuStreamSynchronize)                                                                     \
	X(cuMemcpyDtoHAsync_v2)                                                                    \
	X(cuMemcpyHtoDAsync_v2)                                                                    \
	X(cuMemHostAlloc)                                                                          \
	X(cuMemGetHandleForAddressRange)                                                           \
	X(cuThreadExchangeStreamCaptureMode)

struct driver_functions {
#define X(name) __typeof__(name) *name;
	FUNCTIONS(X)
#undef X
};

/* Complete before driver_found is set; constant afterwards. */
static struct driver_functions driver;
static bool driver_found; /* atomic */

/* Guards `copiers`, and the streams in them. Held in calls into the driver, which call nothing of
 * the adapter; no other lock is taken meanwhile. */
static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;

#define DEVICES_MAX	    64
#define STREAM_NON_BLOCKING 1
#define STAGE		    ((size_t)64 << 10) /* bytes: a packet of the adapter's thread */

static struct driver_copier {
	CUcontext context; /* NULL: none yet */
	CUstream stream;
	/* Pinned, of the context. Copies from and to other host memory take 3 times as long. */
	void *stage;
} copiers[DEVICES_MAX];

/* ---- the driver's functions ---- */

static int driver_count_loads(struct dl_phdr_info *object, size_t size, void *loads)
{
	(void)size;
	*(uint64_t *)loads = object->dlpi_adds;
	return 1;
}

void *driver_open(void)
{
	static uint64_t absent; /* atomic; number of loads without a driver */
	uint64_t loads = 0;
	void *object;

	/* A look-up of a library that is not loaded searches the file system. */
	dl_iterate_phdr(driver_count_loads, &loads);
	if (loads == __atomic_load_n(&absent, __ATOMIC_RELAXED))
		return NULL;
	object = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	if (!object)
		__atomic_store_n(&absent, loads, __ATOMIC_RELAXED);
	return object;
}

/* Tables that the dynamic linker has relocated, as glibc leaves them. */
struct driver_tables {
	ElfW(Addr) base;
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *hash; /* DT_GNU_HASH */
};

static bool driver_read_tables(const struct link_map *object, struct driver_tables *tables)
{
	*tables = (struct driver_tables){ .base = object->l_addr };
	for (const ElfW(Dyn) *entry = object->l_ld; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_SYMTAB)
			tables->symbols = (const void *)entry->d_un.d_ptr;
		else if (entry->d_tag == DT_STRTAB)
			tables->strings = (const void *)entry->d_un.d_ptr;
		else if (entry->d_tag == DT_GNU_HASH)
			tables->hash = (const void *)entry->d_un.d_ptr;
	}
	return tables->symbols && tables->strings && tables->hash;
}

/* Words of the table: number of buckets, first symbol, words of the filter, its shift; the filter;
 * the buckets; the hash of each symbol, with bit 0 at the end of a bucket. */
static void *driver_find(const struct driver_tables *tables, const char *name)
{
	const uint32_t *table = tables->hash;
	const uint32_t *bucket = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof(*table));
	const uint32_t *chain = bucket + table[0];
	uint32_t hash = 5381, i;

	for (const char *rest = name; *rest; rest++)
		hash = hash * 33 + (unsigned char)*rest;
	i = table[0] ? bucket[hash % table[0]] : 0;
	for (; i >= table[1] && i; i++) {
		const ElfW(Sym) *symbol = &tables->symbols[i];

		if ((chain[i - table[1]] | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
		    !strcmp(tables->strings + symbol->st_name, name))
			return (void *)(tables->base + symbol->st_value);
		if (chain[i - table[1]] & 1)
			break;
	}
	return NULL;
}

/* False: no such functions, or those of the simulated driver. */
static bool driver_read(struct link_map *object, struct driver_functions *functions)
{
	struct driver_tables tables;

	if (!driver_read_tables(object, &tables) ||
	    (!adapter_setting(real_driver) && driver_find(&tables, "sim_driver_subscribe")))
		return false;
#define X(name)                                                                                    \
	functions->name = (__typeof__(functions->name))driver_find(&tables, #name);                \
	if (!functions->name)                                                                      \
		return false;
	FUNCTIONS(X)
#undef X
	return true;
}

static CUresult driver_query_all(const struct driver_functions *functions, uint64_t address,
				 unsigned int count, uint64_t *values)
{
	static CUpointer_attribute attributes[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_BUFFER_ID,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
		CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID,
	};
	void *places[DRIVER_ATTRIBUTES];

	_Static_assert(sizeof(attributes) / sizeof(*attributes) == DRIVER_ATTRIBUTES, "");
	memset(values, 0, DRIVER_ATTRIBUTES * sizeof(*values));
	for (unsigned int i = 0; i < count; i++)
		places[i] = &values[i];
	return functions->cuPointerGetAttributes(count, attributes, places, address);
}

bool driver_begin(void)
{
	struct driver_functions functions;
	uint64_t values[DRIVER_ATTRIBUTES];
	struct link_map *object;
	bool begun;

	if (__atomic_load_n(&driver_found, __ATOMIC_ACQUIRE))
		return true;
	object = driver_open();
	if (!object)
		return false;
	/* Before cuInit the driver may leave the process. */
	begun = driver_read(object, &functions) &&
		driver_query_all(&functions, 0, 1, values) == CUDA_SUCCESS;
	if (!begun) {
		dlclose(object);
		return false;
	}
	pthread_mutex_lock(&driver_lock);
	if (!driver_found)
		driver = functions;
	__atomic_store_n(&driver_found, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&driver_lock);
	return true;
}

/* ---- queries ---- */

uint64_t driver_block_end(uint64_t address)
{
	return (address & ~(DRIVER_BLOCK - 1)) + DRIVER_BLOCK;
}

bool driver_query(uint64_t address, struct driver_memory *memory)
{
	/* Older drivers do not know the last one, and fail on the list. */
	static unsigned int known = DRIVER_ATTRIBUTES; /* atomic */
	unsigned int count = __atomic_load_n(&known, __ATOMIC_RELAXED);
	uint64_t values[DRIVER_ATTRIBUTES];
	CUresult result = driver_query_all(&driver, address, count, values);

	if (result == CUDA_ERROR_INVALID_VALUE && count == DRIVER_ATTRIBUTES) {
		result = driver_query_all(&driver, address, count - 1, values);
		if (result == CUDA_SUCCESS && (uint32_t)values[0] == CU_MEMORYTYPE_DEVICE)
			__atomic_store_n(&known, count - 1, __ATOMIC_RELAXED);
	}
	if (result != CUDA_SUCCESS || (uint32_t)values[0] != CU_MEMORYTYPE_DEVICE ||
	    (uint8_t)values[1] || !values[5])
		return false;
	*memory = (struct driver_memory){ .device = (int)values[2],
					  .buffer = values[3],
					  .start = values[4],
					  .end = values[4] + values[5],
					  .plain = (uint8_t)values[6],
					  .block = values[7] };
	/* The range of a mapping is that of its reservation; mappings have whole blocks. */
	if (!memory->plain && memory->end > driver_block_end(address))
		memory->end = driver_block_end(address);
	return true;
}

/* ---- pages, and copies ---- */

static CUresult driver_make_copier(int ordinal, struct driver_copier *copier)
{
	struct driver_copier new;
	CUdevice device;
	CUcontext popped;
	CUresult result = driver.cuDeviceGet(&device, ordinal);

	if (result == CUDA_SUCCESS)
		result = driver.cuCtxCreate_v2(&new.context, 0, device);
	if (result != CUDA_SUCCESS)
		return result;
	result = driver.cuStreamCreate(&new.stream, STREAM_NON_BLOCKING);
	if (result == CUDA_SUCCESS)
		result = driver.cuMemHostAlloc(&new.stage, STAGE, 0);
	driver.cuCtxPopCurrent_v2(&popped);
	if (result == CUDA_SUCCESS)
		*copier = new;
	else
		driver.cuCtxDestroy_v2(new.context);
	return result;
}

/* After an error in the context each later call would return it. */
static void driver_drop_copier(struct driver_copier *copier)
{
	driver.cuCtxDestroy_v2(copier->context);
	*copier = (struct driver_copier){ 0 };
}

static CUresult driver_export(int *fd, uint64_t start, uint64_t size)
{
	return driver.cuMemGetHandleForAddressRange(fd, start, size,
						    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

/* In the calling thread's context, else in the adapter's. */
static CUresult driver_export_anywhere(int ordinal, int *fd, uint64_t start, uint64_t size)
{
	CUresult result = driver_export(fd, start, size);
	CUcontext popped;

	if (result != CUDA_ERROR_INVALID_CONTEXT || ordinal < 0 || ordinal >= DEVICES_MAX)
		return result;
	pthread_mutex_lock(&driver_lock);
	result = copiers[ordinal].context ? CUDA_SUCCESS
					  : driver_make_copier(ordinal, &copiers[ordinal]);
	if (result == CUDA_SUCCESS)
		result = driver.cuCtxPushCurrent_v2(copiers[ordinal].context);
	if (result == CUDA_SUCCESS) {
		result = driver_export(fd, start, size);
		driver.cuCtxPopCurrent_v2(&popped);
	}
	pthread_mutex_unlock(&driver_lock);
	return result;
}

bool driver_take_pages(uint64_t start, uint64_t length)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	uint64_t first = start & ~(DRIVER_PAGE - 1);
	uint64_t end = (start + length + DRIVER_PAGE - 1) & ~(DRIVER_PAGE - 1);
	struct driver_memory found;
	CUresult result;
	int fd = -1;

	if (!driver_begin() || !driver_query(start, &found))
		return false;
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	result = driver_export_anywhere(found.device, &fd, first, end - first);
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	return result == CUDA_SUCCESS && !close(fd);
}

/* The functions of one direction refuse an address that is no device memory, since it was freed
 * just now; cuMemcpyAsync would take it for one of the host. */
static CUresult driver_read_stage(const struct driver_copier *copier, uint64_t from, void *to,
				  size_t bytes)
{
	CUresult result = driver.cuMemcpyDtoHAsync_v2(copier->stage, from, bytes, copier->stream);

	if (result == CUDA_SUCCESS)
		result = driver.cuStreamSynchronize(copier->stream);
	if (result == CUDA_SUCCESS)
		memcpy(to, copier->stage, bytes);
	return result;
}

/* The last `last` bytes are stored last. */
static CUresult driver_write_stage(const struct driver_copier *copier, uint64_t to,
				   const void *from, size_t bytes, size_t last)
{
	size_t first = bytes - last;
	CUresult result = CUDA_SUCCESS;

	memcpy(copier->stage, from, bytes);
	if (first)
		result = driver.cuMemcpyHtoDAsync_v2(to, copier->stage, first, copier->stream);
	if (result == CUDA_SUCCESS && last)
		result = driver.cuMemcpyHtoDAsync_v2(to + first, (char *)copier->stage + first,
						     last, copier->stream);
	return result == CUDA_SUCCESS ? driver.cuStreamSynchronize(copier->stream) : result;
}

/* The caller holds driver_lock. */
static CUresult driver_copy_locked(int ordinal, bool writes, uint64_t to, uint64_t from,
				   size_t bytes, size_t last)
{
	struct driver_copier *copier = &copiers[ordinal];
	CUresult result = copier->context ? CUDA_SUCCESS : driver_make_copier(ordinal, copier);
	CUcontext popped;
	size_t part;

	if (result == CUDA_SUCCESS)
		result = driver.cuCtxPushCurrent_v2(copier->context);
	if (result != CUDA_SUCCESS)
		return result;
	for (size_t done = 0; done < bytes && result == CUDA_SUCCESS; done += part) {
		part = bytes - done < STAGE ? bytes - done : STAGE;
		result = writes ? driver_write_stage(copier, to + done,
						     (const void *)(uintptr_t)(from + done), part,
						     done + part == bytes ? last : 0)
				: driver_read_stage(copier, from + done,
						    (void *)(uintptr_t)(to + done), part);
	}
	driver.cuCtxPopCurrent_v2(&popped);
	if (result != CUDA_SUCCESS)
		driver_drop_copier(copier);
	return result;
}

bool driver_copy(int ordinal, bool writes, uint64_t to, uint64_t from, size_t bytes, size_t last)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	static bool reported; /* guarded by driver_lock */
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&driver_lock);
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	if (ordinal >= 0 && ordinal < DEVICES_MAX)
		result = driver_copy_locked(ordinal, writes, to, from, bytes, last);
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	if (result != CUDA_SUCCESS) {
		adapter_count(failed_copies);
		if (!reported)
			fprintf(stderr,
				"peerpin simulated adapter: a copy of %zu bytes from 0x%llx to "
				"0x%llx on GPU %d failed with CUDA error %d\n",
				bytes, (unsigned long long)from, (unsigned long long)to, ordinal,
				(int)result);
		reported = true;
	}
	pthread_mutex_unlock(&driver_lock);
	return result == CUDA_SUCCESS;
}
