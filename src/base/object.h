/* SPDX-License-Identifier: BSD-3-Clause */
/* object.h -- the symbol and relocation tables of a loaded object, where the dynamic linker has put them
 *
 * For use inside a callback of dl_iterate_phdr, which keeps the object from being unloaded meanwhile.
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
	const ElfW(Half) * versions; /* NULL: the object has none */
	const uint32_t *hash;	     /* in GNU's form; NULL: it has none */
	const ElfW(Rela) * calls;    /* relocations of what it calls */
	size_t call_count;
	const ElfW(Rela) * data; /* and of what it has the address of */
	size_t data_count;
};

/* False: the object has no symbols. */
bool object_read(const struct dl_phdr_info *object, struct object_tables *tables);

/* The object's default definition of `name`, which a program linked today would get; NULL if it has none. */
void *object_find(const struct object_tables *tables, const char *name);

/* Whether anything is loaded whose file's name begins so. The dynamic linker's lock is taken. *answer is the caller's for this one
 * question, 0 at first: as long as nothing is loaded or unloaded, names are not gone through again. */
bool object_is_loaded(const char *beginning, _Atomic uint64_t *answer);

#endif
