/* SPDX-License-Identifier: BSD-3-Clause */
/* public.c -- the public interface (peerpin.h), except subscriptions */
#include "peerpin.h"

#include <errno.h>

#include "report/statistics.h"

const char *peerpin_version(void)
{
	return PACKAGE_VERSION;
}

int peerpin_statistic(const char *name, uint64_t *value)
{
	return name && value ? statistics_find(name, value) : -EINVAL;
}
