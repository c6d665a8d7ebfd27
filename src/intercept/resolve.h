/* SPDX-License-Identifier: BSD-3-Clause */
/* resolve.h -- what dlsym answers */
#ifndef PEERPIN_INTERCEPT_RESOLVE_H
#define PEERPIN_INTERCEPT_RESOLVE_H

#include <stdbool.h>

/* Whether both addresses lie in the same loaded object. */
bool resolve_same_object(const void *one, const void *other);

/* What the dlsym that we export has to do for this call: jump to `jump` with the arguments as they came, or,
 * if that is NULL, return `answer`. Called by the assembly on every look-up of the process: for names that
 * are not in the table it takes no lock, allocates nothing, and touches nothing but the table. */
struct dlsym_verdict {
	void *(*jump)(void *handle, const char *symbol);
	void *answer;
};

struct dlsym_verdict dlsym_decide(void *handle, const char *symbol, void *caller);

#endif
