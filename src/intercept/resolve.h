/* SPDX-License-Identifier: BSD-3-Clause */
/* resolve.h -- decisions of the exported dlsym */
#ifndef PEERPIN_INTERCEPT_RESOLVE_H
#define PEERPIN_INTERCEPT_RESOLVE_H

#include <stdbool.h>

/* True if UCX tried to hook CUDA, and a driver function begins with an instruction that this UCX
 * cannot patch: UCX then has no cache of GPU registrations. */
bool resolve_ucx_is_unhooked(void);

/* True if the symbol's function lies in the served driver, in another copy of the driver, or in
 * another namespace. The latter two may bypass peerpin (bypass.h). */
bool resolve_is_known(const void *function, const char *symbol);

/* Replaces a function of another preload that this preload's look-up returned for a row: by the
 * exported entry that forwards to it. If there is none, calls of the function bypass peerpin. */
void *resolve_of_preload(void *wrapper);

/* Decision for one dlsym call: jump to `jump` with unchanged arguments or, if NULL, return
 * `answer`. The assembly calls dlsym_decide() on every look-up in the process. For names outside
 * the table it takes no lock, allocates nothing and reads only the table. */
struct dlsym_verdict {
	void *(*jump)(void *handle, const char *symbol);
	void *answer;
};

struct dlsym_verdict dlsym_decide(void *handle, const char *symbol, void *caller);

#endif
