/* SPDX-License-Identifier: BSD-3-Clause */
/* library.c -- connects the layers; start and exit of the program */
#include "base/config.h"
#include "base/log.h"
#include "base/process.h"
#include "base/system.h"
#include "intercept/entry_points.h"
#include "intercept/resolve.h"
#include "intercept/subscriptions.h"
#include "memory/driver.h"
#include "memory/memory.h"
#include "memory/trace_events.h"
#include "registration/registration.h"
#include "report/statistics.h"
#include "report/trace.h"

const struct memory_subscriber *const memory_subscribers[] = { &registration_subscriber,
							       &subscriptions_subscriber,
							       &trace_subscriber, NULL };

/* Fill a table of pointers from an open library. All threads that race here store equal values. */
#define FILL(calls, handle, symbol)                                                                \
	__atomic_store_n(&(calls).symbol,                                                          \
			 (__typeof__((calls).symbol))system_dlsym(handle, #symbol),                \
			 __ATOMIC_RELAXED)

const struct driver_calls *driver_calls(void)
{
	static struct driver_calls calls;
	static bool filled;
	void *handle;

	if (__atomic_load_n(&filled, __ATOMIC_ACQUIRE))
		return &calls;
	handle = system_find_library("libcuda.so.1");
	if (!handle)
		return &calls;
#define CALL(symbol) FILL(calls, handle, symbol);
	DRIVER_CALLS(CALL)
#undef CALL
	__atomic_store_n(&filled, true, __ATOMIC_RELEASE);
	return &calls;
}

const struct verbs_calls *verbs_calls(void)
{
	static struct verbs_calls calls;
	static bool filled;
	void *handle;

	if (__atomic_load_n(&filled, __ATOMIC_ACQUIRE))
		return &calls;
	handle = system_find_library("libibverbs.so.1");
	if (!handle)
		return &calls;
	FILL(calls, handle, ibv_reg_mr);
	FILL(calls, handle, ibv_reg_mr_iova2);
	FILL(calls, handle, ibv_reg_mr_ex);
	FILL(calls, handle, ibv_rereg_mr);
	FILL(calls, handle, ibv_dereg_mr);
	FILL(calls, handle, ibv_reg_dmabuf_mr);
	FILL(calls, handle, ibv_get_device_name);
	FILL(calls, handle, ibv_query_device);
	__atomic_store_n(&filled, true, __ATOMIC_RELEASE);
	return &calls;
}

static void library_begin(void)
{
	statistics_begin();
	trace_begin();
}

static void library_begun(void)
{
	statistics_begun();
	trace_begun();
}

static void library_forked(void)
{
	statistics_leave();
	trace_leave();
}

static __attribute__((constructor)) void library_start(void)
{
	process_begins = library_begin;
	process_begun = library_begun;
	process_forks = library_forked;
	config_early();
}

/* Call neither CUDA nor verbs: both may be unloaded. The kernel releases the remaining
 * registrations. */
static __attribute__((destructor)) void library_finish(void)
{
	if (!process_is_active() || process_is_passive())
		return;
	process_begin_exit();
	registration_log_selection();
	if (resolve_ucx_is_unhooked())
		statistics_count(ucx_unhooked);
	trace_end();
	statistics_finish();
	log_finish();
}
