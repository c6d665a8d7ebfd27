/* SPDX-License-Identifier: BSD-3-Clause */
/* domain_enable.c -- domains that serve access flags, and their first use
 *
 * The first request in a domain enables it. From then on, live and new allocations are
 * registered there in the background, unless that is off.
 *
 * PEERPIN_PREREGISTER=eager: memory near the adapter is registered earlier, in domains that a known
 * client will use. UCX registers each buffer twice, with relaxed ordering and without, where its
 * version prefers that for the CPU, or a setting requires it. It registers host memory, its own
 * buffers, in the same way before the program's memory: these requests reveal the choice.
 */
#include "registration/domain_enable.h"

#include <errno.h>

#include "base/config.h"
#include "base/log.h"
#include "base/process.h"
#include "base/system.h"
#include "registration/background.h"
#include "registration/domain.h"
#include "registration/region_life.h"
#include "registration/registration.h"
#include "registration/lock.h"

/* Access flags that regions may have. Domains differ by relaxed ordering, as by every other
 * flag. */
#define SHARED_FLAGS                                                                               \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING)

/* The kernel refuses remote write or remote atomic without local write. */
bool domain_may_share(int access)
{
	return !(access & ~SHARED_FLAGS) &&
	       ((access & IBV_ACCESS_LOCAL_WRITE) ||
		!(access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)));
}

/* Names the access flags of SHARED_FLAGS. The kernel never refuses local read. */
static void domain_enable_name_flags(int access, char *to, size_t size)
{
	static const struct {
		int flag;
		char name[20];
	} flags[] = {
		{ IBV_ACCESS_LOCAL_WRITE, "local write" },
		{ IBV_ACCESS_REMOTE_WRITE, "remote write" },
		{ IBV_ACCESS_REMOTE_READ, "remote read" },
		{ IBV_ACCESS_REMOTE_ATOMIC, "remote atomic" },
		{ IBV_ACCESS_RELAXED_ORDERING, "relaxed ordering" },
		{ DOMAIN_PCIE, "over PCIe" },
	};
	size_t used = (size_t)system_format(to, size, "local read");

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]) && used < size; i++) {
		if (access & flags[i].flag)
			used += (size_t)system_format(to + used, size - used, ", %s",
						      flags[i].name);
	}
}

void domain_log_enabled(int access)
{
	static const char when[][24] = { [PREREGISTER_AUTO] = "in the background",
					 [PREREGISTER_EAGER] = "inside the allocation",
					 [PREREGISTER_OFF] = "synchronously" };
	char flags[96];

	if (!log_is_on(LOG_INFO))
		return;
	domain_enable_name_flags(access, flags, sizeof(flags));
	log_message(LOG_INFO,
		    "a protection domain is enabled: new GPU memory is registered there %s; access "
		    "flags: %s",
		    when[config_get()->preregister], flags);
}

struct domain *domain_enable(const struct ibv_pd *pd, int access, bool *newly)
{
	struct protection_domain *owner = protection_domain_find(pd->context, pd->handle);
	struct domain *domain;

	registration_assert_held();
	if (!owner || owner->closing)
		return NULL;
	domain = domain_find(owner, access);
	if (!domain)
		domain = domain_create(owner, access);
	if (domain && !domain->enabled) {
		domain->enabled = true;
		*newly = true;
	}
	return domain;
}

/* Without the lock. `is_like`: for other memory, which counts if the client is known, and has added
 * relaxed ordering to its access flags. */
static void domain_enable_expect(const struct ibv_pd *pd, int access, bool is_like)
{
	struct protection_domain *owner;
	int saved_errno = errno;
	bool go = false;

	registration_lock();
	owner = protection_domain_find(pd->context, pd->handle);
	if (owner && !is_like)
		owner->expected = access;
	if (owner && !owner->closing && !domain_find(owner, access) && owner->expected &&
	    (owner->expected | (is_like ? IBV_ACCESS_RELAXED_ORDERING : 0)) == access)
		go = background_queue_domain(domain_create(owner, access));
	registration_unlock();
	if (go)
		worker_wake();
	errno = saved_errno;
}

void registration_expect(const struct ibv_pd *pd, int access)
{
	domain_enable_expect(pd, access, false);
}

void domain_expect_like(const struct registration_request *request)
{
	if (config_get()->preregister == PREREGISTER_EAGER &&
	    (request->access & IBV_ACCESS_RELAXED_ORDERING))
		domain_enable_expect(request->pd, request->access, true);
}
