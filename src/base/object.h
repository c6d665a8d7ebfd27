/* SPDX-License-Identifier: BSD-3-Clause */
/* object.h -- symbol and relocation tables of a loaded object, as the dynamic linker placed them
 *
 * Use inside a callback of dl_iterate_phdr, which prevents the unloading of the object.
 */
#ifndef PEERPIN_BASE_OBJECT_H
#define PEERPIN_BASE_OBJECT_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct object_tables {
	ElfW(Addr) base;
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Half) * versions; /* NULL: none */
	const uint32_t *hash;	     /* GNU hash table; NULL: none */
	const ElfW(Rela) * calls;    /* relocations of called functions (DT_JMPREL) */
	size_t call_count;
	const ElfW(Rela) * data; /* relocations of data (DT_RELA) */
	size_t data_count;
};

/* Return false if the object has no symbols. */
bool object_read(const struct dl_phdr_info *object, struct object_tables *tables);

/* Return the object's default definition of `name`, as for a program linked today; NULL: none. */
void *object_find(const struct object_tables *tables, const char *name);

/* Return true if the address lies in the loaded object. */
bool object_contains(const struct dl_phdr_info *object, uintptr_t address);

/* Return true if a loaded object's file name begins with `beginning`. Takes the dynamic linker's
 * lock. *answer caches the result for this `beginning`, 0 at first: names are compared again only
 * after a load or unload. */
bool object_is_loaded(const char *beginning, _Atomic uint64_t *answer);

#endif
