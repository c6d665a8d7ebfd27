/* SPDX-License-Identifier: BSD-3-Clause */
/* cycles_client.c -- the client in the patterns, and the driver's own answers */
#include "cycles.h"

#include <errno.h>
#include <link.h>
#include <string.h>

#include "base/loaded.h"
#include "sim/sim_adapter.h"

struct ibv_pd *client_pd, *client_other_pd;
CUcontext client_context;
bool client_neighbours_share;
struct client_counts seen;

static struct ibv_context *device;
static CUmemoryPool pool;

uint64_t client_adapter_statistic(const char *name)
{
	uint64_t value;

	must(!sim_adapter_statistic(name, &value));
	return value;
}

size_t client_free_memory(void)
{
	size_t available, total;

	must_cuda(cuCtxSynchronize());
	must_cuda(cuMemPoolTrimTo(pool, 0));
	must_cuda(cuMemGetInfo_v2(&available, &total));
	return available;
}

/* ---- the driver itself, out of its symbol table ---- */

static struct {
	__typeof__(cuPointerGetAttribute) *cuPointerGetAttribute;
	__typeof__(cuPointerSetAttribute) *cuPointerSetAttribute;
	__typeof__(cuMemAlloc_v2) *cuMemAlloc_v2;
	__typeof__(cuMemFree_v2) *cuMemFree_v2;
} driver;

static int find_driver(struct dl_phdr_info *object, size_t size, void *unused)
{
	const char *name = strrchr(object->dlpi_name, '/');
	struct object_tables tables;

	(void)size;
	(void)unused;
	if (!name || strncmp(name, "/libcuda.so", 11) || !object_read(object, &tables))
		return 0;
#define FIND(function)                                                                             \
	driver.function = (__typeof__(driver.function))object_find(&tables, #function)
	FIND(cuPointerGetAttribute);
	FIND(cuPointerSetAttribute);
	FIND(cuMemAlloc_v2);
	FIND(cuMemFree_v2);
#undef FIND
	return 1;
}

bool client_is_set(CUdeviceptr address)
{
	uint64_t value = 0;

	must_cuda(driver.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
	return (uint32_t)value != 0;
}

void client_look(CUdeviceptr address, bool expected)
{
	seen.looked++;
	seen.wrong += client_is_set(address) != expected;
}

/* Whether small allocations of a block share the attribute: then only used ones can be judged. */
static void find_out_about_neighbours(void)
{
	CUdeviceptr one, other;
	unsigned int on = 1;

	must_cuda(driver.cuMemAlloc_v2(&one, 1000));
	must_cuda(driver.cuMemAlloc_v2(&other, 1000));
	must(!client_is_set(one) && !client_is_set(other));
	must_cuda(driver.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, one));
	must(client_is_set(one));
	client_neighbours_share = client_is_set(other);
	must_cuda(driver.cuMemFree_v2(one));
	must_cuda(driver.cuMemFree_v2(other));
	printf("# the driver %s SYNC_MEMOPS for small allocations beside each other\n",
	       client_neighbours_share ? "shares" : "keeps apart");
}

/* ---- client calls ---- */

CUdeviceptr client_obtain(size_t size)
{
	CUdeviceptr address;

	must_cuda(cuMemAlloc_v2(&address, size));
	return address;
}

void client_free(CUdeviceptr address)
{
	must_cuda(cuMemFree_v2(address));
}

struct ibv_mr *client_register(struct ibv_pd *domain, CUdeviceptr address, size_t size, bool surely)
{
	size_t rounded = (size + 15) & ~(size_t)15; /* as UCX does */
	struct ibv_mr *mr = ibv_reg_mr(domain, (void *)address, rounded, ACCESS);

	must(mr && mr->addr == (void *)address && mr->length == rounded);
	seen.requests++;
	seen.due += surely;
	return mr;
}

void client_use(CUdeviceptr address, size_t size, bool surely)
{
	must(!ibv_dereg_mr(client_register(client_pd, address, size, surely)));
}

void client_reach(const struct ibv_mr *mr)
{
	uint64_t word = mr->rkey, read = 0;
	int result = sim_adapter_write(device, mr->rkey, (uintptr_t)mr->addr, &word, sizeof(word));

	if (result == -EOPNOTSUPP)
		return;
	must(!result &&
	     !sim_adapter_read(device, mr->rkey, (uintptr_t)mr->addr, &read, sizeof(read)));
	must(read == word);
}

void client_begin(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	must_cuda(cuInit(0));
	/* The CUDA runtime's context, for exports of memory without one. */
	must_cuda(cuDevicePrimaryCtxRetain(&client_context, 0));
	must_cuda(cuCtxSetCurrent(client_context));
	must_cuda(cuDeviceGetDefaultMemPool(&pool, 0));
	must(devices && devices[0]);
	device = ibv_open_device(devices[0]);
	must(device);
	client_pd = ibv_alloc_pd(device);
	client_other_pd = ibv_alloc_pd(device);
	must(client_pd && client_other_pd);
	dl_iterate_phdr(find_driver, NULL);
	must(driver.cuPointerGetAttribute && driver.cuPointerSetAttribute && driver.cuMemAlloc_v2 &&
	     driver.cuMemFree_v2);
	must((void *)driver.cuPointerGetAttribute != dlsym(RTLD_DEFAULT, "cuPointerGetAttribute"));
	find_out_about_neighbours();
}

void client_end(void)
{
	const char *verified = getenv("PEERPIN_VERIFY");

	must(!client_adapter_statistic("outlived"));
	must(!ibv_dealloc_pd(client_pd) && !ibv_dealloc_pd(client_other_pd));
	must(!client_adapter_statistic("live"));
	must(!ibv_close_device(device));
	must(!verified || strcmp(verified, "1") || statistic("verify_checks"));
	must(!statistic("missed_frees") && !statistic("verify_disagreements") &&
	     !statistic("internal_errors"));
}
