/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_context.c -- ends of contexts, which free the memory allocated in them
 *
 * If peerpin can determine the ending allocations beforehand, registrations are removed first, as
 * for a free. Only the driver detects the last detach and the end of the last green context: there
 * peerpin queries the driver afterwards. This is safe: the kernel keeps the pages of a registration
 * until its deregistration.
 */
#include "intercept/wrappers.h"
#include "memory/driver.h"
#include "registration/registration.h"

static CUresult cuda_context_settle(struct pending_frees *frees, CUresult result)
{
	memory_frees_settled(frees, result != CUDA_SUCCESS);
	return result;
}

static void cuda_context_end_unreported(void)
{
	memory_end_unreported();
	if (keep_is_on())
		keep_forget_ended();
}

/* Kept memory of the context is released first: its end frees the rest. */
static struct pending_frees *cuda_context_ending(CUcontext context)
{
	if (context && keep_is_on())
		keep_release_context(context);
	return memory_context_freeing(context);
}

/* Handle of a device's primary context, or NULL if inactive. A retain is the only call that returns
 * the handle; the release undoes exactly this retain. */
static CUcontext cuda_context_primary(CUdevice device)
{
	const struct driver_calls *driver = driver_calls();
	CUcontext context = NULL;

	if (!driver->cuDevicePrimaryCtxRetain || !driver->cuDevicePrimaryCtxRelease_v2 ||
	    !driver_primary_is_active(device))
		return NULL;
	if (driver->cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
		return NULL;
	driver->cuDevicePrimaryCtxRelease_v2(device);
	if (!driver_primary_is_active(device)) /* may be the last retain by now */
		cuda_context_end_unreported();
	return context;
}

/* Primary contexts are included: drivers may accept this call for them (no document excludes it),
 * and registrations must not outlive their memory. */
static struct pending_frees *cuda_context_before_destroy(CUcontext context)
{
	return process_is_passive() ? NULL : cuda_context_ending(context);
}

/* memory_context_released() ends allocations made after memory_context_freeing(): the context's end
 * freed them too. */
static CUresult cuda_context_after_destroy(struct pending_frees *frees, CUcontext context,
					   CUresult result)
{
	if (result == CUDA_SUCCESS && !process_is_passive()) {
		memory_context_released(context);
		if (keep_is_on())
			keep_forget_ended();
	}
	return cuda_context_settle(frees, result);
}

WRAP(cuCtxDestroy_v2, (context), CUcontext context)
{
	struct pending_frees *frees = cuda_context_before_destroy(context);

	return cuda_context_after_destroy(frees, context, forward(context));
}

WRAP_LIKE(cuCtxDestroy, cuCtxDestroy_v2, (context), CUcontext context)

WRAP(cuCtxDetach, (context), CUcontext context)
{
	CUresult result = forward(context);

	if (!process_is_passive())
		cuda_context_end_unreported();
	return result;
}

static struct pending_frees *cuda_context_before_reset(CUdevice device)
{
	return process_is_passive() ? NULL : cuda_context_ending(cuda_context_primary(device));
}

/* The driver decides whether memory without a context (pools, mappings) outlives the context, and
 * which allocations another thread has made since. */
static CUresult cuda_context_after_reset(struct pending_frees *frees, CUresult result)
{
	if (result == CUDA_SUCCESS && !process_is_passive())
		cuda_context_end_unreported();
	return cuda_context_settle(frees, result);
}

WRAP(cuDevicePrimaryCtxReset_v2, (device), CUdevice device)
{
	struct pending_frees *frees = cuda_context_before_reset(device);

	return cuda_context_after_reset(frees, forward(device));
}

WRAP_LIKE(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, (device), CUdevice device)

/* ---- retains and releases of primary contexts ----
 *
 * The last release frees the memory of the context. The driver does not report the number of
 * retains, so peerpin counts. The count can be too low: the driver itself retains the context for
 * green contexts, the CUDA runtime has private calls, and callers bypass peerpin. Therefore a
 * release that seems to be the last ends beforehand only memory that no client uses, and kept
 * memory. If the context goes on, the memory is recorded and registered again. Memory in use, and
 * all memory where other retains were found, ends after the call. Nothing is counted for ordinals
 * from DEVICES_MAX on.
 */

/* Parts of `state`: successful retains without a release (a reset leaves them), retains in
 * progress, releases in progress. A retain counts after the driver's success, and a release before
 * the call: the count is never too high. */
#define RETAINED  ((uint64_t)1)
#define RETAINING ((uint64_t)1 << 32)
#define RELEASING ((uint64_t)1 << 48)

static struct primary {
	_Atomic uint64_t state;
	_Atomic unsigned int begun;    /* retains so far */
	_Atomic unsigned int releases; /* that seemed to be the last */
	_Atomic bool exact;	       /* inactive before the first retain: no others */
	_Atomic(CUcontext) context;    /* the handle survives a reset (measured) */
} primaries[DEVICES_MAX];

/* NULL: not counted. */
static struct primary *cuda_context_counted(CUdevice device)
{
	return device < 0 || device >= DEVICES_MAX || process_is_passive() ? NULL
									   : &primaries[device];
}

WRAP(cuDevicePrimaryCtxRetain, (context, device), CUcontext *context, CUdevice device)
{
	struct primary *primary = cuda_context_counted(device);
	CUresult result;

	if (!primary)
		return WRAPPER_RETRY(device, 0, forward(context, device));
	if (!add_seq_cst(&primary->state, RETAINING))
		store_relaxed(&primary->exact, !driver_primary_is_active(device));
	add_seq_cst(&primary->begun, 1);
	result = WRAPPER_RETRY(device, 0, forward(context, device));
	if (result == CUDA_SUCCESS)
		store_relaxed(&primary->context, *context);
	add_seq_cst(&primary->state, (result == CUDA_SUCCESS ? RETAINED : 0) - RETAINING);
	return result;
}

struct release {
	CUdevice device;
	struct primary *primary;
	uint64_t state; /* before, like `releases` */
	unsigned int releases;
	struct pending_frees *frees;
};

static void cuda_context_before_last(struct release *release, unsigned int begun)
{
	struct primary *primary = release->primary;
	CUcontext context = load_relaxed(&primary->context);

	add_seq_cst(&primary->releases, 1);
	if (release->state & (RELEASING - RETAINING))
		return;
	if (keep_is_on())
		keep_release_context(context);
	release->frees =
		memory_context_releasing(context, registration_is_in_use, &primary->begun, begun);
}

static void cuda_context_before_release(struct release *release, CUdevice device)
{
	struct primary *primary = cuda_context_counted(device);
	unsigned int begun;

	*release = (struct release){ .device = device, .primary = primary };
	if (!primary)
		return;
	begun = load_seq_cst(&primary->begun);
	release->releases = load_seq_cst(&primary->releases);
	release->state = load_seq_cst(&primary->state);
	while (!replace_seq_cst(&primary->state, &release->state,
				release->state + RELEASING -
					((uint32_t)release->state ? RETAINED : 0)))
		;
	if ((uint32_t)release->state == 1 && load_relaxed(&primary->exact))
		cuda_context_before_last(release, begun);
}

/* True if the context may have ended. Another thread may have retained it since: then this release,
 * or one that overlapped, seemed to be the last. */
static bool cuda_context_may_have_ended(const struct release *release)
{
	return (release->primary &&
		load_seq_cst(&release->primary->releases) != release->releases) ||
	       !driver_primary_is_active(release->device);
}

/* Memory that the driver still has is recorded again before the check for ended memory: an
 * overlapping release may end it in between. */
static CUresult cuda_context_after_release(const struct release *release, CUresult result)
{
	if (process_is_passive())
		return result;
	memory_frees_settled(release->frees, true);
	if (cuda_context_may_have_ended(release))
		cuda_context_end_unreported();
	if (release->primary)
		add_seq_cst(&release->primary->state,
			    (result != CUDA_SUCCESS && (uint32_t)release->state ? RETAINED : 0) -
				    RELEASING);
	return result;
}

WRAP(cuDevicePrimaryCtxRelease_v2, (device), CUdevice device)
{
	struct release release;

	cuda_context_before_release(&release, device);
	return cuda_context_after_release(&release, forward(device));
}

WRAP_LIKE(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (device), CUdevice device)

WRAP(cuGreenCtxDestroy, (context), CUgreenCtx context)
{
	CUresult result = forward(context);

	if (!process_is_passive())
		cuda_context_end_unreported();
	return result;
}
