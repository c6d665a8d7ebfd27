/* SPDX-License-Identifier: BSD-3-Clause */
/* object.c -- parses the dynamic section of a loaded object */
#include "base/object.h"

#include "base/atomics.h"
#include "base/text.h"

/* glibc relocates the addresses in the dynamic section, except in objects mapped by the kernel. */
static const void *object_relocated(ElfW(Addr) base, ElfW(Addr) value)
{
	return (const void *)(value < base ? value + base : value);
}

bool object_read(const struct dl_phdr_info *object, struct object_tables *tables)
{
	const ElfW(Dyn) *dynamic = NULL;

	*tables = (struct object_tables){ .base = object->dlpi_addr };
	for (ElfW(Half) i = 0; i < object->dlpi_phnum; i++) {
		if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)(object->dlpi_addr +
						      object->dlpi_phdr[i].p_vaddr);
	}
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		const void *value = object_relocated(object->dlpi_addr, dynamic->d_un.d_ptr);

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
		case DT_GNU_HASH:
			tables->hash = value;
			break;
		case DT_JMPREL:
			tables->calls = value;
			break;
		case DT_PLTRELSZ:
			tables->call_count = dynamic->d_un.d_val / sizeof(*tables->calls);
			break;
		case DT_RELA:
			tables->data = value;
			break;
		case DT_RELASZ:
			tables->data_count = dynamic->d_un.d_val / sizeof(*tables->data);
			break;
		default:
			break;
		}
	}
	return tables->symbols && tables->strings;
}

static uint32_t object_hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

#define HIDDEN_VERSION 0x8000

void *object_find(const struct object_tables *tables, const char *name)
{
	const uint32_t *bucket, *chain;
	uint32_t buckets, first, target = object_hash_of(name), i, hash;

	if (!tables->hash)
		return NULL;
	buckets = tables->hash[0];
	first = tables->hash[1];
	bucket = tables->hash + 4 + tables->hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	chain = bucket + buckets;
	i = buckets ? bucket[target % buckets] : 0;
	if (i < first || !i)
		return NULL;
	do {
		const ElfW(Sym) *symbol = &tables->symbols[i];

		hash = chain[i - first];
		if ((hash | 1) == (target | 1) && symbol->st_shndx != SHN_UNDEF &&
		    symbol->st_value &&
		    !(tables->versions && tables->versions[i] & HIDDEN_VERSION) &&
		    text_equals(tables->strings + symbol->st_name, name))
			return (void *)(tables->base + symbol->st_value);
		i++;
	} while (!(hash & 1));
	return NULL;
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

struct object_search {
	const char *beginning;
	uint64_t known, changes; /* loads + unloads, known: << 1 | cached answer */
	bool found;
};

static int object_look_for(struct dl_phdr_info *object, size_t size, void *argument)
{
	struct object_search *search = argument;

	(void)size;
	search->changes = object->dlpi_adds + object->dlpi_subs;
	if (search->changes == search->known >> 1) {
		search->found = search->known & 1;
		return 1;
	}
	search->found = text_begins(text_file_name(object->dlpi_name ? object->dlpi_name : ""),
				    search->beginning);
	return search->found;
}

bool object_is_loaded(const char *beginning, _Atomic uint64_t *answer)
{
	struct object_search search = { .beginning = beginning, .known = load_relaxed(answer) };

	dl_iterate_phdr(object_look_for, &search);
	store_relaxed(answer, search.changes << 1 | search.found);
	return search.found;
}
