/* SPDX-License-Identifier: BSD-3-Clause */
/* exports.c -- exports of registered memory, answered without the driver
 *
 * The simulated driver makes a file for each export, so equal inodes are one export.
 */
#include "ends.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static bool is_dma_buf(int fd)
{
	char path[32], name[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, name, sizeof(name) - 1) > 0 && strstr(name, "peerpin-sim-dmabuf");
}

/* Without those of the adapter's registrations, which are the kernel's on hardware. */
static int dma_bufs(void)
{
	int open = -(int)sim("live");

	for (int fd = 0; fd < 256; fd++)
		open += is_dma_buf(fd);
	return open;
}

static unsigned long long mapping; /* flags of exports */

static CUresult export(int *fd, CUdeviceptr memory)
{
	return cuMemGetHandleForAddressRange(fd, memory, UNIT, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					     mapping);
}

static struct stat exported(CUdeviceptr memory)
{
	struct stat status;
	int fd = -1;

	require_cuda(export(&fd, memory));
	require(is_dma_buf(fd) && !fstat(fd, &status));
	require(fcntl(fd, F_GETFD) == FD_CLOEXEC && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR);
	require(!close(fd));
	return status;
}

static bool is_answered(CUdeviceptr memory)
{
	uint64_t before = own("exports_ready");

	exported(memory);
	return own("exports_ready") > before;
}

static struct ibv_mr *registered_by_dma_buf(CUdeviceptr memory)
{
	struct ibv_mr *mr;
	int fd = -1;

	require_cuda(export(&fd, memory));
	mr = ibv_reg_dmabuf_mr(pd, 0, UNIT, memory, fd, ACCESS);
	require(mr && !close(fd));
	return mr;
}

/* The region keeps the dma-buf, and so do later ones. */
static void activate_by_dma_buf(void)
{
	set_up();
	require(!ibv_dereg_mr(registered_by_dma_buf(allocate(UNIT))));
	require(own("exports") == 1 && own("exports_ready") == 0 && dma_bufs() == 1);
}

static CUdeviceptr allocate_registered(void)
{
	uint64_t before = own("registrations_background");
	CUdeviceptr memory = allocate(UNIT);

	until(own("registrations_background") > before);
	require(dma_bufs() == 2);
	return memory;
}

static void an_export_of_registered_memory_needs_no_driver(unsigned int unused)
{
	const uint64_t written = 0x1122334455667788;
	struct stat first, second;
	CUdeviceptr memory;
	struct ibv_mr *mr;
	uint64_t read = 0;

	(void)unused;
	activate_by_dma_buf();
	memory = allocate_registered();
	first = exported(memory);
	second = exported(memory);
	require(first.st_ino == second.st_ino && own("exports_ready") == 2 && own("exports") == 3);
	mr = registered_by_dma_buf(memory);
	require(own("hits") == 1 && own("forwarded") == 0 && sim("live") == 2);
	require_cuda(cuMemcpyHtoD_v2(memory + 64, &written, sizeof(written)));
	require(!sim_adapter_read(device, mr->rkey, memory + 64, &read, sizeof(read)));
	require(read == written && !ibv_dereg_mr(mr) && dma_bufs() == 2);
	require_cuda(cuMemFree_v2(memory));
	require(dma_bufs() == 1 && sim("live") == 1 && own("internal_errors") == 0);
}

/* ---- hosts with NVLink-C2C ---- */

enum { PLAIN, OVER_PCIE }; /* flags of exports, and the adapter's answers */

static bool is_mapped(const struct ibv_mr *mr, int expected)
{
	return sim_adapter_mapping(device, mr->lkey) == expected;
}

static struct ibv_mr *registered_over(int flags, CUdeviceptr memory)
{
	mapping = (unsigned int)flags;
	return registered_by_dma_buf(memory);
}

/* Two clients in one protection domain: one as libfabric on such a host, one that uses the other
 * path, by dma-buf and by address. */
static void each_mapping_is_served_by_its_own_regions(unsigned int by_address_first)
{
	enum { ROUNDS = 20 };
	struct ibv_mr *pcie, *plain, *by_address;
	CUdeviceptr memory;
	uint64_t hits;

	set_up();
	for (int i = 0; i < ROUNDS; i++) {
		memory = allocate(UNIT);
		if (by_address_first)
			require(!ibv_dereg_mr(registered(memory)));
		pcie = registered_over(OVER_PCIE, memory);
		plain = registered_over(PLAIN, memory);
		by_address = registered(memory);
		require(is_mapped(pcie, OVER_PCIE) && is_mapped(plain, PLAIN) &&
			by_address->lkey == plain->lkey);
		hits = own("hits");
		require(!ibv_dereg_mr(pcie));
		pcie = registered_over(OVER_PCIE, memory);
		require(is_mapped(pcie, OVER_PCIE) && own("hits") == hits + 1);
		require(!ibv_dereg_mr(pcie) && !ibv_dereg_mr(plain) && !ibv_dereg_mr(by_address));
		require_cuda(cuMemFree_v2(memory));
	}
	/* Regions of the worker, and exports of them. */
	memory = allocate(UNIT);
	for (int i = PLAIN; i <= OVER_PCIE; i++) {
		mapping = (unsigned int)i;
		until(is_answered(memory));
		hits = own("hits");
		pcie = registered_over(i, memory);
		require(is_mapped(pcie, i) && own("hits") == hits + 1 && !ibv_dereg_mr(pcie));
	}
	require(own("forwarded") == 0 && own("internal_errors") == 0);
}

static void errors_of_an_export_are_the_driver_s(unsigned int unused)
{
	CUdeviceptr memory;
	int fd = 77;

	(void)unused;
	activate_by_dma_buf();
	memory = allocate_registered();
	require(is_answered(memory));
	require(cuMemGetHandleForAddressRange(NULL, memory, UNIT,
					      CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					      0) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemGetHandleForAddressRange(&fd, memory, UNIT, 2, 0) == CUDA_ERROR_INVALID_VALUE);
	require(cuMemGetHandleForAddressRange(&fd, memory, UNIT,
					      CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					      1) == CUDA_ERROR_NOT_SUPPORTED);
	require_cuda(cuCtxSetCurrent(NULL));
	require(export(&fd, memory) == CUDA_ERROR_INVALID_CONTEXT);
	require_cuda(cuCtxSetCurrent(context));
	require(fd == 77 && own("exports_ready") == 1 && is_answered(memory));
	require_cuda(cuMemFree_v2(memory));
	require(export(&fd, memory) == CUDA_ERROR_INVALID_VALUE);
}

#define ALL  "PEERPIN_PREREGISTER=auto"
#define SYNC "PEERPIN_PREREGISTER=eager"
#define C2C  " PEERPIN_SIM_C2C=1"

const struct test export_tests[] = {
	TEST(an_export_of_registered_memory_needs_no_driver, 0, ALL),
	TEST(an_export_of_registered_memory_needs_no_driver, 0, SYNC),
	TEST(each_mapping_is_served_by_its_own_regions, 0, ALL C2C),
	TEST(each_mapping_is_served_by_its_own_regions, 1, ALL C2C),
	TEST(each_mapping_is_served_by_its_own_regions, 1, SYNC C2C),
	TEST(errors_of_an_export_are_the_driver_s, 0, SYNC),
	{ .name = NULL },
};
