/* SPDX-License-Identifier: BSD-3-Clause */
/* resolve.c -- look-ups by the exported dlsym and by cuGetProcAddress
 *
 * dlsym is one unversioned symbol, which satisfies references of any version.
 */
#include <dlfcn.h>

#include "base/config.h"
#include "base/loaded.h"
#include "base/process.h"
#include "base/start.h"
#include "base/system.h"
#include "base/text.h"
#include "intercept/bypass.h"
#include "intercept/entry_points.h"
#include "intercept/verbs.h"
#include "memory/driver.h"

typedef void *dlsym_function(void *handle, const char *symbol);

static dlsym_function *next_dlsym; /* libc's, or another preload's; stored atomically */

/* Another preload may override dlsym too; its override stays in the chain. */
static dlsym_function *resolve_next_dlsym(void)
{
	dlsym_function *found = __atomic_load_n(&next_dlsym, __ATOMIC_ACQUIRE);

	if (!found) {
		found = (dlsym_function *)loaded_next_before_libc("dlsym");
		__atomic_store_n(&next_dlsym, found, __ATOMIC_RELEASE);
	}
	return found;
}

/* The caller's own look-up, once, as without peerpin: with another preload's answer, if it has one.
 * libc's state of the thread (dlerror) is then as without peerpin. */
static void *resolve_in_chain(void *handle, const char *symbol)
{
	return resolve_next_dlsym()(handle, symbol);
}

/* The caller's look-up finds nothing: it fails as libc's does. */
static void *resolve_nothing(void *handle, const char *symbol)
{
	void *found;

	(void)handle;
	found = system_dlsym(RTLD_NEXT, symbol);
	return found;
}

static bool resolve_is_in_object(const void *address, const char *const *prefixes)
{
	char name[LOADED_NAME];

	if (!loaded_name_at(address, name, NULL))
		return false;
	for (; *prefixes; prefixes++) {
		if (text_begins(name, *prefixes))
			return true;
	}
	return false;
}

/* True if the symbol's function lies in the served driver, in another copy of the driver, or in
 * another namespace. The latter two may bypass peerpin (bypass.h). */
static bool resolve_is_known(const void *function, const char *symbol)
{
	const void *driver = driver_served(NULL);

	if (driver && loaded_share_object(function, driver))
		return true;
	/* A function of another copy of the driver: calls of it bypass peerpin. */
	if (driver_contains(function)) {
		bypass_note_owner(BYPASS_SECOND_DRIVER, function);
		return true;
	}
	/* A function in no object is of another namespace, perhaps of its driver. */
	if (!loaded_name_at(function, NULL, NULL)) {
		bypass_note(BYPASS_FOREIGN, symbol);
		return true;
	}
	return false;
}

static const char *const ucx_objects[] = { "libucm", "libucs", NULL };

/* Last function that UCX looked up to patch it; stored atomically. UCX stops at the first function
 * that it cannot patch. */
static const struct entry_point *ucx_target;

/* The mode may be a list. */
static bool resolve_ucx_relocates(void)
{
	const char *mode = start_variable("UCX_MEM_CUDA_HOOK_MODE");

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
	entry_find_driver(NULL);
	return __atomic_load_n(entry_driver_of(row), __ATOMIC_ACQUIRE) ? entry_through_pointer(row)
								       : NULL;
}

#ifdef __x86_64__
/* `sub $imm8, %rsp`, with which functions of drivers 575 and newer begin. UCX 1.12.1 to 1.18.0
 * cannot move it (openucx/ucx#10627). */
static void resolve_check_beginning(const struct object_tables *tables, void *is_unhooked)
{
	static const unsigned char begin[] = { 0x48, 0x83, 0xec };
	const void *code =
		object_find(tables, __atomic_load_n(&ucx_target, __ATOMIC_RELAXED)->symbol);

	*(bool *)is_unhooked = code && __builtin_memcmp(code, begin, sizeof(begin)) == 0;
}
#endif

bool resolve_ucx_is_unhooked(void)
{
	bool is_unhooked = false;
#ifdef __x86_64__
	const void *driver = driver_served(NULL);

	if (driver && __atomic_load_n(&ucx_target, __ATOMIC_RELAXED))
		loaded_read_at(driver, resolve_check_beginning, &is_unhooked);
#endif
	return is_unhooked;
}

/* Replaces a function of another preload that this preload's look-up returned for a row: by the
 * exported entry that forwards to it. If there is none, calls of the function bypass peerpin. */
static void *resolve_of_preload(void *wrapper)
{
	for (const struct entry_point *row = cuda_entries; row < cuda_entries + CUDA_ENTRIES;
	     row++) {
		if (wrapper == entry_exported(row) || wrapper == loaded_next(row->symbol, NULL))
			return entry_exported(row);
	}
	bypass_note_owner(BYPASS_WRAPPER, wrapper);
	return wrapper;
}

/* True if a look-up in the function's own library finds it. An override of dlsym may return another
 * function than libc's. */
static bool resolve_is_library_own(const void *function, const char *symbol)
{
	return resolve_next_dlsym() == (dlsym_function *)system_libc_dlsym() ||
	       (loaded_at(function, symbol) == function && !loaded_at(function, "dlsym"));
}

static void *resolve_row(const struct entry_point *row, void *handle, const char *symbol,
			 const void *caller)
{
	void *real = resolve_in_chain(handle, symbol);

	if (!real)
		return NULL;
	/* A handle of the program itself finds this library's export too. */
	if (real == entry_exported(row))
		return entry_is_only_ours(RTLD_DEFAULT, symbol) ? resolve_nothing(handle, symbol)
								: real;
	entry_find_driver(real);
	if (real == __atomic_load_n(entry_driver_of(row), __ATOMIC_ACQUIRE))
		return (resolve_is_in_object(caller, ucx_objects) && resolve_ucx_patches(row)) ||
				       driver_contains(caller)
			       ? real
			       : entry_through_pointer(row);
	if (resolve_is_known(real, symbol) || resolve_is_library_own(real, symbol))
		return real;
	/* Another preload's function. That preload's own look-ups do not return it. */
	if (loaded_share_object(caller, real))
		return system_dlsym(handle, symbol);
	return entry_must_be_seen(row) ? resolve_of_preload(real) : real;
}

/* ibv_alloc_pd, whose wrapper needs its caller. */
static void *resolve_alloc_pd(void *handle, const char *symbol)
{
	void *entry = verbs_client_entry(system_dlsym(handle, symbol));

	/* A handle of the program itself finds this library's export too. */
	if (entry == (void *)ibv_alloc_pd && entry_is_only_ours(RTLD_DEFAULT, symbol))
		return resolve_nothing(handle, symbol);
	return entry;
}

/* A function that loads objects, or one that looks up such functions. */
static void *resolve_loader(void *handle, const char *symbol)
{
	return bypass_loader_found(resolve_in_chain(handle, symbol), symbol,
				   __builtin_return_address(0));
}

/* The only definitions are this library's and libc's: for RTLD_NEXT the first. */
static void *resolve_first_loader(void *handle, const char *symbol)
{
	(void)handle;
	return resolve_in_chain(RTLD_DEFAULT, symbol);
}

struct verdict dlsym_decide(void *handle, const char *symbol, const void *unused,
			    const void *caller)
{
	struct verdict verdict = { .jump = resolve_next_dlsym() };
	const struct entry_point *row;

	(void)unused;

	/* RTLD_NEXT and RTLD_DEFAULT depend on the caller's address, which only a jump keeps. They
	 * find this library's export, or a definition after it. */
	if (!symbol)
		return verdict;
	if (symbol == bypass_probe) {
		verdict.jump = NULL;
		verdict.answer = (void *)symbol;
		return verdict;
	}
	row = entry_find(symbol);
	if (handle == RTLD_NEXT || handle == RTLD_DEFAULT) {
		if (handle == RTLD_NEXT && bypass_loader(symbol) && bypass_is_only_loader(symbol))
			verdict.jump = resolve_first_loader;
		else if (handle == RTLD_NEXT && bypass_loader(symbol))
			bypass_note_loader(symbol, caller);
		/* UCX looks up functions by RTLD_NEXT, and finds the driver's. */
		else if (entry_is_only_ours(handle, symbol))
			verdict.jump = resolve_nothing;
		else if (row && resolve_is_in_object(caller, ucx_objects) &&
			 (verdict.answer = resolve_next_for_ucx(row)))
			verdict.jump = NULL;
		return verdict;
	}
	if (bypass_loader(symbol)) {
		verdict.jump = resolve_loader;
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

/* ---- cuGetProcAddress: query the driver, then route by the returned pointer ----
 *
 * Only the driver defines which function a name, a version and flags select. Routing by name
 * eventually returns a wrapper of another type (traps T9 to T13); the pointer is unambiguous. The
 * driver fills symbolStatus. It also finds cuGetProcAddress itself here, so the runtime, which
 * requests cuGetProcAddress through itself, keeps calling the wrapper.
 */

static void resolve_by_driver(CUresult result, const void *forward, const char *symbol,
			      void **function)
{
	const struct entry_point *row;

	if (result != CUDA_SUCCESS || !function || !*function ||
	    (process_is_passive() && !process_observes()))
		return;
	entry_find_driver(*function);
	row = entry_of_driver(*function);
	if (row)
		*function = entry_through_pointer(row);
	else if (symbol && (row = entry_find(symbol)) && entry_must_be_seen(row) &&
		 !resolve_is_known(*function, symbol) && !entry_of_driver(forward))
		/* Another preload answered, perhaps with its own function. */
		*function = resolve_of_preload(*function);
}

WRAP(cuGetProcAddress_v2, (symbol, function, version, flags, status), const char *symbol,
     void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	CUresult result = forward(symbol, function, version, flags, status);

	resolve_by_driver(result, (void *)forward, symbol, function);
	return result;
}

WRAP(cuGetProcAddress, (symbol, function, version, flags), const char *symbol, void **function,
     int version, cuuint64_t flags)
{
	CUresult result = forward(symbol, function, version, flags);

	resolve_by_driver(result, (void *)forward, symbol, function);
	return result;
}
