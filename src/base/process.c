/* SPDX-License-Identifier: BSD-3-Clause */
/* process.c -- whether the library acts in this process; fork and exit */
#include "base/process.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/config.h"
#include "base/config_text.h"
#include "base/log.h"
#include "base/near.h"
#include "base/system.h"

static _Atomic bool active, forked, exiting;
_Atomic bool process_done;

NEAR bool process_is_passive(void)
{
	return atomic_load_explicit(&forked, memory_order_relaxed) || config_get()->disable;
}

bool process_is_passive_early(void)
{
	return atomic_load_explicit(&forked, memory_order_relaxed) || config_early()->disable;
}

bool process_is_forked(void)
{
	return atomic_load_explicit(&forked, memory_order_relaxed);
}

static void in_child(void)
{
	atomic_store_explicit(&forked, true, memory_order_relaxed);
	atomic_store_explicit(&process_done, true, memory_order_relaxed);
	if (process_forks)
		process_forks();
}

static void at_exit(void *unused)
{
	(void)unused;
	process_begin_exit();
}

void (*process_begins)(void), (*process_forks)(void);

/* The first line that a report of trouble should have. */
static void tell_settings(void)
{
	char settings[768];
	unsigned int changed = config_text_changed(config_get(), ' ', settings, sizeof(settings));

	log_message(LOG_INFO, "peerpin %s, %s; settings other than the defaults: %s", PACKAGE_VERSION,
		    process_program(), changed ? settings : "none");
}

NEAR void process_activate(void)
{
	if (__builtin_expect(atomic_load_explicit(&active, memory_order_relaxed), 1))
		return;
	if (atomic_exchange_explicit(&active, true, memory_order_relaxed))
		return;
	pthread_atfork(NULL, NULL, in_child);
	system_at_exit(at_exit);
	config_report();
	if (process_begins)
		process_begins();
	if (log_is_on(LOG_INFO))
		tell_settings();
}

bool process_is_active(void)
{
	return atomic_load_explicit(&active, memory_order_relaxed);
}

void process_begin_exit(void)
{
	atomic_store_explicit(&exiting, true, memory_order_relaxed);
	atomic_store_explicit(&process_done, true, memory_order_relaxed);
}

NEAR bool process_is_exiting(void)
{
	return atomic_load_explicit(&exiting, memory_order_relaxed);
}
