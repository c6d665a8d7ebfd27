/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_domain.c -- protection domains in the kernel; handles are reused, the lowest first */
#include <errno.h>
#include <stdlib.h>

#include "sim/adapter.h"

struct adapter_domain {
	struct ibv_context *context; /* NULL: free */
	unsigned int regions;
	unsigned int objects; /* of the data plane */
};

/* Guarded by adapter_lock. */
static struct adapter_domain *domains;
static uint32_t domain_count; /* handle: index + 1 */

static struct adapter_domain *domain_find(const struct ibv_pd *pd)
{
	struct adapter_domain *domain;

	if (!pd->handle || pd->handle > domain_count)
		return NULL;
	domain = &domains[pd->handle - 1];
	return domain->context == pd->context ? domain : NULL;
}

static uint32_t domain_new(struct ibv_context *context)
{
	struct adapter_domain *more;
	uint32_t slot = 0;

	while (slot < domain_count && domains[slot].context)
		slot++;
	if (slot == domain_count) {
		more = realloc(domains, (domain_count + 1) * sizeof(*domains));
		if (!more)
			return 0;
		domains = more;
		domain_count++;
	}
	domains[slot] = (struct adapter_domain){ .context = context };
	return slot + 1;
}

uint32_t domain_make(struct ibv_context *context)
{
	uint32_t handle;

	pthread_mutex_lock(&adapter_lock);
	handle = domain_new(context);
	pthread_mutex_unlock(&adapter_lock);
	if (handle)
		adapter_count(pds);
	return handle;
}

int domain_end(const struct ibv_pd *pd)
{
	struct adapter_domain *domain;
	unsigned int left = 0;
	int error = 0;

	pthread_mutex_lock(&adapter_lock);
	domain = domain_find(pd);
	if (domain)
		left = domain->regions;
	if (!domain)
		error = EINVAL;
	else if (left || domain->objects)
		error = EBUSY;
	else
		domain->context = NULL;
	pthread_mutex_unlock(&adapter_lock);
	if (error == EBUSY) {
		adapter_count(pds_busy);
		if (left && !adapter_setting(busy))
			adapter_die("a protection domain is deallocated with %u registrations left",
				    left);
	} else if (!error) {
		adapter_remove(pds, 1);
	}
	return error;
}

void domain_end_all(const struct ibv_context *context)
{
	for (uint32_t i = 0; i < domain_count; i++) {
		if (domains[i].context == context) {
			domains[i].context = NULL;
			adapter_remove(pds, 1);
		}
	}
}

bool domain_is_live(const struct ibv_pd *pd)
{
	return domain_find(pd) != NULL;
}

void domain_count_region(uint32_t handle, int change)
{
	domains[handle - 1].regions += (unsigned int)change;
}

int adapter_count_object(const struct ibv_pd *pd, int change)
{
	struct adapter_domain *domain;

	pthread_mutex_lock(&adapter_lock);
	domain = domain_find(pd);
	if (domain)
		domain->objects += (unsigned int)change;
	pthread_mutex_unlock(&adapter_lock);
	return domain ? 0 : EINVAL;
}
