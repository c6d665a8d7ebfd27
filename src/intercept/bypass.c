/* SPDX-License-Identifier: BSD-3-Clause */
/* bypass.c -- callers that may bypass peerpin, and the exported dlopen, dlmopen and dlvsym */
#include "intercept/bypass.h"

#include <dlfcn.h>
#include <errno.h>

#include "base/loaded.h"
#include "base/log.h"
#include "base/process.h"
#include "base/start.h"
#include "base/system.h"
#include "base/text.h"
#include "intercept/entry_points.h"
#include "intercept/verbs.h"
#include "memory/driver.h"
#include "memory/memory.h"
#include "report/statistics.h"

/* ---- the flag ---- */

/* The first cause; its object's name is complete once the cause is stored. */
static _Atomic int cause AT_START_DATA;
static char cause_object[LOADED_NAME];

_Atomic bool bypass_is_pending = true; /* a check is due: the first one, or a cause to log */

void bypass_note(enum bypass_cause found, const char *object)
{
	static _Atomic bool has_first;

	/* A later cause needs it, too: its caller continues at once. */
	memory_verify_always();
	if (exchange_relaxed(&has_first, true))
		return;
	text_copy(cause_object, sizeof(cause_object), text_file_name(object));
	store_seq_cst(&cause, found);
	store_seq_cst(&bypass_is_pending, true);
}

void bypass_note_owner(enum bypass_cause found, const void *address)
{
	char name[LOADED_NAME] = "";

	loaded_name_at(address, name, NULL);
	bypass_note(found, name);
}

static const char *bypass_text(enum bypass_cause of)
{
	switch (of) {
	case BYPASS_DEEPBIND:
		return "was opened with RTLD_DEEPBIND: its calls to the CUDA driver bypass "
		       "peerpin. Open it without RTLD_DEEPBIND";
	case BYPASS_NAMESPACE:
		return "was opened in another namespace (dlmopen): its calls to the CUDA driver "
		       "bypass peerpin. Open it without dlmopen";
	case BYPASS_AUDITOR:
		return "was loaded into another namespace before peerpin, as audit libraries "
		       "(LD_AUDIT) are: it can rebind calls to the CUDA driver, which then bypass "
		       "peerpin. Run without it";
	case BYPASS_PRECEDING:
		return "precedes libpeerpin.so: peerpin does not see the calls to the CUDA driver "
		       "that it does not hand on. Put libpeerpin.so first in LD_PRELOAD";
	case BYPASS_WRAPPER:
		return "wraps functions of the CUDA driver that it does not export: peerpin does "
		       "not see their calls. Run without it, or without peerpin";
	case BYPASS_SECOND_DRIVER:
		return "is a second libcuda in the process: calls into it bypass peerpin. Load one "
		       "libcuda, or close the first one before cuInit";
	case BYPASS_FOREIGN:
		return "was found in another namespace: calls of it bypass peerpin. Load the "
		       "driver without dlmopen";
	case BYPASS_LOADER:
		return "of libc was looked up beside another definition: loads and look-ups by it "
		       "may bypass peerpin. Run without the library that defines it";
	case BYPASS_NONE:
		break;
	}
	return "bypasses peerpin";
}

static void bypass_report(void)
{
	static _Atomic bool reported;
	int found = load_seq_cst(&cause);

	if (!found || exchange_relaxed(&reported, true))
		return;
	statistics_count(bypasses);
	log_message(LOG_WARN,
		    "%s %s. From now on peerpin verifies each use of memory with the driver, and "
		    "keeps no memory.",
		    *cause_object ? cause_object : start_program(), bypass_text(found));
}

/* ---- the program's scope, whose order never changes ---- */

const char bypass_probe[] = "cuMemFree_v2";

/* The dlopen of another object, which may hand on to this library's: dlopen_decide() knows this
 * string by its address, and answers the program's handle. Wrappers read what a handle names. */
static const char bypass_probe_file[] = "libpeerpin-probe.so";

static void *bypass_answer(const char *file, int mode)
{
	(void)file;
	(void)mode;
	return loaded_program();
}

/* Other preloads: one that precedes this library receives linked calls and look-ups. Whether it
 * hands on the driver's functions is its own decision. */
static void bypass_check_scope(void)
{
	void *(*first_dlsym)(void *, const char *) = loaded_first("dlsym");
	void *(*first_dlopen)(const char *, int) = loaded_first("dlopen");
	static const char unprobed[][8] = { "dlmopen", "dlvsym" };
	const void *first;

	for (const struct entry_point *row = cuda_entries; row < cuda_entries + CUDA_ENTRIES;
	     row++) {
		first = entry_must_be_seen(row) ? loaded_first(row->symbol) : NULL;
		if (first && first != entry_exported(row))
			bypass_note_owner(BYPASS_PRECEDING, first);
	}
	if (first_dlsym && (void *)first_dlsym != bypass_loader("dlsym") &&
	    first_dlsym(loaded_program(), bypass_probe) != (const void *)bypass_probe)
		bypass_note_owner(BYPASS_PRECEDING, (const void *)first_dlsym);
	if (first_dlopen && (void *)first_dlopen != bypass_loader("dlopen") &&
	    first_dlopen(bypass_probe_file, RTLD_LAZY) != loaded_program())
		bypass_note_owner(BYPASS_PRECEDING, (const void *)first_dlopen);
	/* These have no name that a probe could hand on. */
	for (size_t i = 0; i < sizeof(unprobed) / sizeof(unprobed[0]); i++) {
		first = loaded_first(unprobed[i]);
		if (first && first != bypass_loader(unprobed[i]))
			bypass_note_owner(BYPASS_PRECEDING, first);
	}
}

/* Each thread that finds the first check due completes it: a record is used only after the thread's
 * own check. */
__attribute__((cold)) void bypass_check_now(void)
{
	static _Atomic bool is_checked;
	int saved_errno = errno;
	const char *auditor;

	if (!load_acquire(&is_checked)) {
		bypass_check_scope();
		auditor = loaded_auditor();
		if (auditor)
			bypass_note(BYPASS_AUDITOR, *auditor ? auditor : "an object");
		/* Before the constructor audit libraries are not known. */
		store_release(&is_checked, process_begins);
	}
	/* The store precedes the report: a cause stored from here on sets the flag anew. */
	store_seq_cst(&bypass_is_pending, !process_begins);
	bypass_report();
	errno = saved_errno;
}

AT_START void bypass_check_hidden(void)
{
	int found = load_seq_cst(&cause), saved_errno;

	/* An inert process binds no function lazily, not even that of errno. */
	if (!found)
		return;
	saved_errno = errno;
	/* A program without the driver may open any object with RTLD_DEEPBIND, and look up any
	 * dlopen. The driver of another namespace is not found. */
	if (!process_is_passive() &&
	    ((found != BYPASS_DEEPBIND && found != BYPASS_LOADER) || driver_served(NULL))) {
		process_activate(); /* an active process writes its requested files */
		bypass_report();
	}
	errno = saved_errno;
}

/* ---- pointers to the functions that load and look up ---- */

typedef void loader_function(void);

extern loader_function exported_dlopen __asm__("dlopen");
extern loader_function exported_dlmopen __asm__("dlmopen");
extern loader_function exported_dlvsym __asm__("dlvsym");
extern loader_function exported_dlsym __asm__("dlsym");

static const struct {
	char name[8]; /* not a pointer, which the dynamic linker would relocate in every process */
	loader_function *ours;
} loaders[] = {
	{ "dlopen", exported_dlopen },
	{ "dlmopen", exported_dlmopen },
	{ "dlvsym", exported_dlvsym },
	{ "dlsym", exported_dlsym },
};

void *bypass_loader(const char *symbol)
{
	if (symbol[0] != 'd' || symbol[1] != 'l')
		return NULL;
	for (size_t i = 0; i < sizeof(loaders) / sizeof(loaders[0]); i++) {
		if (text_equals(loaders[i].name, symbol))
			return (void *)loaders[i].ours;
	}
	return NULL;
}

bool bypass_is_only_loader(const char *symbol)
{
	return loaded_first(symbol) == bypass_loader(symbol) &&
	       loaded_next_before_libc(symbol) == loaded_in_libc(symbol);
}

void bypass_note_loader(const char *symbol, const void *caller)
{
	if (!loaded_at(caller, symbol))
		bypass_note(BYPASS_LOADER, symbol);
}

void *bypass_loader_found(void *found, const char *symbol, const void *caller)
{
	if (!found || !loaded_share_object(found, loaded_in_libc(symbol)))
		return found;
	if (bypass_is_only_loader(symbol))
		return bypass_loader(symbol);
	bypass_note_loader(symbol, caller);
	return found;
}

/* ---- the exported functions ---- */

/* libc's definition, or that of another preload after this one. */
static void *bypass_next_of(_Atomic(void *) *place, const char *symbol)
{
	void *found = load_acquire(place);

	if (!found) {
		found = loaded_next_before_libc(symbol);
		store_release(place, found);
	}
	return found;
}

/* The driver's own libraries free nothing of the program's. */
static bool bypass_is_driver(const void *caller)
{
	char name[LOADED_NAME] = "";

	loaded_name_at(caller, name, NULL);
	return text_begins(name, "libcuda.so") || text_begins(name, "libnvidia-");
}

static void bypass_note_load(enum bypass_cause of, const char *file, int mode, const void *caller)
{
	if (file && !(mode & RTLD_NOLOAD) && !bypass_is_driver(caller))
		bypass_note(of, file);
}

struct verdict dlopen_decide(const char *file, int mode, const void *unused, const void *caller)
{
	static _Atomic(void *) next;

	(void)unused;
	if (file == bypass_probe_file)
		return (struct verdict){ .jump = (void *)bypass_answer };
	loaded_begin_load(mode);
	if (mode & RTLD_DEEPBIND)
		bypass_note_load(BYPASS_DEEPBIND, file, mode, caller);
	return (struct verdict){ .jump = bypass_next_of(&next, "dlopen") };
}

struct verdict dlmopen_decide(long name_space, const char *file, int mode, const void *caller)
{
	static _Atomic(void *) next;

	loaded_begin_load(mode);
	if (name_space != LM_ID_BASE)
		bypass_note_load(BYPASS_NAMESPACE, file, mode, caller);
	else if (mode & RTLD_DEEPBIND)
		bypass_note_load(BYPASS_DEEPBIND, file, mode, caller);
	return (struct verdict){ .jump = bypass_next_of(&next, "dlmopen") };
}

static _Atomic(void *) next_dlvsym;

static void *bypass_dlvsym(void *handle, const char *symbol, const char *version)
{
	void *(*next)(void *, const char *, const char *) = bypass_next_of(&next_dlvsym, "dlvsym");

	return next(handle, symbol, version);
}

/* The only definitions are this library's and libc's: RTLD_DEFAULT serves for RTLD_NEXT, which
 * depends on the caller. */
static void *bypass_dlvsym_loader(void *handle, const char *symbol, const char *version)
{
	void *scope = handle == RTLD_NEXT ? RTLD_DEFAULT : handle;

	return bypass_loader_found(bypass_dlvsym(scope, symbol, version), symbol,
				   __builtin_return_address(0));
}

/* NCCL looks ibv_alloc_pd up by dlvsym. */
static void *bypass_dlvsym_alloc_pd(void *handle, const char *symbol, const char *version)
{
	return verbs_client_entry(bypass_dlvsym(handle, symbol, version));
}

struct verdict dlvsym_decide(void *handle, const char *symbol, const char *version,
			     const void *caller)
{
	bool by_scope = handle == RTLD_NEXT || handle == RTLD_DEFAULT;

	(void)version;

	if (symbol && bypass_loader(symbol) && (!by_scope || bypass_is_only_loader(symbol)))
		return (struct verdict){ .jump = (void *)bypass_dlvsym_loader };
	/* The version skips the exports of preloads, which have none. */
	if (symbol && bypass_loader(symbol))
		bypass_note_loader(symbol, caller);
	if (symbol && !by_scope && verbs_client_is_entry(symbol))
		return (struct verdict){ .jump = (void *)bypass_dlvsym_alloc_pd };
	return (struct verdict){ .jump = bypass_next_of(&next_dlvsym, "dlvsym") };
}
