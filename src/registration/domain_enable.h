/* SPDX-License-Identifier: BSD-3-Clause */
/* domain_enable.h -- domains that serve access flags, and their first use */
#ifndef PEERPIN_REGISTRATION_DOMAIN_ENABLE_H
#define PEERPIN_REGISTRATION_DOMAIN_ENABLE_H

#include "registration/objects.h"

/* True if regions can be shared under these access flags. No lock. */
bool domain_may_share(int access);

/* The domain of these access flags, enabled from now on. Sets *newly if it was not enabled before.
 * NULL: unknown or closing protection domain, or out of memory. With the lock held. */
struct domain *domain_enable(const struct ibv_pd *pd, int access, bool *newly);

/* Logs that a domain is enabled. Without the lock. */
void domain_log_enabled(int access);

/* PEERPIN_PREREGISTER=eager: the client requests host memory. Without the lock. See
 * registration_expect(). */
void domain_expect_like(const struct registration_request *request);

#endif
