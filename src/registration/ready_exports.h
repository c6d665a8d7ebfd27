/* SPDX-License-Identifier: BSD-3-Clause */
/* ready_exports.h -- dma-bufs of regions, for clients that export the same range */
#ifndef PEERPIN_REGISTRATION_READY_EXPORTS_H
#define PEERPIN_REGISTRATION_READY_EXPORTS_H

#include "registration/objects.h"

/* The region keeps the dma-buf from which the worker has registered it. Returns the file that the
 * caller closes without the lock: another region's, or this one. With the lock held. */
struct held_file ready_export_keep(struct region *region, struct held_file file);

/* No client gets the region's dma-buf from now on. The caller closes it. With the lock held. */
void ready_export_leave(struct region *region);

/* In a child that starts anew. */
void ready_exports_renew(void);

#endif
