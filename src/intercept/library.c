/* SPDX-License-Identifier: BSD-3-Clause */
/* library.c -- connects the layers; start and exit of the program */
#include "base/config.h"
#include "base/loaded.h"
#include "base/process.h"
#include "base/start.h"
#include "intercept/bypass.h"
#include "intercept/entry_points.h"
#include "intercept/public.h"
#include "memory/memory.h"
#include "observe/observe.h"
#include "registration/registration.h"
#include "report/callers.h"
#include "report/statistics.h"
#include "report/trace.h"

/* Registration follows the memory, subscribers of peerpin.h the program. A subscriber has stopped
 * using the memory before its registrations end. */
static void library_memory_event(enum memory_event event, const struct allocation *allocation)
{
	if (event == MEMORY_FREEING || event == MEMORY_KEEPING)
		subscriptions_freeing(allocation);
	if (event == MEMORY_FREEING || event == MEMORY_RELEASING)
		registration_freeing(allocation);
	if (event == MEMORY_ALLOCATED)
		registration_allocated(allocation);
	if (event == MEMORY_ALLOCATED || event == MEMORY_REUSED)
		subscriptions_allocated(allocation);
}

void (*const memory_hook)(enum memory_event event,
			  const struct allocation *allocation) = library_memory_event;

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

/* The order does not matter: no other thread uses any of it yet. */
static void library_renew(void)
{
	memory_renew();
	registration_renew();
	callers_renew();
	subscriptions_renew();
	observe_renew();
}

/* glibc passes the program's arguments to constructors. */
static AT_START __attribute__((constructor)) void library_start(int count, char *const *arguments)
{
	process_begins = library_begin;
	process_begun = library_begun;
	process_renews = library_renew;
	process_exits = registration_await_worker;
	loaded_begin(start_variable("LD_AUDIT"));
	start_record(count > 0 ? arguments[0] : NULL);
	config_is_disabled_early();
}

/* Call neither CUDA nor verbs: both may be unloaded. The kernel releases the remaining
 * registrations. */
static AT_START __attribute__((destructor)) void library_finish(void)
{
	/* A child forgets what its parent recorded, here at the latest. */
	if (observe_has_begun() && process_observes()) {
		observe_finish();
		return;
	}
	bypass_check_hidden();
	/* An inert process reads no settings here. */
	if (!process_is_active() || process_is_passive())
		return;
	process_begin_exit();
	registration_log_selection();
	registration_count_leaked();
	if (resolve_ucx_is_unhooked())
		statistics_count(ucx_unhooked);
	trace_end();
	statistics_finish();
}
