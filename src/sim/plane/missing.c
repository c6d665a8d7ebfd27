/* SPDX-License-Identifier: BSD-3-Clause */
/* missing.c -- functions of libibverbs that clients link, and that the simulated adapter does not
 * have: multicast, imports of another process's objects, extended queue pairs, sysfs, librdmacm's
 * conversions of the kernel's structs, other sizes of a completion queue
 */
#include <errno.h>
#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>

#include "sim/plane/context.h"

/* driver.h of rdma-core, which is not installed. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *folder, const char *file, char *buffer, size_t size);
/* marshall.h of rdma-core, which not every system has. */
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, struct ib_uverbs_ah_attr *from);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, struct ib_user_path_rec *from);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, struct ibv_sa_path_rec *from);

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp;
	(void)gid;
	(void)lid;
	return EOPNOTSUPP;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp;
	(void)gid;
	(void)lid;
	return EOPNOTSUPP;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	(void)qp;
	return NULL;
}

/* Enhanced connection establishment: no options. */
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	*ece = (struct ibv_ece){ .vendor_id = 0 };
	return 0;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return 0;
}

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t flags)
{
	(void)qp;
	(void)opcode;
	(void)flags;
	return 0;
}

int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attributes,
				uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vlan)
{
	(void)context;
	(void)attributes;
	(void)mac;
	(void)vlan;
	errno = EOPNOTSUPP;
	return -1;
}

struct ibv_context *ibv_import_device(int fd)
{
	(void)fd;
	errno = EOPNOTSUPP;
	return NULL;
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	(void)context;
	(void)handle;
	errno = EOPNOTSUPP;
	return NULL;
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	(void)pd;
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	(void)context;
	(void)handle;
	errno = EOPNOTSUPP;
	return NULL;
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	(void)dm;
}

const char *ibv_get_sysfs_path(void)
{
	return "/sys";
}

int ibv_read_sysfs_file(const char *folder, const char *file, char *buffer, size_t size)
{
	(void)folder;
	(void)file;
	(void)buffer;
	(void)size;
	errno = ENOENT;
	return -1;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	(void)cq;
	(void)cqe;
	return EOPNOTSUPP;
}

/* There is no connection manager, whose answers librdmacm converts. */
#define MISSING_CONVERSION(name, ours, theirs)                                                     \
	void name(ours *to, theirs *from)                                                          \
	{                                                                                          \
		(void)from;                                                                        \
		memset(to, 0, sizeof(*to));                                                        \
	}
MISSING_CONVERSION(ibv_copy_ah_attr_from_kern, struct ibv_ah_attr, struct ib_uverbs_ah_attr)
MISSING_CONVERSION(ibv_copy_qp_attr_from_kern, struct ibv_qp_attr, struct ib_uverbs_qp_attr)
MISSING_CONVERSION(ibv_copy_path_rec_from_kern, struct ibv_sa_path_rec, struct ib_user_path_rec)
MISSING_CONVERSION(ibv_copy_path_rec_to_kern, struct ib_user_path_rec, struct ibv_sa_path_rec)
