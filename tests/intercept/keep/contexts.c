/* SPDX-License-Identifier: BSD-3-Clause */
/* contexts.c -- ends of contexts and of the process: nothing is freed twice, and no memory that has
 * ended is handed out */
#include "keep.h"

#include <stdlib.h>
#include <sys/wait.h>

enum end {
	DESTROY,
	DESTROY_OLD_FORM,
	DETACH,
	RESET,
	RESET_OLD_FORM,
	RELEASE,
	RELEASE_OLD_FORM,
	GREEN,
	BYPASSING_DESTROY, /* a call that bypasses peerpin */
	BYPASSING_RESET,
	ENDS
};

static CUgreenCtx green;

static bool is_primary(enum end end)
{
	return end != DESTROY && end != DESTROY_OLD_FORM && end != DETACH &&
	       end != BYPASSING_DESTROY;
}

/* Make the context that will end current. The green context holds the primary one's last retain. */
static CUcontext make(enum end end)
{
	CUdevResourceDesc description;
	_Alignas(16) char space[256]; /* of a CUdevResource, whose layout nothing here needs */
	CUdevResource *resource = (CUdevResource *)space;
	CUcontext made;

	if (!is_primary(end)) {
		require_cuda(cuCtxCreate_v2(&made, 0, 0));
		return made;
	}
	require_cuda(cuDevicePrimaryCtxRetain(&made, 0));
	if (end == GREEN) {
		require_cuda(cuDeviceGetDevResource(0, resource, CU_DEV_RESOURCE_TYPE_SM));
		require_cuda(cuDevResourceGenerateDesc(&description, resource, 1));
		require_cuda(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
		require_cuda(cuDevicePrimaryCtxRelease_v2(0));
	}
	require_cuda(cuCtxSetCurrent(made));
	return made;
}

static void finish(enum end end, CUcontext made)
{
	switch (end) {
	case DESTROY:
		require_cuda(cuCtxDestroy_v2(made));
		break;
	case DESTROY_OLD_FORM:
		require_cuda(cuCtxDestroy(made));
		break;
	case DETACH:
		require_cuda(cuCtxDetach(made));
		break;
	case RESET:
		require_cuda(cuDevicePrimaryCtxReset_v2(0));
		break;
	case RESET_OLD_FORM:
		require_cuda(cuDevicePrimaryCtxReset(0));
		break;
	case RELEASE:
		require_cuda(cuDevicePrimaryCtxRelease_v2(0));
		break;
	case RELEASE_OLD_FORM:
		require_cuda(cuDevicePrimaryCtxRelease(0));
		break;
	case GREEN:
		require_cuda(cuGreenCtxDestroy(green));
		break;
	case BYPASSING_DESTROY:
		require_cuda(raw.cuCtxDestroy_v2(made));
		break;
	case BYPASSING_RESET:
		require_cuda(raw.cuDevicePrimaryCtxReset_v2(0));
		break;
	case ENDS:
		break;
	}
}

/* The driver gives the addresses to the next allocations at once: a second free would free those.
 */
static void kept_memory_ends_with_its_context(unsigned int end)
{
	bool seen = end != BYPASSING_DESTROY && end != BYPASSING_RESET;
	CUdeviceptr kept, kept_host, other, again, again_host;
	CUcontext made, next;
	uint64_t id, id_host;
	size_t bytes;

	begin();
	bytes = free_bytes();
	other = keep(3 * UNIT);
	made = make(end);
	kept = keep(UNIT);
	kept_host = keep_host(UNIT);
	id = tag(kept);
	id_host = tag(kept_host);
	finish(end, made);
	/* Freed by calls that UCX's hooks in the driver receive. */
	if (seen && end != DETACH && end != GREEN)
		require(own("kept_released") == 2);
	require_cuda(cuCtxSetCurrent(context));
	require(tag(kept) != id && tag(kept_host) != id_host && tag(other));
	if (seen)
		require(own("kept_bytes") == 3 * UNIT && own("kept_host_bytes") == 0);
	require(free_bytes() == bytes - 3 * UNIT);
	next = make(end);
	require(!is_primary(end) || next == made);
	again = allocate(UNIT);
	again_host = obtain(true, UNIT);
	require(tag(again) != id && tag(again_host) != id_host && own("reused") == 0);
	id = tag(again);
	id_host = tag(again_host);
	release_all();
	/* Released again or freed again, this would have ended memory of the new context. */
	require(tag(again) == id && tag(again_host) == id_host);
	require_cuda(cuMemFree_v2(again));
	give_up(true, again_host);
	require(tag(again) == id && tag(again_host) == id_host);
	require(allocate(UNIT) == again && obtain(true, UNIT) == again_host);
	require(own("reused") == 2 && own("internal_errors") == 0);
	if (seen)
		require(own("missed_frees") == 0);
}

/* A refused destroy (of a primary context) and a release that is not the last end nothing. */
static void a_context_that_goes_on_is_of_use(unsigned int released)
{
	CUdeviceptr kept;
	CUcontext made;

	begin();
	made = make(RELEASE);
	if (released)
		require_cuda(cuDevicePrimaryCtxRetain(&made, 0));
	kept = keep(UNIT);
	if (released) {
		require_cuda(cuDevicePrimaryCtxRelease_v2(0));
		require(allocate(UNIT) == kept && own("reused") == 1);
	} else {
		require(cuCtxDestroy_v2(made) == CUDA_ERROR_INVALID_CONTEXT);
		allocate(UNIT);
	}
	expect_no_errors();
}

/* ---- the process ---- */

static CUdeviceptr memory, live;

/* The driver defines which calls a child may make. peerpin forwards them. */
static void be_child(unsigned int variant)
{
	uint64_t kept = own("kept"), reused = own("reused"), released = own("kept_released");
	CUdeviceptr address;

	alarm(TIME_OUT);
	cuMemAlloc_v2(&address, UNIT);
	cuMemFree_v2(live);
	release_all();
	cuCtxDestroy_v2(context);
	require(own("kept") == kept && own("reused") == reused);
	require(own("kept_released") == released);
	if (variant)
		exit(3);
	_exit(3);
}

static void a_child_touches_nothing_and_the_parent_goes_on(unsigned int variant)
{
	uint64_t id;
	pid_t child;

	begin();
	live = allocate(UNIT);
	memory = keep(UNIT);
	id = tag(memory);
	child = fork();
	if (!child)
		be_child(variant);
	require(await_child(child) == 3 << 8);
	require(allocate(UNIT) == memory && tag(memory) == id && own("reused") == 1);
	require_cuda(cuMemFree_v2(live));
	require_cuda(cuMemFree_v2(memory));
	require(own("kept") == 3);
	expect_no_errors();
}

static void free_late(void)
{
	uint64_t id = tag(live);

	require_cuda(cuMemFree_v2(live));
	require(id && (tag(live) != id || own("kept") == 3));
}

/* Frees of exit functions, too; the simulated adapter aborts on registrations that outlive memory.
 */
static void an_exit_with_kept_memory_is_an_exit(unsigned int unused)
{
	(void)unused;
	set_up();
	begin();
	live = allocate(UNIT);
	require(!ibv_dereg_mr(registered(live)));
	memory = keep(UNIT);
	keep_host(UNIT);
	atexit(free_late);
	exit(5);
}

const struct test context_tests[] = {
	TEST(kept_memory_ends_with_its_context, DESTROY, KEEP),
	TEST(kept_memory_ends_with_its_context, DESTROY_OLD_FORM, KEEP),
	TEST(kept_memory_ends_with_its_context, DETACH, KEEP),
	TEST(kept_memory_ends_with_its_context, RESET, KEEP),
	TEST(kept_memory_ends_with_its_context, RESET_OLD_FORM, KEEP),
	TEST(kept_memory_ends_with_its_context, RELEASE, KEEP),
	TEST(kept_memory_ends_with_its_context, RELEASE_OLD_FORM, KEEP),
	TEST(kept_memory_ends_with_its_context, GREEN, KEEP),
	TEST(kept_memory_ends_with_its_context, BYPASSING_DESTROY, KEEP),
	TEST(kept_memory_ends_with_its_context, BYPASSING_RESET, KEEP),
	TEST(a_context_that_goes_on_is_of_use, 0, KEEP),
	TEST(a_context_that_goes_on_is_of_use, 1, KEEP),
	TEST(a_child_touches_nothing_and_the_parent_goes_on, 0, KEEP),
	TEST(a_child_touches_nothing_and_the_parent_goes_on, 1, KEEP),
	{ an_exit_with_kept_memory_is_an_exit, "an_exit_with_kept_memory_is_an_exit", 0, KEEP, 5,
	  0 },
	{ .name = NULL },
};
