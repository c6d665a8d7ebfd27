/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel.c -- ibv_cmd_* on a simulated kernel, which only keeps lists
 *
 * As the kernel, it gives each region the lowest free handle, refuses unknown handles, and keeps a
 * protection domain with regions. Each call fills the fields that the real one fills
 * (libibverbs/cmd.c, cmd_mr.c).
 */
#include "libibverbs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/adapter.h"

#define REGIONS 4096
#define DOMAINS 64

static struct standin_region regions[REGIONS];
static struct ibv_pd *domains[DOMAINS];
pthread_mutex_t adapter_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t last_key;

#ifndef PROVIDER_FRONT_MORE
#define PROVIDER_FRONT_MORE 0
#endif

struct standin_counts standin_counts;
unsigned int standin_capacity = REGIONS;
bool standin_takes_dma_bufs;
int standin_fails_with;
void (*standin_in_register)(void);
void (*standin_in_deregister)(void);
struct ibv_command_buffer *standin_attributes_seen;

unsigned int standin_kernel_regions(void)
{
	unsigned int count = 0;

	pthread_mutex_lock(&adapter_lock);
	for (unsigned int i = 1; i < REGIONS; i++)
		count += regions[i].key != 0;
	pthread_mutex_unlock(&adapter_lock);
	return count;
}

const struct standin_region *standin_find(uint32_t key)
{
	for (unsigned int i = 1; key && i < REGIONS; i++) {
		if (regions[i].key == key)
			return &regions[i];
	}
	return NULL;
}

bool standin_has_fault(const char *name)
{
	const char *fault = getenv("STANDIN_FAULT");

	return fault && !strcmp(fault, name);
}

static int fail(int error)
{
	errno = error;
	return standin_has_fault("errors") ? -error : error;
}

/* 0 and the region's handle, or an errno. */
static int make(const struct standin_region *wanted, uint32_t *number)
{
	unsigned int living = standin_kernel_regions();

	if (standin_in_register)
		standin_in_register();
	standin_counts.requests++;
	if (standin_fails_with)
		return fail(standin_fails_with);
	if (living >= standin_capacity)
		return fail(ENOMEM);
	pthread_mutex_lock(&adapter_lock);
	for (*number = 1; *number < REGIONS && regions[*number].key; ++*number)
		continue;
	if (*number < REGIONS) {
		regions[*number] = *wanted;
		regions[*number].key = ++last_key;
	}
	pthread_mutex_unlock(&adapter_lock);
	return *number < REGIONS ? 0 : fail(ENOMEM);
}

static void fill(struct verbs_mr *vmr, const struct ibv_pd *pd, uint32_t number,
		 enum ibv_mr_type type)
{
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.handle = number;
	vmr->ibv_mr.lkey = regions[number].key;
	vmr->ibv_mr.rkey = regions[number].key;
	vmr->mr_type = type;
	if (standin_has_fault("moved"))
		vmr->access = ~vmr->access;
	if (standin_has_fault("key"))
		vmr->ibv_mr.rkey ^= 0xffff;
}

int ibv_cmd_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access,
		   struct verbs_mr *vmr, struct ibv_reg_mr *cmd, size_t cmd_size,
		   struct ib_uverbs_reg_mr_resp *resp, size_t resp_size)
{
	bool swapped = standin_has_fault("arguments");
	struct standin_region wanted = { .context = pd->context,
					 .domain = pd->handle,
					 .address = (uint64_t)addr,
					 .length = swapped ? hca_va : length,
					 .iova = swapped ? length : hca_va,
					 .access = access };
	uint32_t number;
	int result;

	(void)cmd;
	(void)cmd_size;
	(void)resp_size;
	if (access & IBV_ACCESS_REMOTE_WRITE && !(access & IBV_ACCESS_LOCAL_WRITE))
		return fail(EINVAL);
	if (access & IBV_ACCESS_ON_DEMAND && length == SIZE_MAX && addr)
		return fail(EINVAL);
	result = make(&wanted, &number);
	if (result)
		return result;
	*resp = (struct ib_uverbs_reg_mr_resp){ number, regions[number].key, regions[number].key };
	vmr->access = access;
	fill(vmr, pd, number, IBV_MR_TYPE_MR);
	return 0;
}

int ibv_cmd_rereg_mr(struct verbs_mr *vmr, uint32_t flags, void *addr, size_t length,
		     uint64_t hca_va, int access, struct ibv_pd *pd, struct ibv_rereg_mr *cmd,
		     size_t cmd_size, struct ib_uverbs_rereg_mr_resp *resp, size_t resp_size)
{
	struct standin_region *region = &regions[vmr->ibv_mr.handle % REGIONS];

	(void)cmd;
	(void)cmd_size;
	(void)resp_size;
	if (!flags || !region->key)
		return fail(EINVAL);
	standin_counts.changed++;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		region->address = (uint64_t)addr;
		region->length = length;
		region->iova = hca_va;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		region->domain = pd->handle;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		region->access = access;
	vmr->ibv_mr.lkey = resp->lkey = region->key;
	vmr->ibv_mr.rkey = resp->rkey = region->key;
	return 0;
}

int standin_dereg_mr(struct verbs_mr *vmr)
{
	struct standin_region *region = &regions[vmr->ibv_mr.handle % REGIONS];
	bool known;

	if (standin_in_deregister)
		standin_in_deregister();
	pthread_mutex_lock(&adapter_lock);
	known = region->key != 0;
	region->key = 0;
	pthread_mutex_unlock(&adapter_lock);
	if (!known)
		standin_counts.unknown++;
	return known ? 0 : fail(EINVAL);
}

int ibv_cmd_dereg_mr(struct verbs_mr *vmr)
{
	return standin_dereg_mr(vmr);
}

int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			  int access, struct verbs_mr *vmr, struct ibv_command_buffer *driver)
{
	struct standin_region wanted = { 0, pd->context, pd->handle, offset, length, iova, access };
	struct stat status;
	uint32_t number;
	int result;

	standin_attributes_seen = driver;
	if (fstat(fd, &status))
		return fail(fd >= 0 || standin_takes_dma_bufs ? EBADF : EOPNOTSUPP);
	result = make(&wanted, &number);
	if (result)
		return result;
	fill(vmr, pd, number, IBV_MR_TYPE_DMABUF_MR);
	vmr->ibv_mr.pd = pd;
	vmr->ibv_mr.addr = (void *)offset;
	vmr->ibv_mr.length = length;
	return 0;
}

int ibv_cmd_reg_mr_ex(struct ibv_pd *pd, struct verbs_mr *vmr, struct ibv_mr_init_attr *attributes)
{
	bool by_file = attributes->comp_mask & IBV_REG_MR_MASK_FD;
	struct standin_region wanted = { .context = pd->context,
					 .domain = pd->handle,
					 .address = by_file ? attributes->fd_offset
							    : (uint64_t)attributes->addr,
					 .length = attributes->length,
					 .access = attributes->access };
	struct ib_uverbs_reg_mr_resp resp;
	struct ibv_reg_mr cmd;
	struct stat status;
	uint32_t number;
	int result;

	if (by_file == !!(attributes->comp_mask & IBV_REG_MR_MASK_ADDR))
		return fail(EINVAL);
	if (by_file && fstat(attributes->fd, &status))
		return fail(EBADF);
	wanted.iova =
		attributes->comp_mask & IBV_REG_MR_MASK_IOVA ? attributes->iova : wanted.address;
	/* As rdma-core 65 on a kernel without this form. */
	if (!by_file && !(attributes->comp_mask & IBV_REG_MR_MASK_DMAH))
		return ibv_cmd_reg_mr(pd, attributes->addr, attributes->length, wanted.iova,
				      attributes->access, vmr, &cmd, sizeof(cmd), &resp,
				      sizeof(resp));
	result = make(&wanted, &number);
	if (result)
		return result;
	fill(vmr, pd, number, by_file ? IBV_MR_TYPE_DMABUF_MR : IBV_MR_TYPE_MR);
	return 0;
}

int ibv_cmd_query_mr(struct ibv_pd *pd, struct verbs_mr *vmr, uint32_t handle)
{
	vmr->ibv_mr.handle = handle;
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.pd = pd;
	vmr->ibv_mr.addr = NULL;
	vmr->mr_type = IBV_MR_TYPE_IMPORTED_MR;
	return 0;
}

int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, struct ibv_alloc_pd *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size)
{
	uint32_t number = 1;

	(void)cmd;
	(void)cmd_size;
	(void)resp;
	(void)resp_size;
	while (number < DOMAINS && domains[number])
		number++;
	if (number == DOMAINS)
		return fail(ENOMEM);
	domains[number] = pd;
	pd->context = context;
	pd->handle = number;
	return 0;
}

int ibv_cmd_dealloc_pd(struct ibv_pd *pd)
{
	for (unsigned int i = 1; i < REGIONS; i++) {
		if (regions[i].key && regions[i].context == pd->context &&
		    regions[i].domain == pd->handle)
			return fail(EBUSY);
	}
	domains[pd->handle % DOMAINS] = NULL;
	return 0;
}

/* Count the remaining regions, which can no longer be deregistered. */
void verbs_uninit_context(struct verbs_context *context)
{
	struct ibv_context *device =
		(struct ibv_context *)((char *)context + PROVIDER_FRONT_MORE +
				       offsetof(struct verbs_context, context));

	for (unsigned int i = 1; i < REGIONS; i++) {
		if (regions[i].key && regions[i].context == device) {
			regions[i].key = 0;
			standin_counts.left_behind++;
		}
	}
}
