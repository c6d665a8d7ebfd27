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
 * of peerpin, no allocation. Look-ups in libc, and of functions that precede it, take no lock, nor do
 * those of a child that has begun no load. The others take that of the dynamic linker's list, which
 * is not held while constructors run. A returned address is valid as long as its library stays
 * loaded.
 */
#ifndef PEERPIN_BASE_LOADED_H
#define PEERPIN_BASE_LOADED_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/object.h"

/* dl_iterate_phdr, libc's own. */
typedef int loaded_visit(struct dl_phdr_info *object, size_t size, void *argument);
int loaded_walk(loaded_visit *visit, void *argument);

/* The same without a lock: loaded_walk() in a child. */
int loaded_walk_alone(loaded_visit *visit, void *argument);

/* Call in the constructor: other processes are children of this one. `may_be_audited`: LD_AUDIT is
 * set. */
void loaded_begin(bool may_be_audited);

/* The name of the file of the first audit library (LD_AUDIT, DT_AUDIT), "" where glibc does not
 * show it, or NULL. Auditors alone have objects in other namespaces when the constructor runs. */
const char *loaded_auditor(void);

/* libc's own definition, or that of a separate libdl or libpthread; NULL: none. */
void *loaded_in_libc(const char *symbol);

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

/* True if the object is the library of that soname. */
bool loaded_is_library(const struct object_tables *tables, const char *soname);

/* Definition in the first loaded library of that soname, or NULL. */
void *loaded_in_library(const char *soname, const char *symbol);

/* Call `use` with the tables of the first loaded library of that soname, or of the object at an
 * address. False: there is none. */
typedef void loaded_use(const struct object_tables *tables, void *argument);
bool loaded_read_library(const char *soname, loaded_use *use, void *argument);
bool loaded_read_at(const void *address, loaded_use *use, void *argument);

/* The definition of `symbol` by the object at `address` itself, or NULL. */
void *loaded_at(const void *address, const char *symbol);

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

/* Return true if a loaded object's file name begins with `beginning`. *answer caches the result for
 * this `beginning`, 0 at first: names are compared again only after a load or unload. */
bool loaded_has(const char *beginning, _Atomic uint64_t *answer);

#endif
