/* SPDX-License-Identifier: BSD-3-Clause */
/* attributes.c -- queries of device and port */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/adapter_access.h"
#include "sim/plane/context.h"

#undef ibv_query_port /* verbs.h's inline function of another name */

#define ATTRIBUTES_PKEY	       0xffff /* the default partition */
#define ATTRIBUTES_MESSAGE_MAX (1u << 30)
#define ATTRIBUTES_WIDTH_4X    2
#define ATTRIBUTES_SPEED_NDR   128
#define ATTRIBUTES_LINK_UP     5

/* ---- device ---- */

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *answer)
{
	union ibv_gid gid;

	address_gid(context, &gid);
	*answer = (struct ibv_device_attr){
		.node_guid = gid.global.interface_id,
		.sys_image_guid = gid.global.interface_id,
		.max_mr_size = UINT64_MAX,
		.page_size_cap = UINT64_MAX & ~(uint64_t)0xfff,
		.max_qp = PLANE_PAIRS,
		.max_qp_wr = PLANE_WORK_REQUESTS,
		.device_cap_flags = IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN,
		.max_sge = PLANE_SEGMENTS,
		.max_sge_rd = PLANE_SEGMENTS,
		.max_cq = PLANE_QUEUES,
		.max_cqe = PLANE_COMPLETIONS,
		.max_mr = adapter_regions_max(),
		.max_pd = 1 << 16,
		.max_qp_rd_atom = PLANE_READS,
		.max_res_rd_atom = PLANE_PAIRS * PLANE_READS,
		.max_qp_init_rd_atom = PLANE_READS,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_ah = INT32_MAX,
		.max_srq = PLANE_QUEUES,
		.max_srq_wr = PLANE_WORK_REQUESTS,
		.max_srq_sge = PLANE_SEGMENTS,
		.max_pkeys = 1,
		.local_ca_ack_delay = 15,
		.phys_port_cnt = 1,
	};
	snprintf(answer->fw_ver, sizeof(answer->fw_ver), "simulated %u", adapter_number(context));
	return 0;
}

int attributes_query_device_ex(struct ibv_context *context,
			       const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *answer, size_t size)
{
	if ((input && input->comp_mask) || size < sizeof(answer->orig_attr))
		return EINVAL;
	memset(answer, 0, size);
	return ibv_query_device(context, &answer->orig_attr);
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	struct ibv_context context = { .device = device };
	union ibv_gid gid;

	address_gid(&context, &gid);
	return gid.global.interface_id;
}

/* As without netlink. */
int ibv_get_device_index(struct ibv_device *device)
{
	(void)device;
	return -1;
}

/* ---- port ---- */

/* Programs have structs of different length, of which verbs.h reports the size. */
int attributes_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *answer,
			  size_t size)
{
	struct ibv_port_attr attributes = {
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = 1,
		.max_msg_sz = ATTRIBUTES_MESSAGE_MAX,
		.pkey_tbl_len = 1,
		.lid = address_lid(context),
		.sm_lid = 1,
		.max_vl_num = 1,
		.subnet_timeout = 18,
		.active_width = ATTRIBUTES_WIDTH_4X,
		.active_speed = ATTRIBUTES_SPEED_NDR,
		.phys_state = ATTRIBUTES_LINK_UP,
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
	};

	if (port != 1)
		return EINVAL;
	memset(answer, 0, size);
	memcpy(answer, &attributes, size < sizeof(attributes) ? size : sizeof(attributes));
	return 0;
}

/* The struct of programs that are older than verbs.h's table ends behind the link layer. */
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *answer)
{
	return attributes_query_port(context, port, (struct ibv_port_attr *)answer,
				     offsetof(struct ibv_port_attr, flags));
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	if (port != 1 || index) {
		errno = EINVAL;
		return -1;
	}
	address_gid(context, gid);
	return 0;
}

static void attributes_fill_gid(struct ibv_context *context, struct ibv_gid_entry *entry,
				size_t size)
{
	struct ibv_gid_entry answer = { .port_num = 1, .gid_type = IBV_GID_TYPE_IB };

	address_gid(context, &answer.gid);
	memset(entry, 0, size);
	memcpy(entry, &answer, size < sizeof(answer) ? size : sizeof(answer));
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	if (flags)
		return EOPNOTSUPP;
	if (port != 1 || size < offsetof(struct ibv_gid_entry, ndev_ifindex))
		return EINVAL;
	if (index)
		return ENODATA;
	attributes_fill_gid(context, entry, size);
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t most, uint32_t flags, size_t size)
{
	if (flags)
		return -EOPNOTSUPP;
	if (!most || size < offsetof(struct ibv_gid_entry, ndev_ifindex))
		return -EINVAL;
	attributes_fill_gid(context, entries, size);
	return 1;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	if (port != 1 || index) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(ATTRIBUTES_PKEY);
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	(void)context;
	if (port == 1 && pkey == htobe16(ATTRIBUTES_PKEY))
		return 0;
	errno = EINVAL;
	return -1;
}
