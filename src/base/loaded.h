/* SPDX-License-Identifier: BSD-3-Clause */
/* loaded.h -- look-ups in the objects that the dynamic linker has loaded
 *
 * Look-ups of this library call neither dlsym nor dlopen, dlvsym or dladdr. These free the text of
 * the thread's last failure, by the program's free(), and leave a text of their own when they fail;
 * and dlopen would keep the library that it finds. The symbol tables are read instead, inside
 * libc's own dl_iterate_phdr: a program or another preload may replace it, and look up the original
 * by dlsym, through this library.
 *
 * The objects are those of this library's namespace. All functions: any thread, any time, no lock
 * of peerpin, no allocation. Look-ups in libc, and of functions that precede it, take no lock, nor
 * do those of a child that has begun no load. The others take that of the dynamic linker's list,
 * which is not held while constructors run. A returned address is valid as long as its library
 * stays loaded.
 */
#ifndef PEERPIN_BASE_LOADED_H
#define PEERPIN_BASE_LOADED_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- one object: inside a callback, which prevents its unloading ---- */

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

/* ---- all objects ---- */

/* dl_iterate_phdr, libc's own. */
typedef int loaded_visit(struct dl_phdr_info *object, size_t size, void *argument);
int loaded_walk(loaded_visit *visit, void *argument);

/* Call in the constructor: other processes are children of this one. `may_be_audited`: LD_AUDIT is
 * set. */
void loaded_begin(bool may_be_audited);

/* The name of the file of the first audit library (LD_AUDIT, DT_AUDIT), "" where glibc does not
 * show it, or NULL. Auditors alone have objects in other namespaces when the constructor runs. */
const char *loaded_auditor(void);

/* libc's own definition, or that of a separate libdl or libpthread; NULL: none. */
void *loaded_in_libc(const char *symbol);

/* libc's getauxval for the dlsym path, which calls nothing that a program can replace. 0: not
 * known. */
unsigned long loaded_auxiliary(unsigned long type);

/* The first definition in the program's scope, up to libc: the program, preloads before this
 * library, this library, and so on. None of these objects ever leaves. */
void *loaded_first(const char *symbol);

/* The definition after this library's, up to libc; else libc's own. */
void *loaded_next_before_libc(const char *symbol);

/* The definition after this library's in the program's scope, or NULL. Sets `*stays`, if not NULL,
 * to true if its object was loaded with the program, so that it never leaves. */
void *loaded_next(const char *symbol, bool *stays);

/* Call before each load with its dlopen mode. A definition in an object loaded later counts for
 * loaded_next() only after a load with RTLD_GLOBAL: the list does not show which objects became
 * part of the program's scope. */
void loaded_begin_load(int mode);

/* Definition in the first loaded library of that soname, or by the object at `address` itself;
 * NULL: none. */
void *loaded_in_library(const char *soname, const char *symbol);
void *loaded_at(const void *address, const char *symbol);

/* Call `use` with the tables of the first loaded library of that soname, or of the object at an
 * address. False: there is none. */
typedef void loaded_use(const struct object_tables *tables, void *argument);
bool loaded_read_library(const char *soname, loaded_use *use, void *argument);
bool loaded_read_at(const void *address, loaded_use *use, void *argument);

/* Store the name of the file of the object at `address`, without its folder; the program's is "".
 * False: no object of this namespace. `*first`, if not NULL: the object's first byte. */
#define LOADED_NAME 64
bool loaded_name_at(const void *address, char name[LOADED_NAME], const void **first);

/* The handle that dlopen returns for the program. */
void *loaded_program(void);

/* True if both addresses lie in one object. */
bool loaded_share_object(const void *one, const void *other);

/* Number of loads and unloads so far: as long as it is equal, so are the loaded objects. Never 0.
 */
uint64_t loaded_changes(void);

/* Return true if a loaded object's file name begins with `beginning`. */
bool loaded_has(const char *beginning);

#endif
