/* SPDX-License-Identifier: BSD-3-Clause */
/* learning.h -- which kinds of allocation clients request; with registration_lock held unless noted
 */
#ifndef PEERPIN_REGISTRATION_LEARNING_H
#define PEERPIN_REGISTRATION_LEARNING_H

#include "registration/objects.h"

/* True if such memory should be registered in the background; *kind is then for the region. */
bool learning_is_eligible(struct domain *domain, const struct allocation *allocation,
			  struct learning_kind *kind);

/* Kinds that every domain refused recently, with no change since that could reverse it: the
 * allocation need not be queued. learning_is_refused() needs no lock: a rescan follows each such
 * change. */
bool learning_is_refused(const struct allocation *allocation);
void learning_set_refused(const struct allocation *allocation);

/* learning_started(): a background registration begins. learning_unused(): a region ended before a
 * client requested it. */
void learning_started(struct domain *domain, const struct learning_kind *kind);
void learning_unused(struct domain *domain, const struct learning_kind *kind);

/* A client requested such an allocation for the first time; `kind` is its region's. True:
 * allocations refused earlier may be registered now. */
bool learning_requested(struct domain *domain, const struct allocation *allocation,
			const struct learning_kind *kind);

/* A domain needs every allocation registered from now on. */
void learning_reconsider(void);

void learning_begin(struct domain *domain);

#endif
