/* SPDX-License-Identifier: BSD-3-Clause */
/* bypass.c -- detects callers that bypass peerpin
 *
 * A plug-in opened with RTLD_DEEPBIND binds to the driver and to libc before the program's scope.
 * So it uses neither the exports nor the dlsym of this library (trap T23). peerpin cannot intercept
 * it correctly, but detects it from its relocations once they are bound.
 */
#include "intercept/bypass.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/atomics.h"
#include "base/loaded.h"
#include "base/log.h"
#include "base/process.h"
#include "base/start.h"
#include "base/system.h"
#include "base/text.h"
#include "intercept/entry_points.h"
#include "intercept/load_watch.h"
#include "intercept/other_driver.h"
#include "memory/memory.h"
#include "report/statistics.h"

#if defined(__x86_64__)
#define RELOCATION_OF_CALL    R_X86_64_JUMP_SLOT
#define RELOCATION_OF_ADDRESS R_X86_64_GLOB_DAT
#define RELOCATION_OF_WORD    R_X86_64_64
#elif defined(__aarch64__)
#define RELOCATION_OF_CALL    R_AARCH64_JUMP_SLOT
#define RELOCATION_OF_ADDRESS R_AARCH64_GLOB_DAT
#define RELOCATION_OF_WORD    R_AARCH64_ABS64
#endif

#define UNBOUND_MAX 256

/* A call that is not bound yet. If `word` holds `target` after binding, the call bypasses
 * peerpin. */
struct unbound_call {
	_Atomic(const void *const *) word;
	_Atomic(const void *) target;
};

/* Results of the last scan, guarded by scan_lock. dl_iterate_phdr takes the dynamic linker's own
 * lock inside scan_lock; no caller of this file holds the linker's lock. */
static pthread_mutex_t scan_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long long adds_seen, subs_seen;
static struct unbound_call unbound[UNBOUND_MAX];
static unsigned int unbound_count; /* if above UNBOUND_MAX, only a full scan checks the rest */

/* Results of the last completed scan for bypass_is_settled(), which takes no lock. During a scan
 * settled_adds is UNSETTLED, and `unbound` may change. */
#define UNSETTLED ULLONG_MAX
static _Atomic unsigned long long settled_adds = UNSETTLED, settled_subs;
static _Atomic unsigned int settled_count;

/* True if no scan is needed as long as no load is noted (load_watch.h): the first scan found that
 * plain loads bind to this library. */
static _Atomic bool plain_loads_bind_here;

/* The driver's own libraries; UCX's hooks, which look up the driver's functions on purpose; libc
 * and the dynamic linker, which use their own dlsym. */
static bool bypass_is_exempt(const char *name)
{
	static const char prefixes[][16] = {
		"libcuda.so", "libucm",	       "libucs",   "libc.so",
		"libdl.so",   "libpthread.so", "ld-linux", "libpeerpin"
	};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (text_begins(name, prefixes[i]))
			return true;
	}
	return false;
}

/* True if the call bound by `relocation` bypasses peerpin. Records a call that is not bound yet. */
static bool bypass_check_relocation(const struct dl_phdr_info *object,
				    const struct object_tables *tables,
				    const ElfW(Rela) * relocation)
{
	const char *symbol =
		tables->strings + tables->symbols[ELF64_R_SYM(relocation->r_info)].st_name;
	unsigned long type = ELF64_R_TYPE(relocation->r_info);
	const struct entry_point *row;
	const void *const *word;
	const void *target;

	if (type != RELOCATION_OF_CALL && type != RELOCATION_OF_ADDRESS &&
	    type != RELOCATION_OF_WORD)
		return false;
	row = entry_find(symbol);
	if (row ? !entry_must_be_seen(row) : !text_equals(symbol, "dlsym"))
		return false;
	target =
		row ? __atomic_load_n(entry_driver_of(row), __ATOMIC_ACQUIRE) : system_libc_dlsym();
	word = (const void *const *)(tables->base + relocation->r_offset);
	/* A call that is not bound yet points into its own object. An object that another thread is
	 * loading is not relocated yet. */
	if (!*word || object_contains(object, (uintptr_t)*word) ||
	    object_contains(object, object->dlpi_addr + (uintptr_t)*word)) {
		if (unbound_count < UNBOUND_MAX) {
			store_relaxed(&unbound[unbound_count].word, word);
			store_relaxed(&unbound[unbound_count].target, target);
		}
		unbound_count++;
	}
	return target && *word == target;
}

/* True if the object with this first byte was reported before; also true beyond 16 objects, to
 * limit the log. */
static bool bypass_was_reported(const void *first)
{
	static const void *reported[16];

	for (size_t i = 0; i < sizeof(reported) / sizeof(reported[0]); i++) {
		const void *empty = NULL;

		if (__atomic_compare_exchange_n(&reported[i], &empty, first, false,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return false;
		if (empty == first)
			return true;
	}
	return true;
}

static void bypass_report(const char *text)
{
	memory_verify_always();
	statistics_count(bypasses);
	log_message(LOG_WARN,
		    "%s. From now on peerpin verifies each use of memory with the driver.", text);
}

/* Reports an object once. */
static void bypass_report_object(const void *first, const char *name, const char *reason)
{
	char text[512];

	if (bypass_was_reported(first))
		return;
	system_format(text, sizeof(text), "%s %s", *name ? name : start_program(), reason);
	bypass_report(text);
}

static void bypass_report_owner(const void *address, const char *reason)
{
	char name[LOADED_NAME];
	const void *first;

	if (address && loaded_name_at(address, name, &first))
		bypass_report_object(first, name, reason);
}

static int bypass_check_object(struct dl_phdr_info *object, size_t size, void *argument)
{
	const char *name = object_file_name(object);
	struct object_tables tables;
	bool found = false;

	(void)size;
	(void)argument;
	if (bypass_is_exempt(name) || !object_read(object, &tables))
		return 0;
	for (size_t i = 0; i < tables.call_count; i++)
		found |= bypass_check_relocation(object, &tables, &tables.calls[i]);
	for (size_t i = 0; i < tables.data_count; i++)
		found |= bypass_check_relocation(object, &tables, &tables.data[i]);
	if (found)
		bypass_report_object(object_part(object, PT_LOAD), name,
				     "was opened with RTLD_DEEPBIND: its calls to the CUDA driver "
				     "bypass peerpin. Open it without RTLD_DEEPBIND");
	return 0;
}

static bool bypass_is_bypassing(const struct unbound_call *call)
{
	const void *target = load_relaxed(&call->target);

	return target && *load_relaxed(&call->word) == target;
}

/* Stores true if an object was loaded or unloaded, or a recorded call bound to bypass peerpin,
 * since the last scan. Nothing is unloaded during dl_iterate_phdr. */
static int bypass_has_changed(struct dl_phdr_info *object, size_t size, void *changed)
{
	unsigned int count = unbound_count < UNBOUND_MAX ? unbound_count : UNBOUND_MAX;
	bool found = object->dlpi_adds != adds_seen || object->dlpi_subs != subs_seen;

	(void)size;
	for (unsigned int i = 0; i < count && !found; i++)
		found = bypass_is_bypassing(&unbound[i]);
	adds_seen = object->dlpi_adds;
	subs_seen = object->dlpi_subs;
	*(bool *)changed = found;
	return 1;
}

void bypass_check_hidden(void)
{
	int saved_errno = errno;
	const char *text = load_watch_are_noted() ? other_driver_find() : NULL;

	if (text) {
		process_activate(); /* an active process writes its requested files */
		bypass_report(text);
	}
	errno = saved_errno;
}

/* Another preload's function that a look-up returned; its calls bypass peerpin. The first alone:
 * look-ups must not log, and one report turns verification on. */
static _Atomic(const void *) noted_wrapper;

void bypass_note(const void *wrapper)
{
	const void *none = NULL;

	atomic_compare_exchange_strong_explicit(&noted_wrapper, &none, wrapper,
						memory_order_release, memory_order_relaxed);
	load_watch_note();
}

/* Other preloads: one that precedes this library receives linked calls and look-ups. Whether it
 * hands them on is its own decision. */
static void bypass_check_preloads(void)
{
	static const char reason[] =
		"precedes libpeerpin.so: peerpin does not see the calls to the CUDA driver that it "
		"does not hand on. Put libpeerpin.so first in LD_PRELOAD";
	const void *first;

	for (const struct entry_point *row = cuda_entries; row < cuda_entries + CUDA_ENTRIES;
	     row++) {
		first = entry_must_be_seen(row) ? loaded_first(row->symbol) : NULL;
		if (first && first != entry_exported(row))
			bypass_report_owner(first, reason);
	}
	bypass_report_owner(load_watch_skipping_dlsym(), reason);
}

/* An audit library may rebind each call and each look-up. Its rebinding is not visible here: glibc
 * calls it while it binds. */
static void bypass_check_auditor(void)
{
	const char *name = loaded_auditor();
	char text[512];

	if (!name)
		return;
	system_format(text, sizeof(text),
		      "%s was loaded into another namespace before peerpin, as audit libraries "
		      "(LD_AUDIT) are: it can rebind calls to the CUDA driver, which then bypass "
		      "peerpin. Run without it",
		      *name ? name : "an object");
	bypass_report(text);
}

/* Computed once: the order of the program's scope never changes. */
static bool bypass_plain_loads_bind_here(void)
{
	static _Atomic int known; /* 0: unknown; 1: yes; -1: no */
	int bind_here = load_relaxed(&known);

	if (!bind_here) {
		bind_here = load_watch_come_here() ? 1 : -1;
		store_relaxed(&known, bind_here);
		if (bind_here < 0)
			bypass_check_preloads();
	}
	return bind_here > 0;
}

/* True if no bypassing caller can have appeared since the first scan. */
static inline bool bypass_is_impossible(void)
{
	return load_relaxed(&plain_loads_bind_here) && !load_watch_are_noted();
}

static __attribute__((noinline, cold)) void bypass_rescan(void)
{
	int saved_errno = errno;
	static bool first = true;
	bool changed = false, bind_here;
	const char *driver;

	/* Keep these calls outside scan_lock: a look-up takes the lock that dlopen holds while
	 * constructors run, and a constructor may call this function. */
	system_prepare();	 /* for log_message() inside the lock */
	entry_find_driver(NULL); /* a program that only links has not triggered this yet */
	bind_here = bypass_plain_loads_bind_here();
	bypass_report_owner(load_acquire(&noted_wrapper),
			    "wraps functions of the CUDA driver that it does not export: peerpin "
			    "does not see their calls. Run without it, or without peerpin");
	pthread_mutex_lock(&scan_lock);
	loaded_walk(bypass_has_changed, &changed);
	if (changed) {
		store_relaxed(&settled_adds, UNSETTLED);
		atomic_thread_fence(memory_order_release);
		unbound_count = 0;
		loaded_walk(bypass_check_object, NULL);
		if (first) {
			bypass_check_auditor();
			store_relaxed(&plain_loads_bind_here, bind_here);
		}
		first = false;
	}
	driver = changed || other_driver_is_noted() ? other_driver_find() : NULL;
	if (driver)
		bypass_report(driver);
	store_relaxed(&settled_subs, subs_seen);
	store_relaxed(&settled_count, unbound_count);
	store_release(&settled_adds, unbound_count > UNBOUND_MAX ? UNSETTLED : adds_seen);
	pthread_mutex_unlock(&scan_lock);
	errno = saved_errno;
}

/* Called at each allocation. Avoid the full check: unbound calls lie in as many cache lines, all
 * over the process. */
void bypass_scan(void)
{
	if (!bypass_is_impossible())
		bypass_rescan();
}

static int bypass_matches_settled(struct dl_phdr_info *object, size_t size, void *settled)
{
	unsigned long long adds = load_acquire(&settled_adds);
	unsigned int count = load_relaxed(&settled_count);
	bool same = object->dlpi_adds == adds && object->dlpi_subs == load_relaxed(&settled_subs);

	(void)size;
	for (unsigned int i = 0; i < count && same; i++)
		same = !bypass_is_bypassing(&unbound[i]);
	atomic_thread_fence(memory_order_acquire);
	*(bool *)settled = same && load_relaxed(&settled_adds) == adds;
	return 1;
}

bool bypass_is_settled(void)
{
	bool settled = false;

	if (bypass_is_impossible())
		return true;
	loaded_walk(bypass_matches_settled, &settled);
	return settled;
}
