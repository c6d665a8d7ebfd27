/* SPDX-License-Identifier: BSD-3-Clause */
/* library.c -- connects the layers; start and exit of the program */
#include "base/config.h"
#include "base/loaded.h"
#include "base/log.h"
#include "base/process.h"
#include "base/start.h"
#include "intercept/bypass.h"
#include "intercept/load_watch.h"
#include "intercept/resolve.h"
#include "intercept/subscriptions.h"
#include "memory/memory.h"
#include "memory/trace_events.h"
#include "observe/observe.h"
#include "registration/registration.h"
#include "report/statistics.h"
#include "report/trace.h"

const struct memory_subscriber *const memory_subscribers[] = { &registration_subscriber,
							       &subscriptions_subscriber,
							       &trace_subscriber, NULL };

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

/* In any order: no other thread uses any of it yet. */
static void library_renew(void)
{
	memory_renew();
	registration_renew();
	subscriptions_renew();
	observe_renew();
}

/* glibc passes the program's arguments to constructors. */
static __attribute__((constructor)) void library_start(int count, char *const *arguments)
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
static __attribute__((destructor)) void library_finish(void)
{
	/* A child forgets what its parent recorded, here at the latest. */
	if (observe_has_begun() && process_observes())
		observe_finish();
	/* An inert process reads no settings here. */
	if ((!process_is_active() && !load_watch_are_noted()) || process_is_passive())
		return;
	bypass_check_hidden();
	if (!process_is_active())
		return;
	process_begin_exit();
	registration_log_selection();
	if (resolve_ucx_is_unhooked())
		statistics_count(ucx_unhooked);
	trace_end();
	statistics_finish();
	log_finish();
}
