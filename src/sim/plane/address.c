/* SPDX-License-Identifier: BSD-3-Clause */
/* address.c -- address handles, local identifiers and addresses (LID, GID) of adapters
 *
 * Adapter i of each process has LID i + 1 and one GID, of the default subnet. The link layer is
 * InfiniBand.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/adapter_access.h"
#include "sim/plane/context.h"

struct address {
	struct ibv_ah handle;
	struct ibv_ah_attr attributes;
};

#define ADDRESS_PREFIX 0xfe80000000000000u
#define ADDRESS_GUID   0x0250500000000001u /* of adapter 0; a locally administered one */

static void address_gid_of(unsigned int adapter, union ibv_gid *gid)
{
	gid->global.subnet_prefix = htobe64(ADDRESS_PREFIX);
	gid->global.interface_id = htobe64(ADDRESS_GUID + adapter);
}

uint16_t address_lid(const struct ibv_context *context)
{
	return (uint16_t)(adapter_number(context) + 1);
}

void address_gid(const struct ibv_context *context, union ibv_gid *gid)
{
	address_gid_of(adapter_number(context), gid);
}

/* Another process may have more adapters than this one. */
bool address_is_here(const struct ibv_ah_attr *attributes)
{
	union ibv_gid gid;

	if (attributes->dlid)
		return attributes->dlid <= ADAPTERS_MAX;
	for (unsigned int i = 0; i < ADAPTERS_MAX && attributes->is_global; i++) {
		address_gid_of(i, &gid);
		if (!memcmp(&gid, &attributes->grh.dgid, sizeof(gid)))
			return true;
	}
	return false;
}

const struct ibv_ah_attr *address_attributes(const struct ibv_ah *ah)
{
	return &((const struct address *)ah)->attributes;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attributes)
{
	static uint32_t handles; /* atomic */
	struct address *address;
	int error;

	if (attributes->port_num != 1 || (attributes->is_global && attributes->grh.sgid_index)) {
		errno = EINVAL;
		return NULL;
	}
	address = calloc(1, sizeof(*address));
	if (!address)
		return NULL;
	error = adapter_count_object(pd, 1);
	if (error) {
		free(address);
		errno = error;
		return NULL;
	}
	address->handle.context = pd->context;
	address->handle.pd = pd;
	address->handle.handle = __atomic_add_fetch(&handles, 1, __ATOMIC_RELAXED);
	address->attributes = *attributes;
	context_reference(pd->context);
	return &address->handle;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	adapter_count_object(ah->pd, -1);
	context_release(ah->context);
	free(ah);
	return 0;
}

static int address_index(struct ibv_context *context, const union ibv_gid *gid)
{
	union ibv_gid own;

	address_gid(context, &own);
	return memcmp(&own, gid, sizeof(own)) ? -1 : 0;
}

/* The answer goes back to the sender of a datagram, whose header `grh` is. */
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *answer)
{
	uint32_t flow;
	int index;

	memset(answer, 0, sizeof(*answer));
	answer->dlid = wc->slid;
	answer->sl = wc->sl;
	answer->src_path_bits = wc->dlid_path_bits;
	answer->port_num = port;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;
	index = address_index(context, &grh->dgid);
	if (index < 0) {
		errno = EINVAL;
		return -1;
	}
	flow = be32toh(grh->version_tclass_flow);
	answer->is_global = 1;
	answer->grh.dgid = grh->sgid;
	answer->grh.sgid_index = (uint8_t)index;
	answer->grh.flow_label = flow & 0xfffff;
	answer->grh.traffic_class = (flow >> 20) & 0xff;
	answer->grh.hop_limit = 0xff;
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port)
{
	struct ibv_ah_attr attributes;

	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attributes))
		return NULL;
	return ibv_create_ah(pd, &attributes);
}
