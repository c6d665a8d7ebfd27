/* SPDX-License-Identifier: BSD-3-Clause */
/* bypass.h -- finds callers that reach the CUDA driver past us */
#ifndef PEERPIN_INTERCEPT_ESCAPES_H
#define PEERPIN_INTERCEPT_ESCAPES_H

#include <stdbool.h>

/* Looks at what has been loaded since the last time, and tells of each object whose calls are not seen: it was
 * opened with RTLD_DEEPBIND, or stands in a namespace of its own (dlmopen). From the first one on every record
 * is checked with the driver before it is used. Called where a registration is made, which takes longer than
 * this; no lock is held. */
void bypass_scan(void);

/* Whether a look would find nothing: no load that could go past us has begun (load_watch.h), or else nothing has been loaded or
 * unloaded since the last look, and nothing else has to be watched. For what happens so often that a look would be
 * felt; no lock of ours is taken, and in the first case none at all. */
bool bypass_is_settled(void);

#endif
