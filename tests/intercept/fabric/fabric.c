/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric.c -- a client of libibverbs that defines the symbol DEFINES
 *
 * Built as libfabric, as another library that contains libfabric, as its provider plug-ins, and as
 * other clients, each linked to libibverbs: calls/rows
 */
struct ibv_context;
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
struct ibv_pd *client_alloc_pd(struct ibv_context *context);
int DEFINES(void);

int DEFINES(void)
{
	return 0;
}

/* No tail call: the return address must be this library's. */
struct ibv_pd *client_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);

	__asm__ volatile("" ::: "memory");
	return pd;
}
