/* SPDX-License-Identifier: BSD-3-Clause */
/* errors.h -- what failed, in plain words: errno of the kernel and of verbs, results of the CUDA driver
 *
 * One table (errors.def) of sentences, for all of the library's messages. doctor has the few words that its lines have room for, and
 * commands to type (tools/doctor/meaning.c). Where the cause depends on more than the number, it is judged by readings that the
 * caller has. Any thread; nothing is allocated, nothing is called.
 */
#ifndef PEERPIN_BASE_ERRORS_H
#define PEERPIN_BASE_ERRORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum errors_call {
#define CALL(call, name, family) ERRORS_##call,
#define ERROR(call, name, number, cause, cure)
#include "base/errors.def"
#undef ERROR
#undef CALL
	ERRORS_CALLS
};

/* Texts that stay. */
struct errors_text {
	enum errors_call call;
	int number;
	const char *name;  /* EFAULT; "" if the number is unknown */
	const char *cause; /* no full stop */
	const char *cure;  /* sentences */
};

/* `number` is a positive errno value or a CUresult. */
struct errors_text errors_look_up(enum errors_call call, int number);
const char *errors_cause(enum errors_call call, int number);
const char *errors_cure(enum errors_call call, int number);
const char *errors_call_name(enum errors_call call);

/* The row with that index, for who shows all of them; false behind the last. */
bool errors_row(unsigned int index, struct errors_text *text);

/* "ibv_reg_mr: EFAULT (14): cause", as much as there is room for. */
void errors_describe(const struct errors_text *text, char *to, size_t size);

/* Why the adapter has no room: bytes, and numbers of regions; 0: unknown, of `lockable` UINT64_MAX: no limit. */
struct errors_room {
	uint64_t wanted, pinned;
	uint64_t lockable; /* RLIMIT_MEMLOCK, or none for who may lock all */
	uint64_t bar1;
	uint64_t regions, region_limit;
};

struct errors_text errors_no_room(enum errors_call call, const struct errors_room *room);

/* What this process may lock: for the above. */
uint64_t errors_lockable(void);

/* Why ibv_reg_mr() finds no pages: whether a module gives the kernel the GPU's, and whether the memory was mapped
 * (cuMemMap), on a GPU whose mapped memory that module knows, or not. */
struct errors_text errors_no_pages(bool module, bool mapped, bool knows_mapped);

/* ---- the last one of this thread ---- */

/* Whoever calls notes what failed; whoever tells the user of it, on the same thread, finds it here. */
void errors_note(enum errors_call call, int number);
void errors_note_text(const struct errors_text *text);
void errors_forget(void);

/* What was noted since; `number` of `call` if nothing was. */
struct errors_text errors_noted(enum errors_call call, int number);

/* The user has been told of it. */
void errors_set_told(void);
bool errors_was_told(void);

#endif
