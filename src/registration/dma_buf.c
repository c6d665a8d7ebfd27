/* SPDX-License-Identifier: BSD-3-Clause */
/* dma_buf.c -- registers GPU memory by a dma-buf of it
 *
 * The driver exports the range as a descriptor, the adapter's driver in the kernel takes what it needs of that, and the
 * descriptor is closed at once: the registration alone holds the memory then. The thread is left as it came: its
 * current context, its capture mode, errno.
 *
 * The driver exports only where a context of the device is current (measured): the allocation's own one; for memory
 * that has none the thread's current one, or else the primary context, which the program has made and nobody here
 * brings to life.
 */
#include <errno.h>

#include "base/errors.h"
#include "base/kernel.h"
#include "memory/driver.h"
#include "registration/own_calls.h"
#include "registration/pinning.h"

#define PAGE 4096

static CUresult export_here(const struct pin_request *request, int *fd)
{
	return driver_calls()->cuMemGetHandleForAddressRange(fd, request->base, request->length,
							     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

static bool is_current(CUcontext context)
{
	const struct driver_calls *driver = driver_calls();
	CUcontext current = NULL;

	return driver->cuCtxGetCurrent && driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
	       current == context;
}

/* Takes what was pushed off again. What is below it was current before, and is so again, even if it has been destroyed. */
static void pop(CUcontext pushed)
{
	const struct driver_calls *driver = driver_calls();
	CUcontext popped;

	/* It may have been destroyed meanwhile; no context at all takes one off, too. */
	if (driver->cuCtxPopCurrent_v2(&popped) != CUDA_SUCCESS && driver->cuCtxSetCurrent &&
	    is_current(pushed))
		driver->cuCtxSetCurrent(NULL);
}

static CUresult export_in(CUcontext context, const struct pin_request *request, int *fd)
{
	const struct driver_calls *driver = driver_calls();
	CUresult result;

	if (is_current(context))
		return export_here(request, fd);
	if (!driver->cuCtxPushCurrent_v2 || !driver->cuCtxPopCurrent_v2)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = driver->cuCtxPushCurrent_v2(context);
	if (result != CUDA_SUCCESS)
		return result;
	result = export_here(request, fd);
	pop(context);
	return result;
}

static bool is_active(int device)
{
	const struct driver_calls *driver = driver_calls();
	unsigned int flags;
	int active = 0;

	return driver->cuDevicePrimaryCtxGetState &&
	       driver->cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active;
}

static CUresult export_in_primary(const struct pin_request *request, int *fd)
{
	const struct driver_calls *driver = driver_calls();
	CUcontext context = NULL;
	CUresult result;

	if (!driver->cuDevicePrimaryCtxRetain || !driver->cuDevicePrimaryCtxRelease_v2 ||
	    !is_active(request->device))
		return CUDA_ERROR_INVALID_CONTEXT;
	result = driver->cuDevicePrimaryCtxRetain(&context, request->device);
	if (result != CUDA_SUCCESS)
		return result;
	result = export_in(context, request, fd);
	driver->cuDevicePrimaryCtxRelease_v2(request->device);
	/* The program may have released its own last one meanwhile: then this was the last, and the driver has ended all
	 * that was allocated in the context. */
	if (!is_active(request->device))
		memory_context_released(context);
	return result;
}

static bool is_about_context(CUresult result)
{
	return result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult export_somewhere(const struct pin_request *request, int *fd)
{
	const struct driver_calls *driver = driver_calls();
	CUresult result = CUDA_ERROR_INVALID_CONTEXT;
	CUdevice device;

	if (request->context)
		return export_in(request->context, request, fd);
	if (driver->cuCtxGetDevice && driver->cuCtxGetDevice(&device) == CUDA_SUCCESS &&
	    device == request->device)
		result = export_here(request, fd);
	/* A current context may have been destroyed, by another thread. */
	return is_about_context(result) ? export_in_primary(request, fd) : result;
}

static int error_of(CUresult result)
{
	switch (result) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return -ENOMEM;
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
		return DMA_BUF_NO_CONTEXT;
	case CUDA_ERROR_NOT_SUPPORTED:
		return -EOPNOTSUPP;
	case CUDA_ERROR_INVALID_VALUE:
		return -EINVAL;
	default:
		return -EIO;
	}
}

static int export_range(const struct pin_request *request, int *fd)
{
	CUstreamCaptureMode mode;
	CUresult result;
	bool relaxed;

	if (!driver_calls()->cuMemGetHandleForAddressRange) {
		result = CUDA_ERROR_NOT_SUPPORTED;
	} else if (request->base % PAGE || request->length % PAGE) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else {
		relaxed = driver_relax_capture(&mode);
		result = export_somewhere(request, fd);
		driver_restore_capture(relaxed, &mode);
	}
	if (result != CUDA_SUCCESS)
		errors_note(ERRORS_EXPORT, (int)result);
	return error_of(result);
}

static int register_range(const struct pin_request *request, int fd, struct ibv_mr **mr)
{
	const struct verbs_calls *verbs = verbs_calls();
	int error = EOPNOTSUPP;

	if (verbs->ibv_reg_dmabuf_mr) {
		errno = 0;
		own_call_begin();
		*mr = verbs->ibv_reg_dmabuf_mr(request->pd, 0, request->length, request->base, fd,
					       request->access);
		own_call_end();
		if (*mr)
			return 0;
		error = errno ? errno : EIO;
	}
	errors_note(ERRORS_REG_DMABUF, error);
	return -error;
}

static int pin(const struct pin_request *request, struct ibv_mr **mr)
{
	int saved_errno = errno;
	int fd = -1;
	int error = export_range(request, &fd);

	if (!error)
		error = register_range(request, fd, mr);
	if (fd >= 0)
		kernel_close(fd);
	errno = saved_errno;
	return error;
}

const struct registration_backend dma_buf_backend = {
	.name = "dma-buf",
	.pin = pin,
	.unpin = pinning_unpin,
};
