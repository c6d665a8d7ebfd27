/* SPDX-License-Identifier: BSD-3-Clause */
/* loaded.c -- reads the symbol tables of loaded objects, and walks over their list
 *
 * dl_iterate_phdr is the only function of the dynamic linker that has kept its name, its version
 * and its library. It reports the caller's namespace, in whichever namespace its own libc is.
 */
#include "base/loaded.h"

#include <dlfcn.h>

#include "base/atomics.h"
#include "base/kernel.h"
#include "base/start.h"
#include "base/text.h"

/* ---- the dynamic section of an object ---- */

static ElfW(Addr) object_distance(ElfW(Addr) one, ElfW(Addr) other)
{
	return one < other ? other - one : one - other;
}

/* glibc relocates some addresses of a dynamic section in place, and none of objects mapped by the
 * kernel; other loaders relocate none. Both readings are tried: the tables of an object lie near
 * its dynamic section. An object loaded below its link address has a `base` that wraps around. */
static const void *object_relocated(ElfW(Addr) base, const ElfW(Dyn) * entry)
{
	ElfW(Addr) value = entry->d_un.d_ptr, at = (ElfW(Addr))entry;

	return (const void *)(object_distance(value, at) < object_distance(base + value, at)
				      ? value
				      : base + value);
}

static AT_START bool object_read_dynamic(ElfW(Addr) base, const ElfW(Dyn) * dynamic,
					 struct object_tables *tables)
{
	ElfW(Addr) soname = 0;

	*tables = (struct object_tables){ .base = base };
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		const void *value = object_relocated(base, dynamic);

		switch (dynamic->d_tag) {
		case DT_SYMTAB:
			tables->symbols = value;
			break;
		case DT_STRTAB:
			tables->strings = value;
			break;
		case DT_VERSYM:
			tables->versions = value;
			break;
		case DT_SONAME:
			soname = dynamic->d_un.d_val;
			break;
		case DT_VERDEF:
			tables->defined_versions = value;
			break;
		case DT_GNU_HASH:
			tables->hash = value;
			break;
		case DT_HASH:
			tables->old_hash = value;
			break;
		default:
			break;
		}
	}
	if (!tables->symbols || !tables->strings)
		return false;
	tables->soname = soname ? tables->strings + soname : "";
	return true;
}

const void *object_part(const struct dl_phdr_info *object, ElfW(Word) type)
{
	for (ElfW(Half) i = 0; i < object->dlpi_phnum; i++) {
		if (object->dlpi_phdr[i].p_type == type)
			return (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
	}
	return NULL;
}

bool object_read(const struct dl_phdr_info *object, struct object_tables *tables)
{
	return object_read_dynamic(object->dlpi_addr, object_part(object, PT_DYNAMIC), tables);
}

#define HIDDEN_VERSION 0x8000

/* The address of symbol `i` if it is the default definition of `name`, else NULL. */
static AT_START void *object_definition(const struct object_tables *tables, uint32_t i,
					const char *name)
{
	const ElfW(Sym) *symbol = &tables->symbols[i];
	unsigned int type = ELF64_ST_TYPE(symbol->st_info);

	if (symbol->st_shndx == SHN_UNDEF || !symbol->st_value || type == STT_TLS ||
	    type == STT_GNU_IFUNC || (tables->versions && tables->versions[i] & HIDDEN_VERSION) ||
	    !text_equals(tables->strings + symbol->st_name, name))
		return NULL;
	return (void *)(tables->base + symbol->st_value);
}

/* Words of a GNU hash table: number of buckets, first symbol, words of the filter, its shift; the
 * filter; the buckets; the hash of each symbol, with bit 0 at the end of a bucket. */
static AT_START void *object_find_by_hash(const struct object_tables *tables, const char *name)
{
	const uint32_t *table = tables->hash, *bucket, *chain;
	const ElfW(Addr) *filter = (const ElfW(Addr) *)(table + 4);
	uint32_t hash = 5381, i;
	ElfW(Addr) word;
	void *found;

	for (const char *rest = name; *rest; rest++)
		hash = hash * 33 + (unsigned char)*rest;
	word = filter[hash / 64 & (table[2] - 1)];
	if (!(word >> hash % 64 & word >> (hash >> table[3]) % 64 & 1))
		return NULL;
	bucket = (const uint32_t *)(filter + table[2]);
	chain = bucket + table[0];
	i = table[0] ? bucket[hash % table[0]] : 0;
	if (i < table[1] || !i)
		return NULL;
	do {
		found = (chain[i - table[1]] | 1) == (hash | 1) ? object_definition(tables, i, name)
								: NULL;
	} while (!found && !(chain[i++ - table[1]] & 1));
	return found;
}

/* Words: numbers of buckets and of symbols; the buckets; the next symbol of each symbol. */
static void *object_find_by_old_hash(const struct object_tables *tables, const char *name)
{
	const uint32_t *table = tables->old_hash, *bucket = table + 2;
	const uint32_t *next = bucket + table[0];
	void *found = NULL;
	uint32_t hash = 0;

	for (const char *rest = name; *rest; rest++) {
		hash = (hash << 4) + (unsigned char)*rest;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	for (uint32_t i = table[0] ? bucket[hash % table[0]] : 0; i && !found; i = next[i])
		found = object_definition(tables, i, name);
	return found;
}

AT_START void *object_find(const struct object_tables *tables, const char *name)
{
	if (tables->hash)
		return object_find_by_hash(tables, name);
	return tables->old_hash ? object_find_by_old_hash(tables, name) : NULL;
}

bool object_defines_version(const struct object_tables *tables, const char *version)
{
	const ElfW(Verdef) *definition = tables->defined_versions;
	const ElfW(Verdaux) * name;

	while (definition) {
		name = (const ElfW(Verdaux) *)((const char *)definition + definition->vd_aux);
		if (text_equals(tables->strings + name->vda_name, version))
			return true;
		if (!definition->vd_next)
			return false;
		definition = (const ElfW(Verdef) *)((const char *)definition + definition->vd_next);
	}
	return false;
}

bool object_contains(const struct dl_phdr_info *object, uintptr_t address)
{
	for (ElfW(Half) i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];

		if (part->p_type == PT_LOAD &&
		    address - (object->dlpi_addr + part->p_vaddr) < part->p_memsz)
			return true;
	}
	return false;
}

const char *object_file_name(const struct dl_phdr_info *object)
{
	return text_file_name(object->dlpi_name ? object->dlpi_name : "");
}

/* ---- by scope, without a lock ---- */

/* Weak: the library needs libc alone. A program that holds a copy has the same list. */
extern struct r_debug _r_debug __attribute__((weak));

AT_START void *loaded_program(void)
{
	return &_r_debug ? _r_debug.r_map : NULL;
}

static AT_START bool loaded_is_libc(const char *name)
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
static AT_START bool loaded_is_in_scope(struct scope_search *search, const char *name, bool ours)
{
	bool libc = loaded_is_libc(name);
	bool in_scope = (search->behind ? search->has_passed : true) &&
			(libc || !search->only_libc) && !text_begins(name, "linux-vdso");

	search->has_passed |= ours;
	search->only_libc |= libc;
	return in_scope;
}

/* Searches the objects from the program to libc. They never leave, so no lock is needed: in a child
 * of fork the thread that held it may be missing. */
static AT_START void loaded_search_start(struct scope_search *search)
{
	struct object_tables tables;
	bool libc = false;

	for (const struct link_map *object = loaded_program(); object && !libc;
	     object = object->l_next) {
		const char *name = text_file_name(object->l_name);

		libc = text_equals(name, "libc.so.6");
		if (loaded_is_in_scope(search, name, object->l_ld == _DYNAMIC) && !search->found &&
		    object_read_dynamic(object->l_addr, object->l_ld, &tables))
			search->found = object_find(&tables, search->symbol);
	}
}

/* ---- walks ---- */

#define PAGE_MOST 65536

static bool loaded_is_mapped(uintptr_t address, size_t length)
{
	uintptr_t page = address & ~(uintptr_t)(KERNEL_PAGE_MAX - 1);
	unsigned char pages[PAGE_MOST / 4096 * 2];

	return length <= PAGE_MOST &&
	       !kernel_call(SYS_mincore, page, address + length - page, pages);
}

/* Other objects' headers name another dynamic section. */
static bool loaded_is_header(const struct link_map *object, uintptr_t address,
			     struct dl_phdr_info *info)
{
	const ElfW(Ehdr) *header = (const void *)address;

	if (!loaded_is_mapped(address, sizeof(*header)) ||
	    __builtin_memcmp(header->e_ident, ELFMAG, SELFMAG))
		return false;
	info->dlpi_phdr = (const void *)(address + header->e_phoff);
	info->dlpi_phnum = header->e_phnum;
	return loaded_is_mapped((uintptr_t)info->dlpi_phdr,
				header->e_phnum * sizeof(*info->dlpi_phdr)) &&
	       object_part(info, PT_DYNAMIC) == object->l_ld;
}

/* The ELF header begins the first segment, as a rule the page of the hash table. Else, if the
 * segment's address in the file is 0, it is at the load address. */
static bool loaded_find_headers(const struct link_map *object, struct dl_phdr_info *info)
{
	struct object_tables tables;
	uintptr_t hash;

	if (!object->l_prev) {
		info->dlpi_phdr = (const void *)loaded_auxiliary(AT_PHDR);
		info->dlpi_phnum = (ElfW(Half))loaded_auxiliary(AT_PHNUM);
		return info->dlpi_phdr != NULL;
	}
	if (!object->l_ld || !loaded_is_mapped((uintptr_t)object->l_ld, sizeof(*object->l_ld)) ||
	    !object_read_dynamic(object->l_addr, object->l_ld, &tables))
		return false;
	hash = (uintptr_t)(tables.hash ? tables.hash : tables.old_hash);
	return loaded_is_header(object, hash & ~(uintptr_t)4095, info) ||
	       loaded_is_header(object, object->l_addr, info);
}

/* For a child that has begun no load. If a thread of its parent held the lock of the list at the
 * fork, it stays taken: glibc does not renew it. Nothing is loaded or unloaded meanwhile, since
 * both take the lock. An object that the parent was loading or unloading is in the list without its
 * pages: each object's first page and dynamic section are checked before they are read. */
static int loaded_walk_alone(loaded_visit *visit, void *argument)
{
	const struct link_map *first = loaded_program(), *object;
	struct dl_phdr_info info = { .dlpi_subs = 0 };
	int result = 0;

	for (object = first; object; object = object->l_next)
		info.dlpi_adds++;
	for (object = first; object && !result; object = object->l_next) {
		info.dlpi_addr = object->l_addr;
		info.dlpi_name = object->l_name;
		if (loaded_find_headers(object, &info))
			result = visit(&info, sizeof(info), argument);
	}
	return result;
}

typedef int walk_function(loaded_visit *visit, void *argument);

static _Atomic int owner
	AT_START_DATA; /* the process that takes the lock; 0: before the constructor */

int loaded_walk(loaded_visit *visit, void *argument)
{
	static walk_function *cached; /* racing threads store equal values */
	struct scope_search search = { .symbol = "dl_iterate_phdr", .only_libc = true };
	walk_function *walk = __atomic_load_n(&cached, __ATOMIC_ACQUIRE);
	int takes_lock = load_relaxed(&owner), result = 0;

	if (takes_lock && takes_lock != kernel_process())
		return loaded_walk_alone(visit, argument);
	if (!walk) {
		loaded_search_start(&search);
		walk = (walk_function *)search.found;
		__atomic_store_n(&cached, walk, __ATOMIC_RELEASE);
	}
	if (walk)
		result = walk(visit, argument);
	/* No tail call: libc takes the return address for the caller, and its namespace. */
	__asm__ volatile("" : "+r"(result));
	return result;
}

/* ---- by scope ---- */

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

/* The list is the program's namespace: without this library in it, it is another one than this
 * library's. */
static AT_START void *loaded_search(struct scope_search search)
{
	struct scope_search start = search;

	loaded_search_start(&start);
	if (start.found && start.has_passed)
		return start.found;
	loaded_walk(loaded_search_scope, &search);
	return search.found;
}

AT_START void *loaded_in_libc(const char *symbol)
{
	return loaded_search((struct scope_search){ .symbol = symbol, .only_libc = true });
}

AT_START unsigned long loaded_auxiliary(unsigned long type)
{
	typedef unsigned long function(unsigned long type);
	static function *cached AT_START_DATA; /* racing threads store equal values */
	function *found = __atomic_load_n(&cached, __ATOMIC_ACQUIRE);

	if (!found) {
		found = (function *)loaded_in_libc("getauxval");
		__atomic_store_n(&cached, found, __ATOMIC_RELEASE);
	}
	return found ? found(type) : 0;
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

struct loaded_count {
	uint32_t here;
	uint64_t loads, unloads; /* in all namespaces */
};

static int loaded_count_object(struct dl_phdr_info *object, size_t size, void *argument)
{
	struct loaded_count *count = argument;

	(void)size;
	count->here++;
	count->loads = object->dlpi_adds;
	count->unloads = object->dlpi_subs;
	return 0;
}

static struct loaded_count loaded_count_all(void)
{
	struct loaded_count count = { .here = 0 };

	loaded_walk(loaded_count_object, &count);
	return count;
}

uint64_t loaded_changes(void)
{
	struct loaded_count count = loaded_count_all();

	return count.loads + count.unloads;
}

static void loaded_count_start(void)
{
	uint32_t unset = 0;

	if (!load_relaxed(&start_objects))
		replace_seq_cst(&start_objects, &unset, loaded_count_all().here);
}

/* DT_AUDIT or DT_DEPAUDIT of the program; glibc reads those of no other object. */
static AT_START bool loaded_names_auditors(void)
{
	const struct link_map *program = loaded_program();

	for (const ElfW(Dyn) *entry = program ? program->l_ld : NULL;
	     entry && entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_AUDIT || entry->d_tag == DT_DEPAUDIT)
			return true;
	}
	return false;
}

AT_START void loaded_begin(bool may_be_audited)
{
	struct loaded_count count;

	if (may_be_audited || loaded_names_auditors()) {
		loaded_count_start();
		count = loaded_count_all();
		store_relaxed(&is_audited, count.loads - count.unloads != count.here);
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

/* ---- by soname, and by address ---- */

struct library_search {
	const char *soname;  /* or NULL */
	const void *address; /* in the object; NULL: any */
	loaded_use *use;
	void *argument;
};

static int loaded_use_library(struct dl_phdr_info *object, size_t size, void *argument)
{
	const struct library_search *search = argument;
	struct object_tables tables;

	(void)size;
	if ((search->address && !object_contains(object, (uintptr_t)search->address)) ||
	    !object_read(object, &tables) ||
	    (search->soname && !text_equals(tables.soname, search->soname)))
		return 0;
	search->use(&tables, search->argument);
	return 1;
}

bool loaded_read_library(const char *soname, loaded_use *use, void *argument)
{
	return loaded_walk(loaded_use_library,
			   &(struct library_search){ soname, NULL, use, argument });
}

bool loaded_read_at(const void *address, loaded_use *use, void *argument)
{
	return address && loaded_walk(loaded_use_library,
				      &(struct library_search){ NULL, address, use, argument });
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

static int loaded_look_for(struct dl_phdr_info *object, size_t size, void *beginning)
{
	(void)size;
	return text_begins(object_file_name(object), beginning);
}

bool loaded_has(const char *beginning)
{
	return loaded_walk(loaded_look_for, (void *)beginning);
}
