/* SPDX-License-Identifier: BSD-3-Clause */
/* process.c -- states of the library in this process; fork and exit */
#include "base/process.h"

#include "base/atomics.h"
#include "base/config.h"
#include "base/config_reader.h"
#include "base/kernel.h"
#include "base/log.h"
#include "base/once.h"
#include "base/start.h"
#include "base/system.h"

struct process_page process_page;
__thread bool own_thread_here __attribute__((tls_model("initial-exec")));
static _Atomic bool any_entered; /* this process, or one that it descends from by forks */
static once activation AT_START_DATA;

AT_START_DATA void (*process_begins)(void), (*process_begun)(void), (*process_renews)(void);
AT_START_DATA void (*process_exits)(void);

/* A process stores its state before it begins to activate: the order of these loads. */
bool process_is_forked(void)
{
	return once_has_begun(&activation) && !(load_acquire(&process_page.state) & PROCESS_OWN);
}

bool process_is_passive_early(void)
{
	return process_is_forked() || config_is_disabled_early();
}

static void process_in_child(void)
{
	store_relaxed(&process_page.state, 0);
	store_relaxed(&process_page.entered, 0);
}

/* Do not serialize the threads here: system_at_fork() waits for libc's lock of the fork handlers,
 * and one of these may allocate GPU memory. Each thread registers the handler itself; registering
 * twice is harmless. A nested call comes from an allocator of the program's. */
static void process_wipe_in_children(void)
{
	static __thread bool is_inside __attribute__((tls_model("initial-exec")));

	if (!kernel_wipe_on_fork(&process_page, sizeof(process_page)) || is_inside)
		return;
	is_inside = true;
	system_at_fork(process_in_child);
	is_inside = false;
}

/* No call before this one took a lock or changed any state. So a child forked in here, or before,
 * has nothing to renew. */
bool process_enter(void)
{
	if (load_acquire(&process_page.state) & PROCESS_OBSERVES || process_is_forked() ||
	    config_get()->disable)
		return false;
	process_wipe_in_children();
	if (once_begin(&process_page.entered)) {
		if (load_relaxed(&any_entered) && process_renews)
			process_renews();
		store_relaxed(&any_entered, true);
		or_seq_cst(&process_page.state,
			   config_get()->observe ? PROCESS_OBSERVES : PROCESS_OWN);
		once_end(&process_page.entered);
	}
	return load_acquire(&process_page.state) & PROCESS_OWN;
}

static void process_at_exit(void *unused)
{
	(void)unused;
	process_begin_exit();
}

/* Log version and settings: the first line of a problem report. */
static void process_log_settings(void)
{
	char settings[768];
	unsigned int changed = config_text_changed(config_get(), ' ', settings, sizeof(settings));

	log_message(LOG_INFO, "peerpin %s, %s; settings other than the defaults: %s",
		    PACKAGE_VERSION, start_program(), changed ? settings : "none");
}

/* Do not serialize the threads here. The call may wait for a libc lock, and its holder may allocate
 * GPU memory (a plug-in's constructor, under the dynamic linker's lock). Each thread registers the
 * handler itself; registering twice is harmless. */
static void process_watch(void)
{
	static _Atomic bool watching;

	if (load_acquire(&watching))
		return;
	system_at_exit(process_at_exit);
	store_release(&watching, true);
}

/* Threads that allocate meanwhile wait: their events follow the begin of statistics and trace. Work
 * that may block comes before or after that section. */
static __attribute__((noinline)) void process_activate_once(void)
{
	/* Recursion guard: libc calls the program's allocator here, which may allocate from the
	 * driver. */
	static __thread bool is_inside __attribute__((tls_model("initial-exec")));

	if (is_inside || process_is_passive())
		return;
	is_inside = true;
	process_watch();
	if (once_begin(&activation)) {
		if (process_begins)
			process_begins();
		once_end(&activation);
		config_report();
		if (process_begun)
			process_begun();
		if (log_is_on(LOG_INFO))
			process_log_settings();
	}
	is_inside = false;
}

void process_activate(void)
{
	if (__builtin_expect(!once_is_done(&activation), 0))
		process_activate_once();
}

AT_START bool process_is_active(void)
{
	return once_is_done(&activation);
}

void process_begin_exit(void)
{
	if (!process_is_passive() &&
	    !(or_seq_cst(&process_page.state, PROCESS_EXITING) & PROCESS_EXITING) && process_exits)
		process_exits();
}
