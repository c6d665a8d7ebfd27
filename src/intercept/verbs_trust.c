/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_trust.c -- whether the loaded libibverbs is as assumed: layouts, parameters */
#include "intercept/verbs.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loaded.h"
#include "base/log.h"
#include "base/process.h"
#include "intercept/bypass.h"

enum trust { TRUST_UNKNOWN, TRUST_GIVEN, TRUST_REFUSED };

/* Both are read and stored atomically. */
static int trust;	     /* enum trust: TRUST_GIVEN once a registration was filled as assumed */
static int attributes_trust; /* TRUST_GIVEN: dma-buf calls have the parameter `driver` */

/* TRUST_REFUSED is final, and logged once. */
static void verbs_trust_refuse(const char *difference)
{
	if (__atomic_exchange_n(&trust, TRUST_REFUSED, __ATOMIC_RELAXED) != TRUST_REFUSED)
		log_message(LOG_WARN,
			    "this libibverbs differs from those that peerpin supports, in its %s: "
			    "registrations are forwarded. Please report its version.",
			    difference);
}

static bool verbs_trust_is_refused(void)
{
	return __atomic_load_n(&trust, __ATOMIC_RELAXED) == TRUST_REFUSED;
}

bool verbs_may_serve(struct ibv_pd *pd)
{
	const char *difference;
	int saved_errno = errno;
	bool may;

	bypass_check();
	difference = verbs_trust_is_refused() ? NULL : verbs_check(pd);
	if (difference)
		verbs_trust_refuse(difference);
	may = !verbs_trust_is_refused();
	if (!may)
		verbs_count_forwarded(version);
	errno = saved_errno;
	return may;
}

bool verbs_hit(const struct registration_request *request, struct registration_keys *keys)
{
	return __atomic_load_n(&trust, __ATOMIC_RELAXED) == TRUST_GIVEN && !verbs_is_internal() &&
	       registration_hit(request, keys);
}

bool verbs_serve(const struct registration_request *request, struct registration_keys *keys)
{
	int saved_errno = errno;
	bool served = registration_request(request, keys);

	/* The region's own registration passed these wrappers, too. */
	if (served && __atomic_load_n(&trust, __ATOMIC_RELAXED) != TRUST_GIVEN) {
		registration_drop(request->client_mr);
		served = false;
	}
	errno = saved_errno;
	return served;
}

void verbs_record(const struct registration_request *request, int result, bool filled)
{
	int unknown = TRUST_UNKNOWN;

	verbs_check_saw(request, result);
	if (result || process_is_passive())
		return;
	verbs_drop_stale(request->client_mr);
	if (filled)
		__atomic_compare_exchange_n(&trust, &unknown, TRUST_GIVEN, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
	else
		verbs_trust_refuse("memory regions");
}

/* Up to rdma-core 56, libraries with and without the parameter share one version node. libmlx5 got
 * its function for private attributes in the same release, and no other provider has private
 * attributes. Without that function the value is arbitrary. */
static void verbs_trust_read_version(const struct object_tables *tables, void *is_34)
{
	*(bool *)is_34 = object_defines_version(tables, "IBVERBS_PRIVATE_34");
}

static void verbs_trust_read_mlx5(const struct object_tables *tables, void *trust)
{
	*(int *)trust = object_find(tables, "mlx5dv_reg_dmabuf_mr") ? TRUST_GIVEN : TRUST_REFUSED;
}

static bool verbs_trust_has_driver_parameter(void)
{
	int known = __atomic_load_n(&attributes_trust, __ATOMIC_RELAXED);
	bool is_34 = false;

	if (known == TRUST_UNKNOWN) {
		known = TRUST_GIVEN;
		loaded_read_library("libibverbs.so.1", verbs_trust_read_version, &is_34);
		if (is_34 && !loaded_read_library("libmlx5.so.1", verbs_trust_read_mlx5, &known))
			return false;
		__atomic_store_n(&attributes_trust, known, __ATOMIC_RELAXED);
	}
	return known == TRUST_GIVEN;
}

/* The layouts are checked in each new context. */
void verbs_trust_forget(void)
{
	__atomic_store_n(&attributes_trust, TRUST_UNKNOWN, __ATOMIC_RELAXED);
}

bool verbs_has_private_attributes(const struct ibv_command_buffer *driver)
{
	int saved_errno = errno;
	bool has = driver && verbs_trust_has_driver_parameter();

	errno = saved_errno;
	return has;
}

/* The struct grows at its front, so the offset of the public struct depends on the release. The
 * word before the public struct is the size of both, and its last word is all ones. */
bool verbs_may_open(const struct ibv_context *device)
{
	size_t offset = ((const size_t *)device)[-1] - IBV_CONTEXT_SIZE;
	size_t last = ((const size_t *)device)[IBV_CONTEXT_SIZE / sizeof(size_t) - 1];

	if (offset < VERBS_CONTEXT_OFFSET || offset >= VERBS_CONTEXT_END || last != SIZE_MAX)
		verbs_trust_refuse("contexts");
	return !verbs_trust_is_refused();
}
