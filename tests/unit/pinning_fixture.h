/* SPDX-License-Identifier: BSD-3-Clause */
/* pinning_fixture.h -- simulated driver with contexts and dma-bufs, simulated adapter that
 * registers them
 *
 * Both fail as configured and change errno, as real ones do. pin() requests a registration and
 * checks that the thread's state is unchanged: current context, capture mode, errno, descriptors.
 */
#ifndef PEERPIN_TESTS_PINNING_FIXTURE_H
#define PEERPIN_TESTS_PINNING_FIXTURE_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "registration/methods.h"
#include "registration/pinning.h"
#include "report/statistics.h"
#include "contexts_fixture.h"
#include "sysfs_fixture.h"

#define HOME   ((uint64_t)0x7f1200000000)
#define BLOCK  ((uint64_t)2 << 20)
#define RIGHTS 0xf
#define ERRNO  77

/* ---- driver ---- */

static struct CUctx_st own, other, of_other_device, primary;
static unsigned int retains; /* of the primary context, the program's among them */

static struct {
	_Atomic int dma_buf, peer, peer_mapped; /* attributes of the GPU */
	_Atomic unsigned int exports, exports_over_pcie;
	CUresult result;      /* of exports */
	void (*during)(void); /* called during an export */
} gpu;

static CUresult set_current(CUcontext context)
{
	depth -= depth > 0;
	return context ? push(context) : CUDA_SUCCESS;
}

static CUresult get_state(CUdevice device, unsigned int *flags, int *active)
{
	ck_assert_int_eq(device, 0);
	*flags = 0;
	*active = primary.alive;
	return CUDA_SUCCESS;
}

static CUresult retain(CUcontext *context, CUdevice device)
{
	ck_assert_int_eq(device, 0);
	retains++;
	primary.alive = true;
	*context = &primary;
	return CUDA_SUCCESS;
}

static CUresult release(CUdevice device)
{
	ck_assert_int_eq(device, 0);
	if (!--retains)
		primary.alive = false;
	return CUDA_SUCCESS;
}

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)device;
	standin_called();
	errno = EIO;
	*value = attribute == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED	      ? gpu.dma_buf
		 : attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED ? gpu.peer
									      : gpu.peer_mapped;
	return CUDA_SUCCESS;
}

static CUresult export_range(void *handle, CUdeviceptr address, size_t size,
			     CUmemRangeHandleType type, unsigned long long flags)
{
	standin_called();
	errno = EIO;
	gpu.exports++;
	ck_assert(capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
		  !standin_driver.cuThreadExchangeStreamCaptureMode);
	ck_assert_int_eq(type, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
	ck_assert_uint_le(flags, CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE);
	gpu.exports_over_pcie += flags != 0;
	ck_assert_uint_eq(address % 4096 + size % 4096, 0);
	if (!current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!current()->alive)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	ck_assert_int_eq(current()->device, 0);
	if (gpu.during)
		gpu.during();
	if (gpu.result == CUDA_SUCCESS)
		*(int *)handle = memfd_create("dma-buf", MFD_CLOEXEC);
	return gpu.result;
}

/* ---- adapter ---- */

static char name[] = "mlx5_7";
static struct ibv_context adapter = { (struct ibv_device *)name }, second_adapter;
static struct ibv_pd pd = { .context = &adapter, .handle = 1 };
static struct ibv_pd second_pd = { .context = &second_adapter, .handle = 1 };
static __thread const struct ibv_pd *pd_alone; /* of a device that this thread alone has open */

static struct {
	_Atomic int probe, dma_buf, peer; /* errno of each; 0: it works */
	_Atomic unsigned int probes, dma_bufs, sources, peers, ended;
	_Atomic int access;
	int end_error;
	unsigned int end_errors; /* failures before success; 0: always fails */
	void (*during)(int fd);	 /* called during a registration of a dma-buf */
} nic;

/* Negative: fails with errno 0. */
static struct ibv_mr *answer(int error)
{
	static struct ibv_mr mr;

	errno = error > 0 ? error : error ? 0 : EBADF; /* errno is undefined after success */
	return error ? NULL : &mr;
}

static struct pin_request request;
static int source_fd = -2; /* the client's own dma-buf */

static struct ibv_mr *register_dma_buf(struct ibv_pd *in, uint64_t offset, size_t length,
				       uint64_t iova, int fd, int access)
{
	standin_called();
	ck_assert(registration_is_own_call());
	ck_assert_uint_eq(offset, fd == source_fd ? HOME - request.source.base : 0);
	nic.sources += fd == source_fd;
	if (fd == -1) {
		nic.probes++;
		ck_assert_uint_eq(length, 4096);
		return answer(nic.probe);
	}
	nic.dma_bufs++;
	ck_assert(in == &pd || in == &second_pd || in == pd_alone);
	ck_assert_uint_eq(length, BLOCK);
	ck_assert_uint_eq(iova, HOME);
	ck_assert_int_eq(access, RIGHTS);
	ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
	if (nic.during)
		nic.during(fd);
	return answer(nic.dma_buf);
}

static struct ibv_mr *register_peer(struct ibv_pd *in, void *address, size_t length, uint64_t iova,
				    unsigned int access)
{
	standin_called();
	ck_assert(registration_is_own_call());
	ck_assert(in == &pd || in == &second_pd || in == pd_alone);
	ck_assert_ptr_eq(address, (void *)HOME);
	ck_assert_uint_eq(length, BLOCK);
	ck_assert_uint_eq(iova, HOME);
	nic.peers++;
	nic.access = (int)access;
	return answer(nic.peer);
}

static int deregister(struct ibv_mr *mr)
{
	int error = nic.end_error;

	standin_called();
	ck_assert(registration_is_own_call());
	ck_assert_ptr_nonnull(mr);
	nic.ended++;
	errno = EIO;
	if (nic.end_errors && !--nic.end_errors)
		nic.end_error = 0;
	return error;
}

static const char *adapter_name(struct ibv_device *device)
{
	return (const char *)device;
}

/* ---- a request ---- */

static unsigned int descriptors(void)
{
	unsigned int open = 0;

	for (int fd = 0; fd < 256; fd++)
		open += fcntl(fd, F_GETFD) >= 0;
	return open;
}

static struct pin_result pinned; /* by the last call */

static int pin_by(int (*by)(const struct pin_request *request, struct pin_result *result),
		  const struct pin_request *request)
{
	CUstreamCaptureMode mode_before = capture_mode;
	unsigned int open_before = descriptors(), depth_before = depth;
	CUcontext before = current();
	int error;

	pinned = (struct pin_result){ .mr = NULL };
	errno = ERRNO;
	error = by(request, &pinned);
	ck_assert_int_eq(errno, ERRNO);
	ck_assert_uint_eq(descriptors(), open_before);
	ck_assert_uint_eq(depth, depth_before);
	ck_assert_ptr_eq(current(), before);
	ck_assert_int_eq(capture_mode, mode_before);
	ck_assert(!registration_is_own_call());
	ck_assert(error <= 0);
	ck_assert(!error == (pinned.mr != NULL));
	return error;
}

static struct pin_request request = { .pd = &pd, .base = HOME, .length = BLOCK, .access = RIGHTS };

static int pin(CUcontext context)
{
	request.context = context;
	return pin_by(pinning_pin, &request);
}

/* Everything works, dma-buf first; the thread has no current context. */
static void set_up(void)
{
	standin_reset();
	registration_forced_method = NULL;
	sysfs_begin();
	sysfs_make_file("module/nvidia_peermem/version", "580.1\n");
	pinning_device_closed(&adapter);
	pinning_device_closed(&second_adapter);
	own = other = primary = (struct CUctx_st){ .alive = true };
	of_other_device = (struct CUctx_st){ .device = 1, .alive = true };
	set_up_contexts();
	retains = 1;
	capture_mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
	memset(&gpu, 0, sizeof(gpu));
	gpu.dma_buf = gpu.peer = gpu.peer_mapped = 1;
	memset(&nic, 0, sizeof(nic));
	nic.probe = EBADF;
	request = (struct pin_request){
		.pd = &pd, .base = HOME, .length = BLOCK, .access = RIGHTS, .own_blocks = true
	};
	standin_driver.cuCtxSetCurrent = set_current;
	standin_driver.cuDevicePrimaryCtxGetState = get_state;
	standin_driver.cuDevicePrimaryCtxRetain = retain;
	standin_driver.cuDevicePrimaryCtxRelease_v2 = release;
	standin_driver.cuDeviceGetAttribute = get_attribute;
	standin_driver.cuMemGetHandleForAddressRange = export_range;
	standin_verbs.ibv_reg_dmabuf_mr = register_dma_buf;
	standin_verbs.ibv_reg_mr_iova2 = register_peer;
	standin_verbs.ibv_dereg_mr = deregister;
	standin_verbs.ibv_get_device_name = adapter_name;
}

static void tear_down(void)
{
	sysfs_end();
}

#endif
