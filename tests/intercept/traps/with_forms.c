/* SPDX-License-Identifier: BSD-3-Clause */
/* with_forms.c -- traps of registrations (a to p of check_traps.sh), on a
 * kernel that records requests */
#include <unistd.h>

#include "forms.h"

struct ibv_context *device;
struct ibv_pd *pd;
CUcontext context;

/* As NCCL: each function by name and version, whole pages, MRs distinguished by address. */
static void nccl(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);
	__typeof__(ibv_reg_mr_iova2) *reg =
		(__typeof__(reg))dlvsym(library, "ibv_reg_mr_iova2", "IBVERBS_1.8");
	__typeof__(ibv_reg_dmabuf_mr) *reg_dmabuf =
		(__typeof__(reg_dmabuf))dlvsym(library, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");
	__typeof__(ibv_dereg_mr) *dereg =
		(__typeof__(dereg))dlvsym(library, "ibv_dereg_mr", "IBVERBS_1.1");
	CUdeviceptr address = allocate(), page = address + 4096;
	unsigned int requests = standin_counts.requests;
	int file = export_range(page, 65536);
	struct ibv_mr *slots[8];
	bool kept = PART(reg && reg_dmabuf && dereg);

	for (int i = 0; kept && i < 8; i++) {
		slots[i] = i % 2 ? reg_dmabuf(pd, 4096, 8192, page + 4096, file, ACCESS)
				 : reg(pd, (void *)page, 65536, page, ACCESS);
		kept &= PART(slots[i]) && PART(slots[i]->lkey == slots[0]->lkey);
		for (int j = 0; j < i; j++)
			kept &= PART(slots[i] != slots[j]);
	}
	kept &= PART(standin_counts.requests == requests + 1);
	for (int i = 0; kept && i < 8; i++)
		kept &= PART(!dereg(slots[i])) && PART(standin_kernel_regions() == 1);
	trap("NCCL",
	     "who looks everything up by name and version is served and deregisters as anybody",
	     kept);
	cuMemFree_v2(address);
}

static void left_alone(void)
{
	CUdeviceptr address = allocate();
	int file = export_range(address, SIZE);
	struct ibv_mr *mr, *by_file;
	bool kept;

	errno = 12345;
	mr = request(address, ACCESS);
	kept = PART(errno == 12345);
	by_file = ibv_reg_dmabuf_mr(pd, 0, SIZE, address, file, ACCESS);
	kept &= PART(errno == 12345) && PART(!ibv_dereg_mr(mr)) && PART(!ibv_dereg_mr(by_file)) &&
		PART(errno == 12345) && PART(statistic("hits"));
	trap("errno", "is left as it was by what is served", kept);
	close(file);
	cuMemFree_v2(address);
}

int main(void)
{
	CUdevice gpu;

	if (cuInit(0) || cuDeviceGet(&gpu, 0) || cuCtxCreate_v2(&context, 0, gpu))
		return 99;
	ibv_fork_init();
	device = standin_open_device();
	pd = ibv_alloc_pd(device);
	probes();
	other_access_flags();
	other_ranges();
	other_files();
	export_and_end();
	numbers_come_back();
	changes();
	recursion();
	nccl();
	left_alone();
	room_made();
	other_attributes();
	other_calls();
	return 0;
}
