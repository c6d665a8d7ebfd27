/* SPDX-License-Identifier: BSD-3-Clause */
/* process.c -- states of the library in this process; fork and exit */
#include "base/process.h"

#include "base/atomics.h"
#include "base/config.h"
#include "base/config_reader.h"
#include "base/log.h"
#include "base/once.h"
#include "base/system.h"

static once activation;
_Atomic unsigned char process_ends;

bool process_is_passive(void)
{
	return process_is_forked() || config_get()->disable;
}

bool process_is_passive_early(void)
{
	return process_is_forked() || config_is_disabled_early();
}

static void process_in_child(void)
{
	or_seq_cst(&process_ends, PROCESS_FORKED);
	if (process_forks)
		process_forks();
}

static void process_at_exit(void *unused)
{
	(void)unused;
	process_begin_exit();
}

void (*process_begins)(void), (*process_begun)(void), (*process_forks)(void);

/* Log version and settings: the first line of a problem report. */
static void process_log_settings(void)
{
	char settings[768];
	unsigned int changed = config_text_changed(config_get(), ' ', settings, sizeof(settings));

	log_message(LOG_INFO, "peerpin %s, %s; settings other than the defaults: %s",
		    PACKAGE_VERSION, system_program(), changed ? settings : "none");
}

/* Do not serialize the threads here. Both calls may wait for a libc lock, and its holder may
 * allocate GPU memory (a plug-in's constructor, under the dynamic linker's lock). Each thread
 * registers the handlers itself; registering twice is harmless. */
static void process_watch(void)
{
	static _Atomic bool watching;

	if (load_acquire(&watching))
		return;
	system_at_fork(NULL, NULL, process_in_child);
	system_at_exit(process_at_exit);
	store_release(&watching, true);
}

/* Threads that allocate meanwhile wait: their counts would be lost while the statistics move into
 * their file. Work that may block comes before or after that section. */
static __attribute__((noinline)) void process_activate_once(void)
{
	/* Recursion guard: libc calls the program's allocator here, which may allocate from the
	 * driver. */
	static __thread bool is_inside __attribute__((tls_model("initial-exec")));

	if (is_inside)
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

bool process_is_active(void)
{
	return once_is_done(&activation);
}

void process_begin_exit(void)
{
	or_seq_cst(&process_ends, PROCESS_EXITING);
}
