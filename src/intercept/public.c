/* SPDX-License-Identifier: BSD-3-Clause */
/* public.c -- the public interface (peerpin.h), except subscriptions */
#include "peerpin.h"

#include <errno.h>

#include "base/process.h"
#include "registration/registration.h"
#include "report/statistics.h"

const char *peerpin_version(void)
{
	return PACKAGE_VERSION;
}

int peerpin_statistic(const char *name, uint64_t *value)
{
	return name && value ? statistics_find(name, value) : -EINVAL;
}

int peerpin_domain(struct ibv_pd *pd, int access, struct peerpin_domain **domain)
{
	if (!domain)
		return -EINVAL;
	*domain = NULL;
	if (!pd)
		return -EINVAL;
	if (process_is_passive())
		return -EOPNOTSUPP;
	/* A thread may exist from now on, so a child must be passive. */
	process_activate();
	*domain = (struct peerpin_domain *)registration_domain(pd, access);
	return *domain ? 0 : -ENOENT;
}

int peerpin_lookup(const struct peerpin_domain *domain, uint64_t address, uint64_t length,
		   int access, struct peerpin_keys *keys)
{
	/* Regions belong to the parent; after fork's copies the child's memory has other pages. */
	if (!domain || process_is_passive())
		return -ENOENT;
	return registration_find((const struct domain *)domain, address, length, access,
				 &keys->lkey, &keys->rkey)
		       ? 0
		       : -ENOENT;
}
