/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_trust.c -- checks of the loaded libibverbs: version, layouts, parameters */
#include "intercept/verbs.h"

#include <errno.h>
#include <stddef.h>

#include "base/log.h"
#include "base/system.h"
#include "intercept/bypass.h"

enum trust { UNKNOWN, TRUSTED, REFUSED };

/* All are read and stored atomically. */
static int version_trust, layout_trust; /* enum trust */
static int attributes_trust;		/* TRUSTED: dma-buf calls have the parameter `driver` */

/* Version node of the boundary: 34 up to rdma-core 56, then the release that last changed any
 * function of the private interface. */
static enum trust verbs_trust_check_version(void)
{
	static const char known[][20] = {
		"IBVERBS_PRIVATE_34", "IBVERBS_PRIVATE_57", "IBVERBS_PRIVATE_58",
		"IBVERBS_PRIVATE_59", "IBVERBS_PRIVATE_60", "IBVERBS_PRIVATE_61",
		"IBVERBS_PRIVATE_62", "IBVERBS_PRIVATE_63", "IBVERBS_PRIVATE_64",
		"IBVERBS_PRIVATE_65",
	};
	void *handle = system_find_library("libibverbs.so.1");

	for (size_t i = 0; handle && i < sizeof(known) / sizeof(known[0]); i++) {
		if (!system_dlvsym(handle, "ibv_cmd_reg_mr", known[i]))
			continue;
		if (i)
			__atomic_store_n(&attributes_trust, TRUSTED, __ATOMIC_RELAXED);
		return TRUSTED;
	}
	log_once(LOG_WARN, "peerpin does not support this libibverbs (only rdma-core 35 to 65): "
			   "registrations are forwarded. A newer peerpin may support it.");
	return REFUSED;
}

static bool verbs_trust_is_version_known(void)
{
	int trust = __atomic_load_n(&version_trust, __ATOMIC_RELAXED);

	if (trust == UNKNOWN) {
		trust = verbs_trust_check_version();
		__atomic_store_n(&version_trust, trust, __ATOMIC_RELAXED);
	}
	return trust == TRUSTED;
}

bool verbs_may_serve(void)
{
	int saved_errno = errno;
	bool may;

	bypass_scan();
	may = verbs_trust_is_version_known() &&
	      __atomic_load_n(&layout_trust, __ATOMIC_RELAXED) != REFUSED;
	if (!may)
		verbs_count_forwarded(version);
	errno = saved_errno;
	return may;
}

bool verbs_hit(const struct registration_request *request, struct registration_keys *keys)
{
	return __atomic_load_n(&version_trust, __ATOMIC_RELAXED) == TRUSTED &&
	       __atomic_load_n(&layout_trust, __ATOMIC_RELAXED) == TRUSTED &&
	       !verbs_is_internal() && bypass_is_settled() && registration_hit(request, keys);
}

bool verbs_serve(const struct registration_request *request, struct registration_keys *keys)
{
	int saved_errno = errno;
	bool served = registration_request(request, keys);

	/* The region's own registration passed these wrappers and so has checked the layout. */
	if (served && __atomic_load_n(&layout_trust, __ATOMIC_RELAXED) != TRUSTED) {
		registration_drop(request->client_mr);
		served = false;
	}
	errno = saved_errno;
	return served;
}

void verbs_record_layout(bool right)
{
	if (right) {
		if (!__atomic_load_n(&layout_trust, __ATOMIC_RELAXED))
			__atomic_store_n(&layout_trust, TRUSTED, __ATOMIC_RELAXED);
		return;
	}
	__atomic_store_n(&layout_trust, REFUSED, __ATOMIC_RELAXED);
	log_once(LOG_WARN, "this libibverbs fills its memory regions in an unknown layout: "
			   "registrations are forwarded. Please report its version.");
}

/* Libraries with and without the parameter share one version node. libmlx5 got its function for
 * private attributes in the same release, and no other provider has private attributes. Without
 * that function the value is arbitrary. */
static bool verbs_trust_has_driver_parameter(void)
{
	int trust = __atomic_load_n(&attributes_trust, __ATOMIC_RELAXED);
	void *handle;

	if (trust == UNKNOWN) {
		handle = system_find_library("libmlx5.so.1");
		if (!handle)
			return false;
		trust = system_dlvsym(handle, "mlx5dv_reg_dmabuf_mr", "MLX5_1.25") ? TRUSTED
										   : REFUSED;
		__atomic_store_n(&attributes_trust, trust, __ATOMIC_RELAXED);
	}
	return trust == TRUSTED;
}

bool verbs_has_private_attributes(const struct ibv_command_buffer *driver)
{
	int saved_errno = errno;
	bool has = driver && verbs_trust_has_driver_parameter();

	errno = saved_errno;
	return has;
}

/* The struct grows at its front, so the offset of the public struct depends on the release. The
 * word before the public struct is the size of both, and its last word is all ones. Every release
 * contains the bytes read here. */
struct ibv_context *verbs_context_of(struct verbs_context *context)
{
	const char *start = (const char *)context;

	for (size_t at = VERBS_CONTEXT_OFFSET; at < VERBS_CONTEXT_OFFSET + IBV_CONTEXT_SIZE;
	     at += sizeof(size_t)) {
		if (*(const size_t *)(start + at - sizeof(size_t)) == at + IBV_CONTEXT_SIZE &&
		    *(const uintptr_t *)(start + at + IBV_CONTEXT_SIZE - sizeof(uintptr_t)) ==
			    UINTPTR_MAX)
			return (struct ibv_context *)(start + at);
	}
	log_once(LOG_ERROR,
		 "the struct of a closing device has an unknown layout: peerpin leaves its regions "
		 "there to the kernel. Please report the version of libibverbs.");
	return NULL;
}
