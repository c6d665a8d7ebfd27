/* SPDX-License-Identifier: BSD-3-Clause */
/* resolve.c -- decisions of the exported dlsym
 *
 * dlsym is one unversioned symbol, which satisfies references of any version.
 */
#include "intercept/resolve.h"

#include "base/config.h"
#include "base/process.h"
#include "base/system.h"
#include "base/text.h"
#include "intercept/bypass.h"
#include "intercept/entry_points.h"
#include "intercept/load_watch.h"
#include "intercept/verbs.h"

typedef void *dlsym_function(void *handle, const char *symbol);

static dlsym_function *next_dlsym; /* libc's, or another preload's; stored atomically */

/* Another preload may override dlsym too; its override stays in the chain. */
static dlsym_function *resolve_next_dlsym(void)
{
	dlsym_function *found = __atomic_load_n(&next_dlsym, __ATOMIC_ACQUIRE);

	if (!found) {
		found = (dlsym_function *)system_next("dlsym");
		__atomic_store_n(&next_dlsym, found, __ATOMIC_RELEASE);
	}
	return found;
}

/* As the caller's look-up would be without peerpin: with another preload's answer, if it has one.
 */
static void *resolve_in_chain(void *handle, const char *symbol)
{
	return resolve_next_dlsym()(handle, symbol);
}

bool resolve_same_object(const void *one, const void *other)
{
	Dl_info first, second;

	return system_dladdr(one, &first) && system_dladdr(other, &second) &&
	       first.dli_fbase == second.dli_fbase;
}

static bool resolve_is_in_object(const void *address, const char *const *prefixes)
{
	const char *name;
	Dl_info object;

	if (!system_dladdr(address, &object) || !object.dli_fname)
		return false;
	name = text_file_name(object.dli_fname);
	for (; *prefixes; prefixes++) {
		if (text_begins(name, *prefixes))
			return true;
	}
	return false;
}

bool resolve_is_in_driver(const void *address)
{
	static const char *const driver_objects[] = { "libcuda.so", NULL };

	return resolve_is_in_object(address, driver_objects);
}

static const char *const ucx_objects[] = { "libucm", "libucs", NULL };

/* Last function that UCX looked up to patch it; stored atomically. UCX stops at the first function
 * that it cannot patch. */
static const struct entry_point *ucx_target;

/* The mode may be a list. */
static bool resolve_ucx_relocates(void)
{
	const char *mode = system_environment("UCX_MEM_CUDA_HOOK_MODE");

	for (; mode && *mode; mode++) {
		if (text_begins_in_any_case(mode, "reloc"))
			return true;
	}
	return false;
}

/* UCX patches the code at the address it gets. A wrapper's address would leave callers that bypass
 * peerpin without UCX's hooks. */
static bool resolve_ucx_patches(const struct entry_point *row)
{
	if (resolve_ucx_relocates())
		return false;
	__atomic_store_n(&ucx_target, row, __ATOMIC_RELAXED);
	return true;
}

/* In mode reloc UCX calls the address it gets, from its own hook, which the program's calls reach
 * in place of peerpin's: with the driver's address they would bypass peerpin. NULL: UCX's look-up
 * is to find what it finds. */
static void *resolve_next_for_ucx(const struct entry_point *row)
{
	if (resolve_ucx_patches(row) || process_is_passive_early())
		return NULL;
	entry_find_driver();
	return __atomic_load_n(entry_driver_of(row), __ATOMIC_ACQUIRE) ? entry_through_pointer(row)
								       : NULL;
}

bool resolve_ucx_is_unhooked(void)
{
#ifdef __x86_64__
	/* `sub $imm8, %rsp`, with which functions of drivers 575 and newer begin. UCX 1.13.1 to
	 * 1.18.0 cannot move it (openucx/ucx#10627). */
	static const unsigned char begin[] = { 0x48, 0x83, 0xec };
	const struct entry_point *row = __atomic_load_n(&ucx_target, __ATOMIC_RELAXED);
	const void *code = row ? __atomic_load_n(entry_driver_of(row), __ATOMIC_ACQUIRE) : NULL;

	/* The driver may have been unloaded. */
	return code && resolve_is_in_driver(code) &&
	       __builtin_memcmp(code, begin, sizeof(begin)) == 0;
#else
	return false;
#endif
}

void *resolve_of_preload(void *wrapper)
{
	for (const struct entry_point *row = cuda_entries; row < cuda_entries + CUDA_ENTRIES;
	     row++) {
		if (wrapper == entry_exported(row) ||
		    wrapper == system_dlsym(RTLD_NEXT, row->symbol))
			return entry_exported(row);
	}
	bypass_note(wrapper);
	return wrapper;
}

static void *resolve_row(const struct entry_point *row, void *handle, const char *symbol,
			 void *caller)
{
	void *real = resolve_in_chain(handle, symbol), *plain;

	if (!real)
		return NULL;
	/* A handle of the program itself finds this library's export too. */
	if (real == entry_exported(row) && entry_is_only_ours(RTLD_DEFAULT, symbol))
		return NULL;
	if (!__atomic_load_n(entry_driver_of(row), __ATOMIC_ACQUIRE) &&
	    resolve_is_in_driver(real)) {
		entry_learn_driver(handle, real);
		/* Repeat the look-up: functions that the driver lacks left an error behind, and
		 * dlerror() must return that of the caller's own look-up. */
		real = resolve_in_chain(handle, symbol);
	}
	if (real == __atomic_load_n(entry_driver_of(row), __ATOMIC_ACQUIRE))
		return (resolve_is_in_object(caller, ucx_objects) && resolve_ucx_patches(row)) ||
				       resolve_is_in_driver(caller)
			       ? real
			       : entry_through_pointer(row);
	if (real == entry_exported(row))
		return real;
	/* A function of another copy of the driver: calls of it bypass peerpin. */
	if (resolve_is_in_driver(real)) {
		load_watch_note();
		return real;
	}
	/* A library's own function, or another preload's, which its own look-ups do not return. */
	plain = system_dlsym(handle, symbol);
	if (plain == real || resolve_same_object(caller, real))
		return plain;
	return resolve_of_preload(real);
}

/* ibv_alloc_pd, whose wrapper needs its caller. */
static void *resolve_alloc_pd(void *handle, const char *symbol)
{
	void *entry = verbs_client_entry(system_dlsym(handle, symbol));

	/* A handle of the program itself finds this library's export too. */
	if (entry == (void *)ibv_alloc_pd && entry_is_only_ours(RTLD_DEFAULT, symbol))
		return NULL;
	/* Repeat the look-up for dlerror(): the rows' look-ups left errors of their own. */
	return system_dlsym(handle, symbol) ? entry : NULL;
}

struct dlsym_verdict dlsym_decide(void *handle, const char *symbol, void *caller)
{
	struct dlsym_verdict verdict = { .jump = resolve_next_dlsym() };
	const struct entry_point *row;

	/* RTLD_NEXT and RTLD_DEFAULT depend on the caller's address, which only a jump keeps. They
	 * find this library's export, or a definition after it. */
	if (!symbol)
		return verdict;
	if (load_watch_is_loader(symbol))
		load_watch_looked_up(handle, symbol);
	row = entry_find(symbol);
	if (handle == RTLD_NEXT || handle == RTLD_DEFAULT) {
		/* UCX looks up functions by RTLD_NEXT, and finds the driver's. */
		if (entry_is_only_ours(handle, symbol))
			verdict.jump = NULL;
		else if (row && resolve_is_in_object(caller, ucx_objects) &&
			 (verdict.answer = resolve_next_for_ucx(row)))
			verdict.jump = NULL;
		return verdict;
	}
	if (verbs_client_is_entry(symbol)) {
		verdict.jump = resolve_alloc_pd;
		return verdict;
	}
	if (!row || process_is_passive_early())
		return verdict;
	verdict.jump = NULL;
	verdict.answer = resolve_row(row, handle, symbol, caller);
	return verdict;
}
