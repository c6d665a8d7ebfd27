/* SPDX-License-Identifier: BSD-3-Clause */
/* witness_queue.c -- functions of libibverbs for the queue pairs that witness_client.c makes
 * itself, and one of MPI */
#include <infiniband/verbs.h>

#include "stacks/verbs_witness.h"

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)mask;
	qp->state = attr->qp_state;
	return 0;
}

/* Every queue pair is an extended one. */
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return (struct ibv_qp_ex *)qp;
}

int MPI_Pcontrol(const int level, ...)
{
	return level < 0;
}
