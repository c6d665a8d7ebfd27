/* SPDX-License-Identifier: BSD-3-Clause */
/* object.h -- symbol tables of a loaded object, as the dynamic linker placed them
 *
 * Use inside a callback of loaded_walk() (loaded.h), which prevents the unloading of the object.
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
	const char *soname;	     /* "": none */
	const ElfW(Half) * versions; /* NULL: none */
	const ElfW(Verdef) * defined_versions;
	const uint32_t *hash;	  /* GNU hash table; NULL: none */
	const uint32_t *old_hash; /* hash table of System V; NULL: none */
};

/* Return false if the object has no symbols. */
bool object_read(const struct dl_phdr_info *object, struct object_tables *tables);
bool object_read_dynamic(ElfW(Addr) base, const ElfW(Dyn) * dynamic, struct object_tables *tables);

/* Return the object's default definition of `name`, as for a program linked today; NULL: none.
 * Functions that choose their code at load (IFUNC) count as none: none of the libraries searched
 * here has one. */
void *object_find(const struct object_tables *tables, const char *name);

/* Return true if the object defines the version. */
bool object_defines_version(const struct object_tables *tables, const char *version);

/* Return the address of the object's first part of a type (PT_LOAD: of its first byte), or NULL.
 * The load address is none: it is 0 or wraps around in an object linked to an address of its own.
 */
const void *object_part(const struct dl_phdr_info *object, ElfW(Word) type);

/* Return true if the address lies in the loaded object. */
bool object_contains(const struct dl_phdr_info *object, uintptr_t address);

/* Return the name of the object's file without its folder; the program's is "". */
const char *object_file_name(const struct dl_phdr_info *object);

#endif
