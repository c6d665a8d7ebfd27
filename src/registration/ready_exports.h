/* SPDX-License-Identifier: BSD-3-Clause */
/* ready_exports.h -- dma-bufs of regions, for clients that export the same range */
#ifndef PEERPIN_REGISTRATION_READY_EXPORTS_H
#define PEERPIN_REGISTRATION_READY_EXPORTS_H

#include "registration/objects.h"

/* A client brings its own dma-bufs. */
void ready_exports_expect(void);

/* True if a client has, and files may be kept. */
bool ready_exports_are_expected(void);

/* The region has been registered. ready_export_fits(): true if it was from this dma-buf, of exactly
 * its range, so that ready_export_keep() keeps the file: the worker's, whose source->length is then
 * 0, or another descriptor of the client's own. With the lock held. */
bool ready_export_fits(const struct region *region, const struct dma_buf *source);
void ready_export_keep(struct region *region, struct dma_buf *source);

/* The region ends: closes its dma-buf. With the lock held. */
void ready_export_end(struct region *region);

/* A new descriptor of the dma-buf of exactly this range, mapped likewise, and its file; negative:
 * none. With the lock held. */
int ready_export_copy(const struct found_export *wanted, int device, struct held_file *file);

#endif
