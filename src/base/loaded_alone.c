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

/* The ELF header begins a library's first segment, whose address in the file is 0. */
static bool loaded_find_headers(const struct link_map *object, struct dl_phdr_info *info)
{
	const ElfW(Ehdr) *header = (const void *)object->l_addr;

	if (!object->l_prev) {
		info->dlpi_phdr = (const void *)system_auxiliary(AT_PHDR);
		info->dlpi_phnum = (ElfW(Half))system_auxiliary(AT_PHNUM);
		return info->dlpi_phdr != NULL;
	}
	if (!object->l_ld || !loaded_is_mapped(object->l_addr, sizeof(*header)) ||
	    __builtin_memcmp(header->e_ident, ELFMAG, SELFMAG) ||
	    !loaded_is_mapped((uintptr_t)object->l_ld, sizeof(*object->l_ld)))
		return false;
	info->dlpi_phdr = (const void *)(object->l_addr + header->e_phoff);
	info->dlpi_phnum = header->e_phnum;
	return loaded_is_mapped((uintptr_t)info->dlpi_phdr,
				header->e_phnum * sizeof(*info->dlpi_phdr));
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
