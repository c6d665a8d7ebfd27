/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_versions.c -- under the preload: a libibverbs of any version is served, if it differs in
 * nothing from the known ones
 *
 * The first argument names the library: known, newest or unknown.
 */
#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "unit/preload.h"
#include "unit/suite.h"
#include "verbs/libibverbs.h"

#define SIZE ((size_t)1 << 20)

static const char *library;

static CUdeviceptr allocate(void)
{
	CUdeviceptr address;
	CUcontext context;

	ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
	ck_assert_int_eq(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	ck_assert_int_eq(cuMemAlloc_v2(&address, SIZE), CUDA_SUCCESS);
	return address;
}

START_TEST(each_version_is_served)
{
	struct ibv_pd *pd = ibv_alloc_pd(standin_open_device());
	CUdeviceptr address = allocate();
	struct ibv_mr *mr[4];

	for (int i = 0; i < 4; i++) {
		mr[i] = ibv_reg_mr(pd, (void *)address, SIZE, IBV_ACCESS_LOCAL_WRITE);
		ck_assert_ptr_nonnull(mr[i]);
	}
	ck_assert_uint_eq(standin_kernel_regions(), 1);
	ck_assert_uint_eq(statistic("synchronous"), 1);
	ck_assert_uint_eq(statistic("hits"), 3);
	ck_assert_uint_eq(mr[3]->rkey, mr[0]->rkey);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(ibv_dereg_mr(mr[i]), 0);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
}
END_TEST

/* Each context is checked once, at its first request for GPU memory, and leaves nothing. */
START_TEST(a_context_is_checked_once)
{
	enum { MANY = 20 }; /* more than malloc caches in a thread */
	struct ibv_pd *first = ibv_alloc_pd(standin_open_device()), *others[MANY];
	unsigned int requests, check;
	CUdeviceptr address;
	char host[4096];

	ck_assert_ptr_nonnull(ibv_reg_mr(first, host, sizeof(host), IBV_ACCESS_LOCAL_WRITE));
	ck_assert_uint_eq(standin_counts.requests, 1);
	address = allocate();
	ck_assert_ptr_nonnull(ibv_reg_mr(first, (void *)address, SIZE, IBV_ACCESS_LOCAL_WRITE));
	check = standin_counts.requests - 2;
	ck_assert_uint_ge(check, 1);
	ck_assert_uint_eq(standin_kernel_regions(), 2);
	ck_assert_ptr_nonnull(ibv_reg_mr(first, (void *)address, SIZE, IBV_ACCESS_REMOTE_READ));
	ck_assert_uint_eq(standin_counts.requests, check + 3);
	/* Contexts of the second round have addresses of the first one's. */
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < MANY; i++) {
			others[i] = ibv_alloc_pd(standin_open_device());
			requests = standin_counts.requests;
			ck_assert_ptr_nonnull(ibv_reg_mr(others[i], (void *)address, SIZE,
							 IBV_ACCESS_LOCAL_WRITE));
			ck_assert_uint_eq(standin_counts.requests, requests + check + 1);
			ck_assert_uint_eq(standin_kernel_regions(), 4 + (unsigned int)i);
		}
		for (int i = 0; i < MANY; i++)
			ck_assert_int_eq(ibv_close_device(others[i]->context), 0);
		ck_assert_uint_eq(standin_kernel_regions(), 3);
	}
}
END_TEST

/* The errors of a full adapter are no difference: the check succeeds without a registration. */
START_TEST(a_full_adapter_is_no_other_library)
{
	struct ibv_pd *pd = ibv_alloc_pd(standin_open_device());
	CUdeviceptr address = allocate();
	struct ibv_mr *mr;

	standin_capacity = 0;
	ck_assert_ptr_null(ibv_reg_mr(pd, (void *)address, SIZE, IBV_ACCESS_LOCAL_WRITE));
	ck_assert_int_eq(errno, ENOMEM);
	standin_capacity = 1;
	mr = ibv_reg_mr(pd, (void *)address, SIZE, IBV_ACCESS_LOCAL_WRITE);
	ck_assert_ptr_nonnull(mr);
	ck_assert_ptr_nonnull(ibv_reg_mr(pd, (void *)address, SIZE, IBV_ACCESS_LOCAL_WRITE));
	ck_assert_uint_eq(statistic("forwarded_version"), 0);
	ck_assert_uint_eq(statistic("hits"), 1);
}
END_TEST

/* The kernel of each of these libraries registers correctly. */
START_TEST(a_library_that_differs_is_forwarded)
{
	struct ibv_pd *pd = ibv_alloc_pd(standin_open_device());
	CUdeviceptr address = allocate();
	struct ibv_mr *mr[4];

	for (int i = 0; i < 4; i++) {
		mr[i] = ibv_reg_mr(pd, (void *)address, SIZE, IBV_ACCESS_LOCAL_WRITE);
		ck_assert_ptr_nonnull(mr[i]);
		ck_assert_uint_eq(standin_find(mr[i]->lkey)->length, SIZE);
		ck_assert_uint_eq(statistic("forwarded_version"), (uint64_t)i + 1);
	}
	/* A registration for each request. */
	ck_assert_uint_eq(standin_kernel_regions(), 4);
	ck_assert_uint_eq(statistic("registrations"), 0);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(ibv_dereg_mr(mr[i]), 0);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
}
END_TEST

/* The offset of the context differs between versions. */
START_TEST(a_closed_device_has_nothing_of_ours_left)
{
	struct ibv_context *device = standin_open_device();
	CUdeviceptr address = allocate();
	struct ibv_mr *mr;

	mr = ibv_reg_mr(ibv_alloc_pd(device), (void *)address, SIZE, IBV_ACCESS_LOCAL_WRITE);
	ck_assert_ptr_nonnull(mr);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_uint_eq(standin_kernel_regions(), 1);
	ck_assert_int_eq(ibv_close_device(device), 0);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ck_assert_uint_eq(standin_counts.left_behind, 0);
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(standin_counts.unknown, 0);
}
END_TEST

/* Its protection domain is left to the close, which no record of its struct precedes. */
START_TEST(nothing_is_registered_on_a_device_of_unknown_layout)
{
	struct ibv_context *device = standin_open_device();
	struct ibv_pd *pd = ibv_alloc_pd(device);
	CUdeviceptr address = allocate();

	ck_assert_ptr_nonnull(pd);
	ck_assert_uint_eq(standin_kernel_regions(), 0);
	ck_assert_ptr_nonnull(ibv_reg_mr(pd, (void *)address, SIZE, IBV_ACCESS_LOCAL_WRITE));
	ck_assert_uint_eq(standin_counts.requests, 1);
	ck_assert_uint_eq(statistic("forwarded_version"), 1);
	ck_assert_int_eq(ibv_close_device(device), 0);
	ck_assert_uint_eq(standin_counts.left_behind, 1); /* the client's */
	ck_assert_int_eq(cuMemFree_v2(address), CUDA_SUCCESS);
	ck_assert_uint_eq(standin_counts.unknown, 0);
}
END_TEST

/* A version that has the argument uses it; dma-bufs are known in both. */
START_TEST(attributes_of_the_provider_s_own_count_where_the_library_has_them)
{
	struct ibv_pd *pd = ibv_alloc_pd(standin_open_device());
	CUdeviceptr address = allocate();
	struct ibv_mr *mr;
	int file;

	ck_assert_int_eq(cuMemGetHandleForAddressRange(&file, address, SIZE,
						       CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
			 CUDA_SUCCESS);
	mr = ibv_reg_dmabuf_mr(pd, 0, SIZE, address, file, IBV_ACCESS_LOCAL_WRITE);
	ck_assert_ptr_nonnull(mr);
	ck_assert_uint_eq(standin_find(mr->lkey)->address, address);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	provider_attributes = (struct ibv_command_buffer *)&file;
	mr = ibv_reg_dmabuf_mr(pd, 0, SIZE, address, file, IBV_ACCESS_LOCAL_WRITE);
	ck_assert_ptr_nonnull(mr);
	ck_assert_uint_eq(statistic("hits"), !strcmp(library, "known"));
	ck_assert_uint_eq(statistic("forwarded_data_direct"), !!strcmp(library, "known"));
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	close(file);
}
END_TEST

int main(int count, char **arguments)
{
	Suite *suite = suite_create("versions of libibverbs");
	TCase *served = tcase_create("served"), *refused = tcase_create("refused"),
	      *unopened = tcase_create("unopened");

	library = count > 1 ? arguments[1] : "known";
	tcase_add_test(served, each_version_is_served);
	tcase_add_test(served, a_context_is_checked_once);
	tcase_add_test(served, a_full_adapter_is_no_other_library);
	tcase_add_test(served, a_closed_device_has_nothing_of_ours_left);
	tcase_add_test(served, attributes_of_the_provider_s_own_count_where_the_library_has_them);
	tcase_add_test(refused, a_library_that_differs_is_forwarded);
	tcase_add_test(unopened, nothing_is_registered_on_a_device_of_unknown_layout);
	suite_add_tcase(suite, unopened);
	suite_add_tcase(suite, served);
	suite_add_tcase(suite, refused);
	return suite_run(suite);
}
