/* SPDX-License-Identifier: BSD-3-Clause */
/* dma_buf.c -- registration of GPU memory by a dma-buf
 *
 * The driver exports the range as a file descriptor, from which the adapter's kernel driver takes
 * the pages. The descriptor is closed at once, unless its region keeps it (ready_exports.c); the
 * registration holds the memory. The thread's current context, capture mode and errno are restored.
 *
 * The program may close the descriptor meanwhile and reuse its number (base/held_file.h), even for
 * a dma-buf of other memory. A number that is the export's before and after the registration was
 * the export's throughout: the export cannot be opened a second time. A private descriptor table of
 * the worker is no remedy: it would hold the program's files open after their close.
 *
 * The driver exports only while a context of the device is current (measured). An allocation with a
 * context is exported in that context. Other memory is exported in the thread's current context,
 * else in the device's primary context. Only the program creates a primary context.
 */
#include <errno.h>

#include "base/atomics.h"
#include "base/kernel.h"
#include "base/process.h"
#include "base/system.h"
#include "memory/driver.h"
#include "registration/methods.h"
#include "report/errors.h"

/* ---- open dma-bufs ----
 *
 * A dma-buf keeps freed memory allocated, and a child may live as long as the job: it closes those
 * that are open when it is forked, by this table. The thread that opened a descriptor is the only
 * one to store its file, and removes it by comparison: the program may have closed the descriptor,
 * so that another dma-buf has its number.
 */

static struct {
	_Atomic dev_t device;
	_Atomic ino_t inode; /* 0: none; stored after `device` */
} dma_bufs[DMA_BUF_DESCRIPTORS];
static _Atomic int dma_bufs_end; /* greater than each descriptor in the table */

static void dma_buf_close_in_child(void)
{
	struct held_file file;

	for (int fd = 0; fd < load_relaxed(&dma_bufs_end); fd++) {
		file.fd = fd;
		file.inode = load_acquire(&dma_bufs[fd].inode);
		file.device = load_relaxed(&dma_bufs[fd].device);
		held_file_close(&file);
	}
}

/* Threads that do this at the same time register the handler twice, which is harmless. */
void dma_buf_expect_forks(void)
{
	static _Atomic bool expected;

	if (load_relaxed(&expected))
		return;
	system_at_fork(dma_buf_close_in_child);
	store_relaxed(&expected, true);
}

struct held_file dma_buf_opened(int fd)
{
	struct held_file file = held_file_of(fd);
	int end = load_relaxed(&dma_bufs_end);

	if (file.fd < 0 || file.fd >= DMA_BUF_DESCRIPTORS)
		return file;
	while (end <= file.fd && !replace_seq_cst(&dma_bufs_end, &end, file.fd + 1))
		;
	store_relaxed(&dma_bufs[file.fd].device, file.device);
	store_release(&dma_bufs[file.fd].inode, file.inode);
	return file;
}

void dma_buf_close(struct held_file *file)
{
	int fd = file->fd;
	ino_t inode = file->inode;

	held_file_close(file);
	if (fd >= 0 && fd < DMA_BUF_DESCRIPTORS)
		replace_seq_cst(&dma_bufs[fd].inode, &inode, 0);
}

/* ---- the export ---- */

static CUresult dma_buf_export_here(const struct pin_request *request, int *fd)
{
	const struct driver_calls *driver = driver_calls();

	if (!driver->cuMemGetHandleForAddressRange)
		return CUDA_ERROR_NOT_SUPPORTED;
	return driver->cuMemGetHandleForAddressRange(
		fd, request->base, request->length, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
		request->pcie ? CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE : 0);
}

static bool dma_buf_is_current(CUcontext context)
{
	const struct driver_calls *driver = driver_calls();
	CUcontext current = NULL;

	return driver->cuCtxGetCurrent && driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
	       current == context;
}

/* Pops the pushed context. The context below becomes current again, as before the push, even if it
 * was destroyed meanwhile. */
static void dma_buf_pop_context(CUcontext pushed)
{
	const struct driver_calls *driver = driver_calls();
	CUcontext popped;

	/* The pop may fail if the pushed context was destroyed meanwhile. cuCtxSetCurrent(NULL)
	 * pops a context, too. */
	if (driver->cuCtxPopCurrent_v2 && driver->cuCtxPopCurrent_v2(&popped) != CUDA_SUCCESS &&
	    dma_buf_is_current(pushed) && driver->cuCtxSetCurrent)
		driver->cuCtxSetCurrent(NULL);
}

static CUresult dma_buf_export_in(CUcontext context, const struct pin_request *request, int *fd)
{
	const struct driver_calls *driver = driver_calls();
	CUresult result;

	if (dma_buf_is_current(context))
		return dma_buf_export_here(request, fd);
	if (!driver->cuCtxPushCurrent_v2 || !driver->cuCtxPopCurrent_v2)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = driver->cuCtxPushCurrent_v2(context);
	if (result != CUDA_SUCCESS)
		return result;
	result = dma_buf_export_here(request, fd);
	dma_buf_pop_context(context);
	return result;
}

static CUresult dma_buf_export_in_primary(const struct pin_request *request, int *fd)
{
	const struct driver_calls *driver = driver_calls();
	CUcontext context = NULL;
	CUresult result;

	if (!driver->cuDevicePrimaryCtxRetain || !driver->cuDevicePrimaryCtxRelease_v2 ||
	    !driver_primary_is_active(request->device))
		return CUDA_ERROR_INVALID_CONTEXT;
	result = driver->cuDevicePrimaryCtxRetain(&context, request->device);
	if (result != CUDA_SUCCESS)
		return result;
	result = dma_buf_export_in(context, request, fd);
	if (own_thread_is_done())
		return result;
	driver->cuDevicePrimaryCtxRelease_v2(request->device);
	/* The program may have released its own last reference meanwhile. Then this release was the
	 * last one, and the driver has freed all allocations of the context. */
	if (!driver_primary_is_active(request->device))
		memory_context_released(context);
	return result;
}

static bool dma_buf_is_context_error(CUresult result)
{
	return result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult dma_buf_export_in_any(const struct pin_request *request, int *fd)
{
	const struct driver_calls *driver = driver_calls();
	CUresult result = CUDA_ERROR_INVALID_CONTEXT;
	CUdevice device;

	if (request->context)
		return dma_buf_export_in(request->context, request, fd);
	if (driver->cuCtxGetDevice && driver->cuCtxGetDevice(&device) == CUDA_SUCCESS &&
	    device == request->device)
		result = dma_buf_export_here(request, fd);
	/* Another thread may have destroyed the current context. */
	return dma_buf_is_context_error(result) ? dma_buf_export_in_primary(request, fd) : result;
}

static int dma_buf_error_of(CUresult result)
{
	switch (result) {
	case CUDA_ERROR_OUT_OF_MEMORY:
		return -ENOMEM;
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
		return PINNING_NO_CONTEXT;
	case CUDA_ERROR_NOT_SUPPORTED:
		return -EOPNOTSUPP;
	case CUDA_ERROR_INVALID_VALUE:
		return -EINVAL;
	default:
		return -EIO;
	}
}

static CUresult dma_buf_export_range(const struct pin_request *request, int *fd)
{
	CUstreamCaptureMode mode;
	CUresult result;
	bool relaxed;

	if (request->base % PAGE || request->length % PAGE)
		return CUDA_ERROR_INVALID_VALUE;
	relaxed = driver_relax_capture(&mode);
	result = dma_buf_export_in_any(request, fd);
	driver_restore_capture(relaxed, &mode);
	return result;
}

/* ---- the registration ---- */

static int dma_buf_register_range(const struct pin_request *request, int fd, uint64_t offset,
				  struct pin_result *result)
{
	const struct verbs_calls *verbs = verbs_calls();
	int error = EOPNOTSUPP;

	if (verbs->ibv_reg_dmabuf_mr) {
		errno = 0;
		own_call_begin();
		result->mr = verbs->ibv_reg_dmabuf_mr(request->pd, offset, request->length,
						      request->base, fd, request->access);
		own_call_end();
		if (result->mr)
			return 0;
		error = errno ? errno : EIO;
	}
	result->failure = errors_look_up(ERRORS_REG_DMABUF, error);
	return -error;
}

static int dma_buf_register_own(const struct pin_request *request, const struct held_file *file,
				uint64_t offset, struct pin_result *result)
{
	int changed = held_file_check(file), error;

	if (!changed) {
		error = dma_buf_register_range(request, file->fd, offset, result);
		changed = held_file_check(file);
		if (!changed)
			return error;
		if (!error)
			own_call_deregister(result->mr);
		result->mr = NULL;
	}
	result->failure =
		errors_look_up(changed == -EBADF ? ERRORS_REG_DMABUF : ERRORS_FSTAT, -changed);
	return changed == -EBADF ? -EAGAIN : changed;
}

static int dma_buf_export_and_register(const struct pin_request *request, struct pin_result *result)
{
	struct held_file file;
	int fd = -1, error;
	CUresult exported = dma_buf_export_range(request, &fd);

	if (exported != CUDA_SUCCESS) {
		result->failure = errors_look_up(ERRORS_EXPORT, (int)exported);
		return dma_buf_error_of(exported);
	}
	file = dma_buf_opened(fd);
	error = dma_buf_register_own(request, &file, 0, result);
	dma_buf_close(&file);
	return error;
}

/* The worker's own dma-buf, as its source. */
void dma_buf_prepare(struct pin_request *request)
{
	int saved_errno = errno, fd = -1;
	struct held_file file = { .fd = -1 };

	if (dma_buf_export_range(request, &fd) == CUDA_SUCCESS)
		file = dma_buf_opened(fd);
	if (file.fd >= 0)
		request->source = (struct dma_buf){ file, request->base, request->length };
	errno = saved_errno;
}

/* A client's own dma-buf of the range saves a second export. Its pages are those of the range now:
 * each granule holds a part of the requested allocation, which has been live since before the
 * client's export. */
int dma_buf_pin(const struct pin_request *request, struct pin_result *result)
{
	const struct dma_buf *source = &request->source;
	uint64_t offset = request->base - source->base;
	int saved_errno = errno;
	int error = -EBADF;

	if (offset < source->length && request->length <= source->length - offset)
		error = source->file.inode
				? dma_buf_register_own(request, &source->file, offset, result)
				: dma_buf_register_range(request, source->file.fd, offset, result);
	result->from_source = !error;
	if (error && error != -ENOMEM)
		error = dma_buf_export_and_register(request, result);
	errno = saved_errno;
	return error;
}

/* All access flags that a dma-buf registration accepts (ibv_reg_mr(3)). */
#define DMA_BUF_ACCESS_FLAGS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING)

bool dma_buf_accepts(const struct pin_request *request)
{
	return !(request->access & ~DMA_BUF_ACCESS_FLAGS);
}

/* An adapter with dma-buf support checks the descriptor and fails with EBADF; others reject the
 * call itself. */
static bool dma_buf_is_supported_by_adapter(struct ibv_pd *pd)
{
	const struct verbs_calls *verbs = verbs_calls();
	struct ibv_mr *mr;
	bool found;

	errno = 0;
	if (!verbs->ibv_reg_dmabuf_mr)
		return false;
	own_call_begin();
	mr = verbs->ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, 0);
	found = !mr && errno == EBADF;
	/* Do not trust an adapter that registers the descriptor -1. */
	if (mr && verbs->ibv_dereg_mr)
		verbs->ibv_dereg_mr(mr);
	own_call_end();
	return found;
}

struct method_support dma_buf_probe(const struct pin_request *request)
{
	const char *missing = NULL;

	if (!driver_calls()->cuMemGetHandleForAddressRange)
		missing = "the GPU's driver is too old for dma-buf";
	else if (!driver_device_has(request->device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED))
		missing = "the GPU's driver does not support dma-buf";
	else if (!verbs_calls()->ibv_reg_dmabuf_mr)
		missing = "libibverbs is too old for dma-buf";
	else if (!dma_buf_is_supported_by_adapter(request->pd))
		missing = "the adapter does not support dma-buf";
	return (struct method_support){ .possible = !missing,
					.expected = !missing,
					.expected_vmm = !missing,
					.text = missing ? missing : "GPU and adapter support it" };
}
