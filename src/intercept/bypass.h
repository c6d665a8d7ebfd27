/* SPDX-License-Identifier: BSD-3-Clause */
/* bypass.h -- detects callers that bypass peerpin */
#ifndef PEERPIN_INTERCEPT_BYPASS_H
#define PEERPIN_INTERCEPT_BYPASS_H

#include <stdbool.h>

/* Called with another preload's function, which a look-up is about to return. The next scan reports
 * it. Takes no lock and allocates nothing. */
void bypass_note(const void *wrapper);

/* Report a driver whose calls bypass peerpin. For events of programs whose allocations may all
 * bypass peerpin: a protection domain, exit. Nothing if no load and no look-up was noted. */
void bypass_check_hidden(void);

/* Scan the objects loaded since the last scan. Report each bypassing caller: an object opened with
 * RTLD_DEEPBIND or in a namespace of its own (dlmopen), an audit library. From the first one on,
 * every record is checked with the driver before use. Called at each registration, which takes
 * longer, and at each allocation except pool memory. The caller holds no lock. */
void bypass_scan(void);

/* True if a scan would find nothing: no load that could bypass peerpin has begun (load_watch.h); or
 * no object was loaded or unloaded since the last scan, and no unbound call has bound to bypass
 * peerpin. For callers too frequent for a scan. Takes no lock of peerpin's, and in the first case
 * no lock at all. */
bool bypass_is_settled(void);

#endif
