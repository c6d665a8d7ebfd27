/* SPDX-License-Identifier: BSD-3-Clause */
/* errors.h -- error texts: errno of the kernel and of verbs, results of the CUDA driver
 *
 * One table (errors.def) holds the sentences for all messages of the library. doctor has short
 * words of its own, and commands to type (tools/doctor/methods.c). The caller supplies readings
 * where a cause depends on more than the number. Any thread; nothing is allocated; no call into the
 * driver or into verbs.
 */
#ifndef PEERPIN_REPORT_ERRORS_H
#define PEERPIN_REPORT_ERRORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum errors_call {
#define CALL(call, name, family) ERRORS_##call,
#define ERROR(call, name, number, cause, fix)
#include "report/errors.def"
#undef ERROR
#undef CALL
	ERRORS_CALLS
};

/* Pointers to static texts. */
struct errors_text {
	enum errors_call call;
	int number;
	const char *name;  /* EFAULT; "" if the number is unknown */
	const char *cause; /* without a full stop */
	const char *fix;   /* removes the cause; in sentences */
};

/* `number` is a positive errno value or a CUresult. */
struct errors_text errors_look_up(enum errors_call call, int number);
const char *errors_cause(enum errors_call call, int number);
const char *errors_fix(enum errors_call call, int number);
const char *errors_call_name(enum errors_call call);

/* Copy row `index` of the table. Return false after the last row. */
bool errors_row(unsigned int index, struct errors_text *text);

/* Write "ibv_reg_mr: EFAULT (14): cause", truncated to `size`. */
void errors_describe(const struct errors_text *text, char *to, size_t size);

/* Readings after ENOMEM, in bytes and in numbers of regions. 0: unknown. `lockable` UINT64_MAX: no
 * limit. */
struct errors_room {
	uint64_t wanted, pinned;
	uint64_t lockable; /* RLIMIT_MEMLOCK; no limit with CAP_IPC_LOCK */
	uint64_t bar1;
	uint64_t regions, region_limit;
};

struct errors_text errors_no_room(enum errors_call call, const struct errors_room *room);

/* Return `lockable` for errors_no_room(), in bytes; UINT64_MAX: no limit, or unknown. errno is
 * kept. */
uint64_t errors_lockable(void);

/* Return the cause of EFAULT from ibv_reg_mr(). `module`: nvidia-peermem or an equivalent is
 * loaded. `mapped`: VMM memory (cuMemMap). `knows_mapped`: the module supports VMM memory on this
 * GPU. */
struct errors_text errors_no_pages(bool module, bool mapped, bool knows_mapped);

#endif
