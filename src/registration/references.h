/* SPDX-License-Identifier: BSD-3-Clause */
/* references.h -- unused references, and ended ones with client MRs that the client has yet to
 * deregister
 *
 * The memory of such a client MR was freed, and no kernel object is behind it. Without peerpin
 * there would be one until the deregistration, and its protection domain would be busy. So an ended
 * reference stays in a list of its protection domain until its last client MR is deregistered.
 *
 * With registration_mutex held.
 */
#ifndef PEERPIN_REGISTRATION_REFERENCES_H
#define PEERPIN_REGISTRATION_REFERENCES_H

#include "registration/objects.h"

/* An unused reference, for the region; NULL: out of memory. */
struct region_reference *references_take(struct region *region);

/* The reference is in no chain, and its generation has ended (holds_end()). references_forget():
 * that of imports, which are no kernel objects of their own. */
void references_put(struct protection_domain *owner, struct region_reference *reference);
void references_forget(struct region_reference *reference);

/* True if the client has yet to deregister a revoked client MR of the protection domain. */
bool references_any_revoked(struct protection_domain *owner);

/* The protection domain ends, with revoked client MRs or without. */
void references_forget_revoked(struct protection_domain *owner);

#endif
