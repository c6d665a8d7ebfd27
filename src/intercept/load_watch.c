/* SPDX-License-Identifier: BSD-3-Clause */
/* load_watch.c -- notes loads that may bypass peerpin, and callers that could begin one unnoticed
 *
 * No other load bypasses peerpin. The scope of a plainly loaded object begins with the program's
 * scope, which never changes its order. libc's own loads (name services, conversions, unwinding)
 * are plain. An object bound to libc's dlopen was itself opened by a noted load, or lies in the
 * namespace of an audit library, which bypass.c reports. Pointers to libc's functions remain: a
 * look-up of them by dlsym or dlvsym is noted.
 */
#include "intercept/load_watch.h"

#include <dlfcn.h>
#include <stddef.h>

#include "base/atomics.h"
#include "base/loaded.h"
#include "base/text.h"
#include "intercept/entry_points.h"
#include "intercept/verbs.h"

_Atomic bool load_watch_go_past;

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

#define LOADERS (sizeof(loaders) / sizeof(loaders[0]))

bool load_watch_is_loader(const char *symbol)
{
	if (symbol[0] != 'd' || symbol[1] != 'l')
		return false;
	for (size_t i = 0; i < LOADERS; i++) {
		if (text_equals(loaders[i].name, symbol))
			return true;
	}
	return false;
}

void load_watch_looked_up(const void *found, const char *symbol)
{
	for (size_t i = 0; i < LOADERS; i++) {
		if (text_equals(loaders[i].name, symbol) && found != (void *)loaders[i].ours)
			load_watch_note();
	}
}

bool load_watch_come_here(void)
{
	for (size_t i = 0; i < LOADERS; i++) {
		if (loaded_first(loaders[i].name) != (void *)loaders[i].ours)
			return false;
	}
	return entry_come_first();
}

const char load_watch_probe[] = "cuMemFree_v2";

const void *load_watch_skipping_dlsym(void)
{
	void *(*first)(void *, const char *) = loaded_first("dlsym");

	if (!first || first == (__typeof__(first))exported_dlsym ||
	    first(loaded_program(), load_watch_probe) == (const void *)load_watch_probe)
		return NULL;
	return (const void *)first;
}

/* libc's definition, or that of another preload after this one. */
static void *load_watch_next_of(_Atomic(void *) *place, const char *symbol)
{
	void *found = load_acquire(place);

	if (!found) {
		found = loaded_next_before_libc(symbol);
		store_release(place, found);
	}
	return found;
}

void *dlopen_decide(const char *file, int mode)
{
	static _Atomic(void *) next;

	(void)file;
	loaded_begin_load(mode);
	if (mode & RTLD_DEEPBIND)
		load_watch_note();
	return load_watch_next_of(&next, "dlopen");
}

void *dlmopen_decide(void)
{
	static _Atomic(void *) next;

	loaded_begin_load(0);
	load_watch_note();
	return load_watch_next_of(&next, "dlmopen");
}

static void *load_watch_next_dlvsym(void)
{
	static _Atomic(void *) next;

	return load_watch_next_of(&next, "dlvsym");
}

/* As NCCL does. Only this library's own dlvsym calls it, so the next one exists. */
static void *load_watch_alloc_pd(void *handle, const char *symbol, const char *version)
{
	void *(*next)(void *, const char *, const char *) = load_watch_next_dlvsym();

	return verbs_client_entry(next(handle, symbol, version));
}

void *dlvsym_decide(void *handle, const char *symbol)
{
	void *next = load_watch_next_dlvsym();

	if (symbol && load_watch_is_loader(symbol))
		load_watch_note();
	if (next && symbol && handle != RTLD_NEXT && handle != RTLD_DEFAULT &&
	    verbs_client_is_entry(symbol))
		return (void *)load_watch_alloc_pd;
	return next;
}
