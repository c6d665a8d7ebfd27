/* SPDX-License-Identifier: BSD-3-Clause */
/* object.c -- parses the dynamic section of a loaded object */
#include "base/object.h"

#include "base/text.h"

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

bool object_read_dynamic(ElfW(Addr) base, const ElfW(Dyn) * dynamic, struct object_tables *tables)
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
static void *object_definition(const struct object_tables *tables, uint32_t i, const char *name)
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
static void *object_find_by_hash(const struct object_tables *tables, const char *name)
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

void *object_find(const struct object_tables *tables, const char *name)
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
