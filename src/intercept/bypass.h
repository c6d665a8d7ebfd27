/* SPDX-License-Identifier: BSD-3-Clause */
/* bypass.h -- one flag: a caller may bypass peerpin; and the exported dlopen, dlmopen and dlvsym
 *
 * From the first such caller on each use of memory is compared with the driver's BUFFER_ID, queries
 * are forwarded, and no more memory is kept (memory_verify_always()). One message names the caller.
 *
 * A plain load binds to the program's scope first, where this library's exports are. So the loads
 * that matter are those with RTLD_DEEPBIND and those into another namespace. The exported dlopen
 * and dlmopen set the flag before such a load begins: no scan of the loaded objects is needed, and
 * hits take no lock of the dynamic linker. What the object is linked to does not matter: it finds
 * libc's dlopen and dlsym, by which it may reach the driver later.
 */
#ifndef PEERPIN_INTERCEPT_BYPASS_H
#define PEERPIN_INTERCEPT_BYPASS_H

#include <stdbool.h>

#include "base/atomics.h"

enum bypass_cause {
	BYPASS_NONE,
	BYPASS_DEEPBIND,      /* an object opened with RTLD_DEEPBIND */
	BYPASS_NAMESPACE,     /* an object opened in another namespace (dlmopen) */
	BYPASS_AUDITOR,	      /* an audit library */
	BYPASS_PRECEDING,     /* another definition precedes this library's, or does not hand on */
	BYPASS_WRAPPER,	      /* a look-up returned another preload's own function */
	BYPASS_SECOND_DRIVER, /* a look-up returned a function of a second libcuda */
	BYPASS_FOREIGN,	      /* a look-up returned a function of another namespace */
	BYPASS_LOADER,	      /* a look-up returned libc's dlopen or dlsym beside another one */
};

/* Set the flag. The first cause and the name of its object are logged by the next
 * bypass_check(). Takes no lock and allocates nothing. */
void bypass_note(enum bypass_cause cause, const char *object);

/* bypass_note() with the name of the object that contains the address. */
void bypass_note_owner(enum bypass_cause cause, const void *address);

extern _Atomic bool bypass_is_pending;
void bypass_check_now(void);

/* Call at each allocation and before a registration request is served, without a lock. The first
 * call checks the program's scope and the audit libraries. Logs a new cause. */
static inline void bypass_check(void)
{
	if (__builtin_expect(load_relaxed(&bypass_is_pending), 0))
		bypass_check_now();
}

/* Log the cause in a program whose allocations may all bypass peerpin: at a new protection domain,
 * and at exit. */
void bypass_check_hidden(void);

/* This library's definition, if the symbol is a function that loads objects or looks them up; else
 * NULL. */
void *bypass_loader(const char *symbol);

/* True if this library and libc alone define the function in the program's scope. A pointer to this
 * library's definition then equals one to libc's, and no other definition hands it on in a circle.
 */
bool bypass_is_only_loader(const char *symbol);

/* The result of a look-up of such a function: for libc's definition this library's. */
void *bypass_loader_found(void *found, const char *symbol, const void *caller);

/* A look-up of such a function beside a third definition may find libc's. The caller's object may
 * be the third one, which hands on. */
void bypass_note_loader(const char *symbol, const void *caller);

/* Decision for one call of an exported function (entries_*.S): jump to `jump` with the arguments
 * and the caller's address unchanged or, if NULL, return `answer`. dlsym_decide() runs on every
 * look-up in the process: for names outside the tables it takes no lock, allocates nothing and
 * reads only them (resolve.c). */
struct verdict {
	void *(*jump)(void *handle, const char *symbol);
	void *answer;
};

struct verdict dlsym_decide(void *handle, const char *symbol, const void *unused,
			    const void *caller);
struct verdict dlopen_decide(const char *file, int mode, const void *unused, const void *caller);
struct verdict dlmopen_decide(long name_space, const char *file, int mode, const void *caller);
struct verdict dlvsym_decide(void *handle, const char *symbol, const char *version,
			     const void *caller);

/* A look-up of this string, known by its address, is one of bypass.c: it checks whether the
 * program's dlsym hands on to this library's. */
extern const char bypass_probe[];

#endif
