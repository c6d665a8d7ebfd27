/* SPDX-License-Identifier: BSD-3-Clause */
/* loaded.c -- walks over the loaded objects
 *
 * dl_iterate_phdr is the only function of the dynamic linker that has kept its name, its version
 * and its library. It reports the caller's namespace, in whichever namespace its own libc is.
 */
#include "base/loaded.h"

#include <dlfcn.h>

#include "base/atomics.h"
#include "base/kernel.h"
#include "base/text.h"

/* Weak: the library needs libc alone. A program that holds a copy has the same list. */
extern struct r_debug _r_debug __attribute__((weak));

void *loaded_program(void)
{
	return &_r_debug ? _r_debug.r_map : NULL;
}

typedef int walk_function(loaded_visit *visit, void *argument);

/* Without a lock: the objects up to libc were loaded with the program, and never leave. */
static walk_function *loaded_find_walk(void)
{
	const struct link_map *object = loaded_program();
	struct object_tables tables;

	while (object && !text_equals(text_file_name(object->l_name), "libc.so.6"))
		object = object->l_next;
	if (!object || !object_read_dynamic(object->l_addr, object->l_ld, &tables))
		return NULL;
	return (walk_function *)object_find(&tables, "dl_iterate_phdr");
}

static _Atomic int owner; /* the process that takes the lock; 0: before the constructor */

int loaded_walk(loaded_visit *visit, void *argument)
{
	static walk_function *cached; /* racing threads store equal values */
	walk_function *walk = __atomic_load_n(&cached, __ATOMIC_ACQUIRE);
	int takes_lock = load_relaxed(&owner), result = 0;

	if (takes_lock && takes_lock != kernel_process())
		return loaded_walk_alone(visit, argument);
	if (!walk) {
		walk = loaded_find_walk();
		__atomic_store_n(&cached, walk, __ATOMIC_RELEASE);
	}
	if (walk)
		result = walk(visit, argument);
	/* No tail call: libc takes the return address for the caller, and its namespace. */
	__asm__ volatile("" : "+r"(result));
	return result;
}

/* ---- by scope ---- */

static bool loaded_is_libc(const char *name)
{
	static const char libraries[][16] = { "libc.so.6", "libdl.so.2", "libpthread.so.0" };

	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		if (text_equals(name, libraries[i]))
			return true;
	}
	return false;
}

struct scope_search {
	const char *symbol;
	bool behind;	 /* only objects after this library */
	bool only_libc;	 /* only libc's objects; set once libc is passed */
	bool has_passed; /* this library */
	void *found;
};

/* True: the object may define the symbol. The kernel's object is in no scope. */
static bool loaded_is_in_scope(struct scope_search *search, const char *name, bool ours)
{
	bool libc = loaded_is_libc(name);
	bool in_scope = (search->behind ? search->has_passed : true) &&
			(libc || !search->only_libc) && !text_begins(name, "linux-vdso");

	search->has_passed |= ours;
	search->only_libc |= libc;
	return in_scope;
}

static int loaded_search_scope(struct dl_phdr_info *object, size_t size, void *argument)
{
	struct scope_search *search = argument;
	bool ours = object_contains(object, (uintptr_t)&loaded_search_scope);
	struct object_tables tables;

	(void)size;
	if (loaded_is_in_scope(search, object_file_name(object), ours) &&
	    object_read(object, &tables))
		search->found = object_find(&tables, search->symbol);
	return search->found != NULL;
}

/* Searches the objects from this library, or the program, to libc. They never leave, so no lock is
 * needed: in a child of fork the thread that held it may be missing. Nothing is found in another
 * namespace than the program's. */
static void *loaded_search_start(struct scope_search search)
{
	struct object_tables tables;
	bool libc = false;

	for (const struct link_map *object = loaded_program(); object && !libc;
	     object = object->l_next) {
		const char *name = text_file_name(object->l_name);

		libc = text_equals(name, "libc.so.6");
		if (loaded_is_in_scope(&search, name, object->l_ld == _DYNAMIC) && !search.found &&
		    object_read_dynamic(object->l_addr, object->l_ld, &tables))
			search.found = object_find(&tables, search.symbol);
	}
	return search.has_passed ? search.found : NULL;
}

static void *loaded_search(struct scope_search search)
{
	void *found = loaded_search_start(search);

	if (found)
		return found;
	loaded_walk(loaded_search_scope, &search);
	return search.found;
}

void *loaded_in_libc(const char *symbol)
{
	return loaded_search((struct scope_search){ .symbol = symbol, .only_libc = true });
}

void *loaded_first(const char *symbol)
{
	return loaded_search((struct scope_search){ .symbol = symbol });
}

void *loaded_next_before_libc(const char *symbol)
{
	void *found = loaded_search((struct scope_search){ .symbol = symbol, .behind = true });

	return found ? found : loaded_in_libc(symbol);
}

/* ---- objects loaded with the program ---- */

static _Atomic uint32_t start_objects; /* 0: not counted yet: at the first load */
static _Atomic bool is_audited, scope_has_grown;

struct start_count {
	uint32_t here;
	uint64_t everywhere; /* in all namespaces */
};

static int loaded_count(struct dl_phdr_info *object, size_t size, void *argument)
{
	struct start_count *count = argument;

	(void)size;
	count->here++;
	count->everywhere = object->dlpi_adds - object->dlpi_subs;
	return 0;
}

static struct start_count loaded_count_start(void)
{
	struct start_count count = { .here = 0 };
	uint32_t unset = 0;

	if (!load_relaxed(&start_objects)) {
		loaded_walk(loaded_count, &count);
		replace_seq_cst(&start_objects, &unset, count.here);
	}
	return count;
}

/* DT_AUDIT or DT_DEPAUDIT of the program; glibc reads those of no other object. */
static bool loaded_names_auditors(void)
{
	const struct link_map *program = loaded_program();

	for (const ElfW(Dyn) *entry = program ? program->l_ld : NULL;
	     entry && entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_AUDIT || entry->d_tag == DT_DEPAUDIT)
			return true;
	}
	return false;
}

void loaded_begin(bool may_be_audited)
{
	struct start_count count;

	if (may_be_audited || loaded_names_auditors()) {
		count = loaded_count_start();
		store_relaxed(&is_audited, count.everywhere != count.here);
	}
	store_relaxed(&owner, kernel_process());
}

void loaded_begin_load(int mode)
{
	loaded_count_start();
	/* In a child too: a load takes the lock, or waits for it whatever happens here. */
	store_relaxed(&owner, kernel_process());
	if (mode & RTLD_GLOBAL)
		store_relaxed(&scope_has_grown, true);
}

/* struct r_debug_extended of glibc 2.35 and newer; older ones have version 1. */
struct namespace
{
	struct r_debug objects;
	const struct namespace *next;
};

/* DT_DEBUG, not _r_debug: a program's copy of that lacks `next`. */
const char *loaded_auditor(void)
{
	const struct link_map *program = loaded_program();
	const struct namespace *here = NULL;

	if (!load_relaxed(&is_audited))
		return NULL;
	for (const ElfW(Dyn) *entry = program->l_ld; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_DEBUG)
			here = (const struct namespace *)entry->d_un.d_ptr;
	}
	if (!here || here->objects.r_version < 2 || !here->next || !here->next->objects.r_map)
		return "";
	return text_file_name(here->next->objects.r_map->l_name);
}

struct next_search {
	const char *symbol;
	uint32_t visited;
	bool is_behind, stays;
	void *found;
};

static int loaded_search_next(struct dl_phdr_info *object, size_t size, void *argument)
{
	struct next_search *search = argument;
	uint32_t start = load_relaxed(&start_objects);
	struct object_tables tables;

	(void)size;
	search->stays = !start || search->visited++ < start;
	if (!search->stays && !load_relaxed(&scope_has_grown))
		return 1;
	if (object_contains(object, (uintptr_t)&loaded_search_next))
		search->is_behind = true;
	else if (search->is_behind && object_read(object, &tables))
		search->found = object_find(&tables, search->symbol);
	return search->found != NULL;
}

void *loaded_next(const char *symbol, bool *stays)
{
	struct next_search search = { .symbol = symbol };

	loaded_walk(loaded_search_next, &search);
	if (stays)
		*stays = search.found && search.stays;
	return search.found;
}

/* ---- by soname ---- */

bool loaded_is_library(const struct object_tables *tables, const char *soname)
{
	return text_equals(tables->soname, soname);
}

struct use {
	const char *soname;
	const void *address;
	loaded_use *use;
	void *argument;
};

static int loaded_use_library(struct dl_phdr_info *object, size_t size, void *argument)
{
	const struct use *use = argument;
	struct object_tables tables;

	(void)size;
	if (!object_read(object, &tables) || !loaded_is_library(&tables, use->soname))
		return 0;
	use->use(&tables, use->argument);
	return 1;
}

bool loaded_read_library(const char *soname, loaded_use *use, void *argument)
{
	struct use search = { .soname = soname, .use = use, .argument = argument };

	return loaded_walk(loaded_use_library, &search);
}

struct definition {
	const char *symbol;
	void *found;
};

static void loaded_define(const struct object_tables *tables, void *argument)
{
	struct definition *definition = argument;

	definition->found = object_find(tables, definition->symbol);
}

void *loaded_in_library(const char *soname, const char *symbol)
{
	struct definition definition = { .symbol = symbol };

	loaded_read_library(soname, loaded_define, &definition);
	return definition.found;
}

/* ---- by address ---- */

static int loaded_use_at(struct dl_phdr_info *object, size_t size, void *argument)
{
	const struct use *use = argument;
	struct object_tables tables;

	(void)size;
	if (!object_contains(object, (uintptr_t)use->address))
		return 0;
	if (object_read(object, &tables))
		use->use(&tables, use->argument);
	return 1;
}

bool loaded_read_at(const void *address, loaded_use *use, void *argument)
{
	struct use search = { .address = address, .use = use, .argument = argument };

	return loaded_walk(loaded_use_at, &search);
}

void *loaded_at(const void *address, const char *symbol)
{
	struct definition definition = { .symbol = symbol };

	loaded_read_at(address, loaded_define, &definition);
	return definition.found;
}

struct owner {
	const void *address;
	char *name;
	const void *first;
};

static int loaded_name_owner(struct dl_phdr_info *object, size_t size, void *argument)
{
	struct owner *owner = argument;

	(void)size;
	if (!object_contains(object, (uintptr_t)owner->address))
		return 0;
	owner->first = object_part(object, PT_LOAD);
	if (owner->name)
		text_copy(owner->name, LOADED_NAME, object_file_name(object));
	return 1;
}

bool loaded_name_at(const void *address, char name[LOADED_NAME], const void **first)
{
	struct owner owner = { .address = address, .name = name };
	bool found = loaded_walk(loaded_name_owner, &owner);

	if (first)
		*first = owner.first;
	return found;
}

bool loaded_share_object(const void *one, const void *other)
{
	const void *first, *second;

	return loaded_name_at(one, NULL, &first) && loaded_name_at(other, NULL, &second) &&
	       first == second;
}

/* ---- changes ---- */

static int loaded_read_changes(struct dl_phdr_info *object, size_t size, void *changes)
{
	(void)size;
	*(uint64_t *)changes = object->dlpi_adds + object->dlpi_subs;
	return 1;
}

uint64_t loaded_changes(void)
{
	uint64_t changes = 0;

	loaded_walk(loaded_read_changes, &changes);
	return changes;
}

struct name_search {
	const char *beginning;
	uint64_t known, changes; /* known: changes << 1 | cached answer */
	bool found;
};

static int loaded_look_for(struct dl_phdr_info *object, size_t size, void *argument)
{
	struct name_search *search = argument;

	(void)size;
	search->changes = object->dlpi_adds + object->dlpi_subs;
	if (search->changes == search->known >> 1) {
		search->found = search->known & 1;
		return 1;
	}
	search->found = text_begins(object_file_name(object), search->beginning);
	return search->found;
}

bool loaded_has(const char *beginning, _Atomic uint64_t *answer)
{
	struct name_search search = { .beginning = beginning, .known = load_relaxed(answer) };

	loaded_walk(loaded_look_for, &search);
	store_relaxed(answer, search.changes << 1 | search.found);
	return search.found;
}
