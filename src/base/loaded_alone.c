/* SPDX-License-Identifier: BSD-3-Clause */
/* loaded_alone.c -- the walk over the loaded objects without the lock of their list
 *
 * For a child that has begun no load. If a thread of its parent held the lock at the fork, it stays
 * taken: glibc does not renew it. Nothing is loaded or unloaded meanwhile, since both take the lock.
 * An object that the parent was loading or unloading is in the list without its pages: each
 * object's first page and dynamic section are checked before they are read.
 */
#include "base/loaded.h"

#include "base/kernel.h"
#include "base/system.h"

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
		info->dlpi_phdr = (const void *)system_auxiliary(AT_PHDR);
		info->dlpi_phnum = (ElfW(Half))system_auxiliary(AT_PHNUM);
		return info->dlpi_phdr != NULL;
	}
	if (!object->l_ld || !loaded_is_mapped((uintptr_t)object->l_ld, sizeof(*object->l_ld)) ||
	    !object_read_dynamic(object->l_addr, object->l_ld, &tables))
		return false;
	hash = (uintptr_t)(tables.hash ? tables.hash : tables.old_hash);
	return loaded_is_header(object, hash & ~(uintptr_t)4095, info) ||
	       loaded_is_header(object, object->l_addr, info);
}

int loaded_walk_alone(loaded_visit *visit, void *argument)
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
