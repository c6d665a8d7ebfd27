/* SPDX-License-Identifier: BSD-3-Clause */
/* forms_kept_apart.c -- traps of registrations: requests that must not be served, or not by the
 * same region */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "forms.h"

#define RELAXED (ACCESS | IBV_ACCESS_RELAXED_ORDERING)

static struct ibv_mr *request_extended(uint64_t mask, uint64_t address, int file, uint64_t iova)
{
	struct ibv_mr_init_attr attributes = { .length = SIZE,
					       .access = ACCESS,
					       .comp_mask = mask,
					       .iova = iova,
					       .addr = (void *)address,
					       .fd = file };

	return ibv_reg_mr_ex(pd, &attributes);
}

/* Clients probe dma-buf support with an invalid descriptor. */
static void probe_of_dma_bufs(void)
{
	const uint64_t mask = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_IOVA;
	uint64_t requests = statistic("requests");
	bool kept;

	standin_attributes_seen = NULL;
	standin_takes_dma_bufs = true;
	errno = 0;
	kept = PART(!ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, ACCESS)) && PART(errno == EBADF) &&
	       PART(standin_attributes_seen);
	errno = 0;
	kept &= PART(!request_extended(mask, 0, -1, 0)) && PART(errno == EBADF);
	kept &= PART(statistic("requests") == requests);
	standin_takes_dma_bufs = false;
	trap("trap a", "the look whether dma-bufs work reaches the kernel, and leaves its error",
	     kept);
}

/* Each is forwarded with exactly these access flags. */
static void probe_of_everything(void)
{
	static const int others[] = {
		IBV_ACCESS_MW_BIND,
		IBV_ACCESS_ZERO_BASED,
		IBV_ACCESS_ON_DEMAND,
		IBV_ACCESS_HUGETLB,
		1 << 8,
		1 << 9,
	};
	uint64_t forwarded = statistic("forwarded_flags");
	CUdeviceptr address = allocate();
	const struct standin_region *region;
	struct ibv_mr *mr;
	bool kept;

	mr = ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	kept = PART(own(mr, 0, SIZE_MAX)) && PART(mr->length == SIZE_MAX) &&
	       PART(!ibv_dereg_mr(mr));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		mr = request(address, ACCESS | others[i]);
		region = own(mr, address, SIZE);
		kept &= PART(region) && PART(region->access == (ACCESS | others[i])) &&
			PART(!ibv_dereg_mr(mr)) && PART(!standin_find(region->key));
	}
	kept &= PART(statistic("forwarded_flags") ==
		     forwarded + sizeof(others) / sizeof(others[0]));
	mr = standin_alloc_null_mr(pd);
	kept &= PART(mr->lkey == 0x100) && PART(!ibv_dereg_mr(mr));
	cuMemFree_v2(address);
	trap("trap b",
	     "all memory at once, on demand, windows and what else a region cannot share, is "
	     "passed on",
	     kept);
}

void probes(void)
{
	probe_of_dma_bufs();
	probe_of_everything();
}

/* A region with more access flags must not serve a request with fewer: its key may be sent to a
 * peer. */
void other_access_flags(void)
{
	CUdeviceptr address = allocate();
	struct ibv_mr *all = request(address, ACCESS), *less = request(address, 0),
		      *relaxed = request(address, RELAXED);
	struct ibv_mr *plain_window, *window;
	bool kept;
	int file;

	kept = PART(all && less && relaxed) && PART(standin_find(all->rkey)->access == ACCESS) &&
	       PART(standin_find(less->rkey)->access == 0) &&
	       PART(standin_find(relaxed->rkey)->access == RELAXED);
	trap("trap h", "access flags are exactly the requested ones, relaxed ordering among them",
	     kept);

	file = export_range(address, SIZE);
	plain_window = request(address, ACCESS | IBV_ACCESS_MW_BIND);
	window = ibv_reg_dmabuf_mr(pd, 0, SIZE, address, file, ACCESS);
	kept = PART(standin_bind_mw(plain_window) == 0) && PART(standin_bind_mw(all) == EPERM) &&
	       PART(standin_bind_mw(window) == ENOTSUP);
	trap("window", "memory windows are bound, or not, as without the library", kept);
	ibv_dereg_mr(all);
	ibv_dereg_mr(less);
	ibv_dereg_mr(relaxed);
	ibv_dereg_mr(plain_window);
	ibv_dereg_mr(window);
	close(file);
	cuMemFree_v2(address);
}

/* The last byte belongs to another allocation; or the iova differs. */
void other_ranges(void)
{
	const uint64_t by_address = IBV_REG_MR_MASK_ADDR, label = IBV_REG_MR_MASK_IOVA;
	const uint64_t handle = IBV_REG_MR_MASK_DMAH;
	CUdeviceptr address = allocate();
	struct ibv_mr *inside, *across, *renamed, *extended, *extended_renamed, *with_handle;
	uint64_t requests, renamed_before = statistic("forwarded_address");
	bool kept;

	inside = ibv_reg_mr(pd, (void *)(address + 8192), SIZE - 8192, ACCESS);
	across = ibv_reg_mr(pd, (void *)(address + 8192), SIZE, ACCESS);
	renamed = ibv_reg_mr_iova2(pd, (void *)address, SIZE, 0x10000, ACCESS);
	kept = PART(inside) && PART(!own(inside, address + 8192, SIZE - 8192)) &&
	       PART(own(across, address + 8192, SIZE)) && PART(own(renamed, address, SIZE)) &&
	       PART(standin_find(renamed->rkey)->iova == 0x10000);
	extended = request_extended(by_address, address, -1, 0);
	/* libibverbs forwards it in a second form: one request. */
	requests = statistic("requests");
	extended_renamed = request_extended(by_address | label, address, -1, 0x10000);
	kept &= PART(statistic("requests") == requests + 1) &&
		PART(statistic("forwarded_address") == renamed_before + 2);
	with_handle = request_extended(by_address | handle, address, -1, 0);
	kept &= PART(extended->rkey == inside->rkey) &&
		PART(extended_renamed->rkey != inside->rkey) &&
		PART(standin_find(extended_renamed->rkey)->iova == 0x10000) &&
		PART(with_handle->rkey != inside->rkey);
	trap("trap c", "only what lies in one allocation and is named by its address is served",
	     kept);
	ibv_dereg_mr(inside);
	ibv_dereg_mr(across);
	ibv_dereg_mr(renamed);
	ibv_dereg_mr(extended);
	ibv_dereg_mr(extended_renamed);
	ibv_dereg_mr(with_handle);
	cuMemFree_v2(address);
}

/* The address beside a dma-buf is the client's label, and descriptors are reused. */
static void labels(CUdeviceptr address)
{
	const uint64_t mask = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_IOVA;
	int file = export_range(address, SIZE), copy = dup(file);
	int other = memfd_create("not the driver's", MFD_CLOEXEC),
	    half = export_range(address, SIZE / 2);
	struct ibv_mr *plain = request(address, ACCESS), *known, *extended, *lied, *lied_extended,
		      *reused, *long_one, *beyond, *nothing;
	uint64_t unknown = statistic("forwarded_unknown"), lies = statistic("forwarded_address");
	bool kept;

	known = ibv_reg_dmabuf_mr(pd, 0, SIZE, address, file, ACCESS);
	extended = request_extended(mask, 0, copy, address);
	lied = ibv_reg_dmabuf_mr(pd, 0, SIZE, address + SIZE, file, ACCESS);
	lied_extended = request_extended(mask, 0, copy, 0);
	lies = statistic("forwarded_address") - lies;
	long_one = ibv_reg_dmabuf_mr(pd, 4096, SIZE, address + 4096, file, ACCESS);
	beyond = ibv_reg_dmabuf_mr(pd, 0, SIZE, address, half, ACCESS);
	nothing = ibv_reg_dmabuf_mr(pd, 4096, 0, address + 4096, file, ACCESS);
	kept = PART(own(beyond, 0, SIZE)) && PART(own(nothing, 4096, 0)) &&
	       PART(known && known->rkey == plain->rkey) &&
	       PART(extended && extended->rkey == plain->rkey) && PART(own(lied, 0, SIZE)) &&
	       PART(lied_extended && lied_extended->rkey != plain->rkey) && PART(lies == 2) &&
	       PART(own(long_one, 4096, SIZE));
	/* The descriptor now refers to another file; its copy keeps the dma-buf. */
	dup2(other, file);
	kept &= PART(statistic("forwarded_unknown") == unknown);
	reused = ibv_reg_dmabuf_mr(pd, 0, SIZE, address, file, ACCESS);
	kept &= PART(statistic("forwarded_unknown") == unknown + 1);
	ibv_dereg_mr(known);
	known = ibv_reg_dmabuf_mr(pd, 0, SIZE, address, copy, ACCESS);
	kept &= PART(own(reused, 0, SIZE)) && PART(known->rkey == plain->rkey);
	trap("trap d", "a dma-buf is known by its inode, not by its label or its descriptor", kept);
	ibv_dereg_mr(plain);
	ibv_dereg_mr(known);
	ibv_dereg_mr(extended);
	ibv_dereg_mr(lied);
	ibv_dereg_mr(lied_extended);
	ibv_dereg_mr(long_one);
	ibv_dereg_mr(reused);
	ibv_dereg_mr(beyond);
	ibv_dereg_mr(nothing);
	close(file);
	close(half);
	close(copy);
	close(other);
}

static bool is_as_requested(const struct ibv_mr *mr, uint64_t address, size_t length,
			    enum ibv_mr_type type)
{
	return PART(mr) && PART(mr->addr == (void *)address) && PART(mr->length == length) &&
	       PART(mr->pd == pd) && PART(mr->context == device) &&
	       PART(((const struct verbs_mr *)mr)->mr_type == type) && PART(mr->lkey == mr->rkey);
}

/* Fields that each ibv_cmd_* fills, and fields that it leaves, on a hit. */
static bool fills_as_the_real_one(CUdeviceptr address, int file, const struct ibv_mr *expected)
{
	struct verbs_mr plain = { .access = 0x55 }, by_file = { .access = 0x55 },
			extended = { .access = 0x55 };
	struct ibv_mr_init_attr attributes = { .length = 100,
					       .access = ACCESS,
					       .comp_mask = IBV_REG_MR_MASK_ADDR,
					       .addr = (void *)address };
	struct ib_uverbs_reg_mr_resp resp;
	const struct ibv_mr *mr;
	struct ibv_reg_mr cmd;
	bool kept;

	kept = PART(!ibv_cmd_reg_mr(pd, (void *)address, 100, address, ACCESS, &plain, &cmd,
				    sizeof(cmd), &resp, sizeof(resp)));
	mr = &plain.ibv_mr;
	kept &= PART(mr->handle == expected->handle) && PART(mr->lkey == expected->lkey) &&
		PART(mr->rkey == expected->rkey) && PART(mr->context == device) && PART(!mr->pd) &&
		PART(!mr->addr) && PART(!mr->length) && PART(plain.mr_type == IBV_MR_TYPE_MR) &&
		PART(plain.access == ACCESS) && PART(resp.mr_handle == mr->handle) &&
		PART(resp.lkey == mr->lkey) && PART(resp.rkey == mr->rkey);
	kept &= PART(!ibv_cmd_reg_dmabuf_mr(pd, 4096, 100, address + 4096, file, ACCESS, &by_file,
					    NULL));
	mr = &by_file.ibv_mr;
	kept &= PART(mr->handle == expected->handle) && PART(mr->rkey == expected->rkey) &&
		PART(mr->context == device) && PART(mr->pd == pd) &&
		PART(mr->addr == (void *)4096) && PART(mr->length == 100) &&
		PART(by_file.mr_type == IBV_MR_TYPE_DMABUF_MR) && PART(by_file.access == 0x55);
	kept &= PART(!ibv_cmd_reg_mr_ex(pd, &extended, &attributes));
	mr = &extended.ibv_mr;
	kept &= PART(mr->handle == expected->handle) && PART(mr->rkey == expected->rkey) &&
		PART(mr->context == device) && PART(!mr->pd) && PART(!mr->addr) &&
		PART(!mr->length) && PART(extended.mr_type == IBV_MR_TYPE_MR) &&
		PART(extended.access == ACCESS);
	return kept && PART(!ibv_cmd_dereg_mr(&plain)) && PART(!ibv_cmd_dereg_mr(&by_file)) &&
	       PART(!ibv_cmd_dereg_mr(&extended));
}

/* The provider's last argument is undefined here. */
static void shapes(CUdeviceptr address)
{
	int file = export_range(address, SIZE);
	struct ibv_mr *mr = ibv_reg_mr(pd, (void *)(address + 4096), 100, ACCESS);
	uint64_t hits = statistic("hits"), requests = standin_counts.requests;
	struct ibv_mr *again = ibv_reg_mr(pd, (void *)(address + 4096), 100, ACCESS);
	struct ibv_mr *by_file = ibv_reg_dmabuf_mr(pd, 8192, 100, address + 8192, file, ACCESS);
	bool kept;

	kept = is_as_requested(mr, address + 4096, 100, IBV_MR_TYPE_MR) &&
	       is_as_requested(again, address + 4096, 100, IBV_MR_TYPE_MR) &&
	       is_as_requested(by_file, 8192, 100, IBV_MR_TYPE_DMABUF_MR) &&
	       PART(statistic("hits") == hits + 2) && fills_as_the_real_one(address, file, mr) &&
	       PART(standin_counts.requests == requests);
	trap("trap f",
	     "address, length and kind are the client's; of a dma-buf the address is its offset",
	     kept);
	kept = PART(mr != again && again != by_file) && PART(mr->lkey == again->lkey) &&
	       PART(mr->lkey == by_file->lkey) && PART(!ibv_dereg_mr(again)) &&
	       PART(standin_find(mr->lkey)) && PART(!ibv_dereg_mr(by_file)) &&
	       PART(!ibv_dereg_mr(mr)) && PART(!standin_counts.unknown);
	trap("trap g", "each call gets a struct of its own, and ends it alone", kept);
	close(file);
}

void other_files(void)
{
	CUdeviceptr address = allocate();

	labels(address);
	shapes(address);
	cuMemFree_v2(address);
}

/* Of libmlx5's own function the last argument is meaningful. */
void other_attributes(void)
{
	void *library = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
	__typeof__(mlx5dv_reg_dmabuf_mr) *direct =
		library ? (__typeof__(direct))dlsym(library, "mlx5dv_reg_dmabuf_mr") : NULL;
	CUdeviceptr address = allocate();
	int file = export_range(address, SIZE), mapped = -1;
	struct ibv_mr *ordinary, *apart, *otherwise;
	uint64_t data_direct = statistic("forwarded_data_direct");
	bool kept;

	if (!PART(direct)) {
		trap("trap e", dlerror(), false);
		return;
	}
	provider_attributes = NULL;
	ordinary = ibv_reg_dmabuf_mr(pd, 0, SIZE, address, file, ACCESS);
	apart = direct(pd, 0, SIZE, address, file, ACCESS, 1);
	kept = PART(!own(ordinary, 0, SIZE)) && PART(own(apart, 0, SIZE)) &&
	       PART(standin_attributes_seen) &&
	       PART(statistic("forwarded_data_direct") == data_direct + 1);
	/* Over PCIe (CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE). */
	kept &= PART(!cuMemGetHandleForAddressRange(&mapped, address, SIZE,
						    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 1));
	otherwise = ibv_reg_dmabuf_mr(pd, 0, SIZE, address, mapped, ACCESS);
	kept &= PART(own(otherwise, 0, SIZE));
	trap("trap e",
	     "data direct, and a dma-buf that is mapped in another way, are registrations of their "
	     "own",
	     kept);
	ibv_dereg_mr(ordinary);
	ibv_dereg_mr(apart);
	ibv_dereg_mr(otherwise);
	close(file);
	close(mapped);
	cuMemFree_v2(address);
}

/* libmlx5's memory without a key, by address or by a struct. */
void other_calls(void)
{
	CUdeviceptr address = allocate();
	struct mlx5dv_devx_umem_in in = { .addr = (void *)address, .size = SIZE };
	struct mlx5dv_devx_umem *expected = (struct mlx5dv_devx_umem *)(address + 1);
	uint64_t forwarded = statistic("forwarded_form"), requests = statistic("requests");
	struct {
		struct ib_uverbs_reg_mr_resp resp;
		uint64_t more;
	} longer;
	struct verbs_mr vmr = { 0 };
	struct ibv_reg_mr cmd;
	char host[64];

	trap("private", "a request with data of the provider's own is the kernel's, and counted",
	     PART(!ibv_cmd_reg_mr(pd, (void *)address, SIZE, address, ACCESS, &vmr, &cmd,
				  sizeof(cmd), &longer.resp, sizeof(longer))) &&
		     PART(own(&vmr.ibv_mr, address, SIZE)) &&
		     PART(statistic("forwarded_private") == 1) && PART(!ibv_cmd_dereg_mr(&vmr)));
	requests = statistic("requests");
	trap("umem",
	     "memory without a key is the driver's to register, and counted where it is a GPU's",
	     PART(mlx5dv_devx_umem_reg(device, (void *)address, SIZE, 0) == expected) &&
		     PART(mlx5dv_devx_umem_reg_ex(device, &in) == expected) &&
		     PART(statistic("forwarded_form") == forwarded + 2) &&
		     PART(statistic("requests") == requests + 2) &&
		     PART(mlx5dv_devx_umem_reg(device, host, sizeof(host), 0) ==
			  (void *)(host + 1)) &&
		     PART(statistic("forwarded_form") == forwarded + 2));
	trap("import", "an import of another process's registration is the kernel's",
	     PART(ibv_import_mr(pd, 55)->handle == 55) &&
		     PART(statistic("requests") == requests + 2));
	cuMemFree_v2(address);
}
