/* SPDX-License-Identifier: BSD-3-Clause */
/* forms_in_time.c -- traps of registrations: events after one, or inside it */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "forms.h"

static char host[65536];

static int register_in(struct verbs_mr *vmr, void *address, size_t length)
{
	struct ib_uverbs_reg_mr_resp resp;
	struct ibv_reg_mr cmd;

	return ibv_cmd_reg_mr(pd, address, length, (uint64_t)address, ACCESS, vmr, &cmd,
			      sizeof(cmd), &resp, sizeof(resp));
}

/* A client may drop MRs without a deregistration; the provider may register or import at their
 * address. */
static bool places_come_back(CUdeviceptr address)
{
	struct verbs_mr vmr = { 0 };
	uint32_t key, number;
	bool kept;

	kept = PART(!register_in(&vmr, (void *)address, SIZE)) &&
	       PART(!register_in(&vmr, host, sizeof(host)));
	key = vmr.ibv_mr.lkey;
	kept &= PART(!ibv_cmd_dereg_mr(&vmr)) && PART(!standin_find(key));
	kept &= PART(!register_in(&vmr, host, sizeof(host)));
	key = vmr.ibv_mr.lkey;
	number = vmr.ibv_mr.handle;
	kept &= PART(!register_in(&vmr, (void *)address, SIZE)) &&
		PART(!ibv_cmd_query_mr(pd, &vmr, number)) && PART(!ibv_cmd_dereg_mr(&vmr)) &&
		PART(!standin_find(key));
	return kept;
}

/* The kernel reuses handles. */
void numbers_come_back(void)
{
	CUdeviceptr address = allocate();
	struct ibv_mr *stale = request(address, ACCESS), *fresh, *imported;
	uint32_t number = stale->handle, key;
	bool kept;

	cuMemFree_v2(address);
	fresh = ibv_reg_mr(pd, host, sizeof(host), ACCESS);
	key = fresh->lkey;
	kept = PART(fresh->handle == number) && PART(!ibv_dereg_mr(stale)) &&
	       PART(standin_find(key));
	/* An import by that handle is not the library's region. */
	imported = ibv_import_mr(pd, number);
	kept &= PART(imported && imported->handle == number) && PART(standin_find(key));
	ibv_unimport_mr(imported);
	kept &= PART(!ibv_dereg_mr(fresh)) && PART(!standin_find(key));
	address = allocate();
	kept &= places_come_back(address) && PART(!standin_counts.unknown);
	cuMemFree_v2(address);
	trap("trap k",
	     "the kernel's numbers and the provider's places come back, and mean another region",
	     kept);
}

static bool change_of_place(CUdeviceptr address)
{
	struct ibv_mr *one = request(address, ACCESS), *other = request(address, ACCESS);
	uint32_t key = other->lkey;
	bool kept;

	kept = PART(!ibv_rereg_mr(one, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, host, sizeof(host),
				  0)) &&
	       PART(own(one, (uint64_t)host, sizeof(host))) && PART(one->addr == host) &&
	       PART(standin_find(one->lkey)->access == ACCESS) && PART(standin_find(key)) &&
	       PART(standin_find(key)->address != (uint64_t)host);
	/* From here on it is forwarded: the client's own region. */
	kept &= PART(!ibv_rereg_mr(one, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, host + 4096, 4096,
				   0)) &&
		PART(standin_counts.changed == 1) && PART(own(one, (uint64_t)host + 4096, 4096));
	kept &= PART(!ibv_dereg_mr(one)) && PART(!ibv_dereg_mr(other)) && PART(standin_find(key));
	return kept;
}

static bool change_of_access_flags(CUdeviceptr address)
{
	struct ibv_pd *second = ibv_alloc_pd(device);
	struct ibv_mr *one = request(address, ACCESS), *other = request(address, ACCESS), *served;
	uint32_t key = other->lkey;
	bool kept;

	kept = PART(!ibv_rereg_mr(one, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				  IBV_ACCESS_LOCAL_WRITE)) &&
	       PART(one->lkey != key) &&
	       PART(standin_find(one->lkey)->access == IBV_ACCESS_LOCAL_WRITE) &&
	       PART(standin_find(key)->access == ACCESS);
	served = request(address, IBV_ACCESS_LOCAL_WRITE);
	kept &= PART(served->lkey == one->lkey) && PART(!ibv_dereg_mr(served));
	kept &= PART(!ibv_rereg_mr(one, IBV_REREG_MR_CHANGE_PD, second, NULL, 0, 0)) &&
		PART(standin_find(one->lkey)->domain == second->handle) &&
		PART(one->pd == second) &&
		PART(standin_find(one->lkey)->access == IBV_ACCESS_LOCAL_WRITE) &&
		PART(standin_find(key)->domain == pd->handle);
	kept &= PART(!ibv_dereg_mr(one)) && PART(!ibv_dereg_mr(other)) &&
		PART(!ibv_dealloc_pd(second));
	return kept;
}

/* The client must not use it, and can only deregister it. */
static bool change_that_fails(CUdeviceptr address)
{
	struct ibv_mr *one = request(address, ACCESS), *other = request(address, ACCESS);
	uint32_t key = other->lkey;
	bool kept;

	standin_fails_with = EFAULT;
	errno = 0;
	kept = PART(ibv_rereg_mr(one, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, host, sizeof(host),
				 0) == -4) &&
	       PART(errno == EFAULT);
	standin_fails_with = 0;
	errno = 0;
	kept &= PART(ibv_rereg_mr(one, 0, NULL, NULL, 0, 0) == -4) && PART(errno == EINVAL);
	kept &= PART(!ibv_dereg_mr(one)) && PART(standin_find(key)) && PART(!ibv_dereg_mr(other));
	return kept && PART(standin_counts.changed == 1) && PART(!standin_counts.unknown);
}

void changes(void)
{
	uint64_t before = 1, after = 1;
	CUdeviceptr address = allocate();
	bool kept = PART(!sim_adapter_statistic("dontfork", &before));

	kept &= change_of_place(address);
	kept &= change_of_access_flags(address);
	kept &= change_that_fails(address);
	trap("trap l", "what one client changes stays as it was for the others", kept);
	/* The free ends the library's regions and their ranges. */
	cuMemFree_v2(address);
	trap("trap m", "ranges kept from children are given back, one for one",
	     PART(before == 0) && PART(!sim_adapter_statistic("dontfork", &after)) &&
		     PART(after == 0));
}

/* Inside a registration of the library's, libmlx5 registers and allocates. */
static struct ibv_mr *inner;
static struct ibv_pd *inner_domain;

static void register_inside(void)
{
	standin_in_register = NULL;
	inner_domain = ibv_alloc_pd(device);
	inner = ibv_reg_mr(inner_domain, host, sizeof(host), IBV_ACCESS_LOCAL_WRITE);
}

/* On a device that supports dma-bufs: an export needs a current context. */
static void *without_context(void *address)
{
	uint64_t made = statistic("registrations_dma_buf");
	struct ibv_context *other;
	struct ibv_pd *domain;
	CUcontext current = (CUcontext)1;
	struct ibv_mr *mr;
	bool kept;

	standin_takes_dma_bufs = true;
	other = standin_open_device();
	domain = ibv_alloc_pd(other);
	cuCtxSetCurrent(NULL);
	mr = ibv_reg_mr(domain, address, 4096, ACCESS);
	kept = PART(mr) && PART(!own(mr, (uint64_t)address, 4096)) &&
	       PART(statistic("registrations_dma_buf") == made + 1) &&
	       PART(!cuCtxGetCurrent(&current)) && PART(!current) && PART(!ibv_dereg_mr(mr));
	kept &= PART(!ibv_dealloc_pd(domain)) && PART(!ibv_close_device(other));
	standin_takes_dma_bufs = false;
	trap("trap o", "a thread without a context registers by dma-buf, and has none afterwards",
	     kept);
	return NULL;
}

void recursion(void)
{
	CUdeviceptr address = allocate();
	uint64_t synchronous = statistic("synchronous");
	pthread_t thread;
	struct ibv_mr *mr;
	uint32_t key;
	bool kept;

	standin_in_register = register_inside;
	mr = request(address, ACCESS);
	kept = PART(mr && inner && inner_domain) &&
	       PART(statistic("synchronous") == synchronous + 1);
	key = inner->lkey;
	kept &= PART(own(inner, (uint64_t)host, sizeof(host))) && PART(!ibv_dereg_mr(inner)) &&
		PART(!standin_find(key)) && PART(!ibv_dealloc_pd(inner_domain)) &&
		PART(!ibv_dereg_mr(mr));
	trap("trap n", "a provider that registers and allocates inside a registration does so",
	     kept);
	cuMemFree_v2(address);

	address = allocate();
	if (!pthread_create(&thread, NULL, without_context, (void *)address))
		pthread_join(thread, NULL);
	cuMemFree_v2(address);
}

/* ---- beside an export ---- */

static CUdeviceptr exported;

static void allocate_again(void)
{
	CUdeviceptr address = exported;

	cuMemFree_v2(exported);
	exported = allocate();
	if (exported != address)
		exported = 0;
}

/* Another thread frees, and allocates at the same address, before the library records the export.
 */
void export_and_end(void)
{
	void (**when_exported)(void) = (void (**)(void))dlsym(RTLD_DEFAULT, "mapped_exported");
	uint64_t freed = statistic("forwarded_freed");
	struct ibv_mr *mr;
	int file;

	exported = allocate();
	*when_exported = allocate_again;
	file = export_range(exported, SIZE);
	*when_exported = NULL;
	mr = ibv_reg_dmabuf_mr(pd, 0, SIZE, exported, file, ACCESS);
	trap("export", "what begins after the driver's export is not taken for what was exported",
	     PART(exported) && PART(own(mr, 0, SIZE)) &&
		     PART(statistic("forwarded_freed") == freed + 1) && PART(!ibv_dereg_mr(mr)));
	close(file);
	cuMemFree_v2(exported);
}

/* An idle region is evicted for a registration of host memory. */
void room_made(void)
{
	CUdeviceptr address = allocate();
	struct ibv_mr *idle = request(address, ACCESS), *mr;
	uint32_t key = idle->lkey;
	bool kept;

	ibv_dereg_mr(idle);
	kept = PART(standin_find(key));
	standin_capacity = standin_kernel_regions();
	mr = ibv_reg_mr(pd, host, sizeof(host), ACCESS);
	standin_capacity = UINT32_MAX;
	kept &= PART(own(mr, (uint64_t)host, sizeof(host))) && PART(!standin_find(key)) &&
		PART(!ibv_dereg_mr(mr));
	trap("room made", "a client's own registration goes before regions that nobody holds",
	     kept);
	cuMemFree_v2(address);
}
