/* SPDX-License-Identifier: BSD-3-Clause */
/* callers.h -- the libraries that register GPU memory, and the faults of their calls
 *
 * A caller is the library of a return address, by its name in the field: files of one library are
 * one caller. Names stay for the life of the process; counts are relaxed additions. Any thread.
 */
#ifndef PEERPIN_REPORT_CALLERS_H
#define PEERPIN_REPORT_CALLERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"

/* What a library does that costs time, or is wrong. The texts for people are in `peerpin report`
 * (tools/findings.def). */
#define FINDINGS_LIST(FINDING)                                                                     \
	FINDING(repeated)                                                                          \
	FINDING(outlived)                                                                          \
	FINDING(leaked)                                                                            \
	FINDING(duplicate)                                                                         \
	FINDING(oversized)                                                                         \
	FINDING(sync_missing)

enum finding {
#define FINDING(name) FINDING_##name,
	FINDINGS_LIST(FINDING)
#undef FINDING
		FINDINGS
};

struct finding_sum {
	_Atomic uint64_t count, bytes, ns;
};

struct caller {
	char name[64], version[32]; /* of number 0 they are empty */
	bool unique_keys;	    /* libfabric: each registration needs keys of its own */
	struct finding_sum findings[FINDINGS];
};

#define CALLERS 64u

/* Return the number of the caller: 0 is unknown, and all that find no room. The first call with an
 * address takes the lock of the dynamic linker's list. */
uint32_t callers_number(const void *address);

/* NULL: beyond the last one. */
const struct caller *callers_at(uint32_t number);
const char *callers_name(uint32_t number);

void callers_find(uint32_t number, enum finding finding, uint64_t count, uint64_t bytes,
		  uint64_t ns);

/* Write the member "findings" of a JSON object, with a comma behind it. */
struct output;
void callers_write_findings(struct output *output);

/* Forget all, in a child. */
void callers_renew(void);

#endif
