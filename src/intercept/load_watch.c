/* SPDX-License-Identifier: BSD-3-Clause */
/* load_watch.c -- notes loads that may go past us, and who could begin one unnoticed
 *
 * Why nothing else bypasses: the scope of a plainly loaded object begins with the program's, whose order never
 * changes. Libc's own loads (name services, conversions, unwinding) are plain. Objects that were bound to libc's dlopen
 * were opened past us themselves, so that is noted, or stand in a namespace that an auditor has: bypass.c counts
 * those. What remains are pointers to libc's functions: looking them up by dlsym or dlvsym is noted.
 */
#include "intercept/load_watch.h"

#include <stddef.h>

#include "base/system.h"
#include "base/text.h"
#include "intercept/entry_points.h"

_Atomic bool load_watch_go_past;

typedef void loader_function(void);

extern loader_function exported_dlopen __asm__("dlopen");
extern loader_function exported_dlmopen __asm__("dlmopen");
extern loader_function exported_dlvsym __asm__("dlvsym");
extern loader_function exported_dlsym __asm__("dlsym");

static const struct {
	char name[8]; /* not a pointer, which would have to be filled in in every process */
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

static bool is_ours(const void *found, const char *symbol)
{
	for (size_t i = 0; i < LOADERS; i++) {
		if (text_equals(loaders[i].name, symbol))
			return found == (const void *)loaders[i].ours;
	}
	return false;
}

void load_watch_looked_up(void *handle, const char *symbol)
{
	/* What comes first for all is ours; what comes next is somebody else's, and whose depends on the caller. */
	if (handle == RTLD_DEFAULT || load_watch_are_noted())
		return;
	if (handle == RTLD_NEXT || !is_ours(system_dlsym(handle, symbol), symbol))
		load_watch_note();
}

bool load_watch_come_here(void)
{
	void *program = system_own_scope();

	for (size_t i = 0; program && i < LOADERS; i++) {
		if (system_dlsym(program, loaders[i].name) != (void *)loaders[i].ours)
			return false;
	}
	return program && entry_come_first(program);
}

/* Libc's, or that of another preload behind us. */
static void *next_of(_Atomic(void *) *place, const char *symbol)
{
	void *found = atomic_load_explicit(place, memory_order_acquire);

	if (!found) {
		found = system_next(symbol);
		atomic_store_explicit(place, found, memory_order_release);
	}
	return found;
}

void *dlopen_decide(const char *file, int mode)
{
	static _Atomic(void *) next;

	(void)file;
	if (mode & RTLD_DEEPBIND)
		load_watch_note();
	return next_of(&next, "dlopen");
}

void *dlmopen_decide(void)
{
	static _Atomic(void *) next;

	load_watch_note();
	return next_of(&next, "dlmopen");
}

void *dlvsym_decide(void *handle, const char *symbol)
{
	static _Atomic(void *) next;

	(void)handle;
	if (symbol && load_watch_is_loader(symbol))
		load_watch_note();
	return next_of(&next, "dlvsym");
}
