/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_versions.c -- under the preload: a known libibverbs is served, requests of others are
 * forwarded
 *
 * The first argument names the library: known, newest, unknown or layout.
 */
#include <check.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "unit/preload.h"
#include "unit/suite.h"
#include "verbs/libibverbs.h"

#define SIZE ((size_t)1 << 20)

static const char *library;

static bool is_known(void)
{
	return !strcmp(library, "known") || !strcmp(library, "newest");
}

CASE(versions);

/* The kernel of each of these libraries fills the handle correctly. */
TEST(versions, only_known_versions_are_served)
{
	struct ibv_context *device = standin_open_device();
	bool known = is_known();
	struct ibv_mr *handles[4];
	struct ibv_pd *pd;
	CUdeviceptr address;
	CUcontext context;

	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
	ck_assert_int_eq(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemAlloc_v2(&address, SIZE), CUDA_SUCCESS);
	pd = ibv_alloc_pd(device);
	for (int i = 0; i < 4; i++) {
		handles[i] = ibv_reg_mr(pd, (void *)address, SIZE, IBV_ACCESS_LOCAL_WRITE);
		ck_assert_ptr_nonnull(handles[i]);
	}
	if (known) {
		ck_assert_uint_eq(standin_kernel_regions(), 1);
		ck_assert_uint_eq(statistic("synchronous"), 1);
		ck_assert_uint_eq(statistic("hits"), 3);
		ck_assert_uint_eq(handles[3]->rkey, handles[0]->rkey);
	} else {
		/* A region for each request. */
		ck_assert_uint_ge(standin_kernel_regions(), 4);
		ck_assert_uint_ne(handles[3]->rkey, handles[2]->rkey);
		ck_assert_uint_ge(statistic("bypassed_version"), 3);
		ck_assert_uint_eq(statistic("hits"), 0);
	}
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(ibv_dereg_mr(handles[i]), 0);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
}

/* The offset of the context differs between versions. */
TEST(versions, a_closed_device_has_nothing_of_ours_left)
{
	struct ibv_context *device = standin_open_device();
	CUdeviceptr address;
	CUcontext context;
	struct ibv_mr *mr;

	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
	ck_assert_int_eq(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemAlloc_v2(&address, SIZE), CUDA_SUCCESS);
	mr = ibv_reg_mr(ibv_alloc_pd(device), (void *)address, SIZE, IBV_ACCESS_LOCAL_WRITE);
	ck_assert_ptr_nonnull(mr);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	if (is_known())
		ck_assert_uint_eq(standin_kernel_regions(), 1);
	ck_assert_int_eq(ibv_close_device(device), 0);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ck_assert_uint_eq(standin_counts.left_behind, 0);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(standin_counts.unknown, 0);
}

/* A version that has the argument uses it; dma-bufs are known in both. */
TEST(versions, attributes_of_the_provider_s_own_count_where_the_library_has_them)
{
	struct ibv_pd *pd = ibv_alloc_pd(standin_open_device());
	CUdeviceptr address;
	CUcontext context;
	struct ibv_mr *mr;
	int file;

	if (!strcmp(library, "layout"))
		return;
	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
	ck_assert_int_eq(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemAlloc_v2(&address, SIZE), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemGetHandleForAddressRange(&file, address, SIZE,
						       CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
			 CUDA_SUCCESS);
	mr = ibv_reg_dmabuf_mr(pd, 0, SIZE, address, file, IBV_ACCESS_LOCAL_WRITE);
	ck_assert_ptr_nonnull(mr);
	ck_assert_int_eq(standin_find(mr->lkey)->address == address, is_known());
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	provider_attributes = (struct ibv_command_buffer *)&file;
	mr = ibv_reg_dmabuf_mr(pd, 0, SIZE, address, file, IBV_ACCESS_LOCAL_WRITE);
	ck_assert_ptr_nonnull(mr);
	ck_assert_uint_eq(statistic("hits"), !strcmp(library, "known"));
	ck_assert_uint_eq(statistic("bypassed_form"), !strcmp(library, "newest"));
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	close(file);
}

int main(int count, char **arguments)
{
	library = count > 1 ? arguments[1] : "known";
	return suite_main("versions of libibverbs");
}
