/* SPDX-License-Identifier: BSD-3-Clause */
/* check_library.c -- the simulated libibverbs as a whole: objects in their domains and contexts,
 * and conversions for librdmacm
 */
#include <errno.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include "../unit/suite.h"

static struct ibv_context *context;
static struct ibv_pd *pd;

static void open_adapter(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	ck_assert_ptr_nonnull(list[0]);
	context = ibv_open_device(list[0]);
	ck_assert_ptr_nonnull(context);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	ck_assert_ptr_nonnull(pd);
}

static void close_adapter(void)
{
	ck_assert_int_eq(ibv_close_device(context), 0);
}

CASE(library, .set_up = open_adapter, .tear_down = close_adapter);

static struct ibv_qp *make_pair(struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr wanted = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC
	};

	wanted.cap = (struct ibv_qp_cap){
		.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1
	};
	return ibv_create_qp(pd, &wanted);
}

TEST(library, a_domain_with_an_object_is_busy)
{
	struct ibv_ah_attr there = { .dlid = 1, .port_num = 1 };
	struct ibv_srq_init_attr receives = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_ah *ah = ibv_create_ah(pd, &there);
	struct ibv_srq *srq = ibv_create_srq(pd, &receives);
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_qp *qp = make_pair(cq, srq);

	ck_assert_ptr_nonnull(ah);
	ck_assert_ptr_nonnull(srq);
	ck_assert_ptr_nonnull(qp);
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(ibv_destroy_srq(srq), EBUSY);
	ck_assert_int_eq(ibv_destroy_cq(cq), EBUSY);
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
}

TEST(library, an_object_of_a_parent_domain_is_in_the_domain)
{
	struct ibv_parent_domain_init_attr wanted = { .pd = pd };
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &wanted);
	struct ibv_ah_attr there = { .dlid = 1, .port_num = 1 };
	struct ibv_ah *ah;

	ck_assert_ptr_nonnull(parent);
	ah = ibv_create_ah(parent, &there);
	ck_assert_ptr_nonnull(ah);
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(ibv_dealloc_pd(parent), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	wanted.pd = NULL;
	errno = 0;
	ck_assert_ptr_null(ibv_alloc_parent_domain(context, &wanted));
	ck_assert_int_eq(errno, EINVAL);
}

TEST(library, objects_of_a_closed_device_can_still_be_destroyed)
{
	/* A domain of a closed device stays, as its context does: reachable for LeakSanitizer. */
	static struct ibv_pd *volatile domain;
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *other = ibv_open_device(list[0]);
	struct ibv_ah *ah;
	struct ibv_ah_attr there = { .dlid = 1, .port_num = 1 };
	struct ibv_comp_channel *channel = ibv_create_comp_channel(other);
	struct ibv_cq *cq = ibv_create_cq(other, 1, NULL, channel, 0);
	struct ibv_wc completion;

	domain = ibv_alloc_pd(other);
	ah = ibv_create_ah(domain, &there);
	ck_assert_int_eq(ibv_close_device(other), 0);
	ck_assert_int_eq(ibv_poll_cq(cq, 1, &completion), 0);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(channel), 0);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);
	ibv_free_device_list(list);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
}

/* ---- conversions ---- */

void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, struct ib_uverbs_ah_attr *from);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, struct ib_user_path_rec *from);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, struct ibv_sa_path_rec *from);

#define SAME(a, b, field) ck_assert_uint_eq((a).field, (b).field)

static void fill(void *to, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((unsigned char *)to)[i] = (unsigned char)(i * 7 + 1);
}

static void same_address(const struct ibv_ah_attr *to, const struct ib_uverbs_ah_attr *from)
{
	ck_assert_mem_eq(&to->grh.dgid, from->grh.dgid, sizeof(to->grh.dgid));
	SAME(*to, *from, grh.flow_label);
	SAME(*to, *from, grh.sgid_index);
	SAME(*to, *from, grh.hop_limit);
	SAME(*to, *from, grh.traffic_class);
	SAME(*to, *from, dlid);
	SAME(*to, *from, sl);
	SAME(*to, *from, src_path_bits);
	SAME(*to, *from, static_rate);
	SAME(*to, *from, is_global);
	SAME(*to, *from, port_num);
}

TEST(library, attributes_of_a_queue_pair_come_from_the_kernels_form)
{
	struct ib_uverbs_qp_attr from;
	struct ibv_qp_attr to;

	fill(&from, sizeof(from));
	memset(&to, 0, sizeof(to));
	ibv_copy_qp_attr_from_kern(&to, &from);
	SAME(to, from, qp_state);
	SAME(to, from, cur_qp_state);
	SAME(to, from, path_mtu);
	SAME(to, from, path_mig_state);
	SAME(to, from, qkey);
	SAME(to, from, rq_psn);
	SAME(to, from, sq_psn);
	SAME(to, from, dest_qp_num);
	SAME(to, from, qp_access_flags);
	ck_assert_uint_eq(to.cap.max_send_wr, from.max_send_wr);
	ck_assert_uint_eq(to.cap.max_recv_wr, from.max_recv_wr);
	ck_assert_uint_eq(to.cap.max_send_sge, from.max_send_sge);
	ck_assert_uint_eq(to.cap.max_recv_sge, from.max_recv_sge);
	ck_assert_uint_eq(to.cap.max_inline_data, from.max_inline_data);
	same_address(&to.ah_attr, &from.ah_attr);
	same_address(&to.alt_ah_attr, &from.alt_ah_attr);
	SAME(to, from, pkey_index);
	SAME(to, from, alt_pkey_index);
	SAME(to, from, en_sqd_async_notify);
	SAME(to, from, sq_draining);
	SAME(to, from, max_rd_atomic);
	SAME(to, from, max_dest_rd_atomic);
	SAME(to, from, min_rnr_timer);
	SAME(to, from, port_num);
	SAME(to, from, timeout);
	SAME(to, from, retry_cnt);
	SAME(to, from, rnr_retry);
	SAME(to, from, alt_port_num);
	SAME(to, from, alt_timeout);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
}

TEST(library, a_path_goes_to_the_kernels_form_and_back)
{
	struct ib_user_path_rec from, back;
	struct ibv_sa_path_rec to;

	fill(&from, sizeof(from));
	from.mtu &= 0xff;
	memset(&back, 0, sizeof(back));
	ibv_copy_path_rec_from_kern(&to, &from);
	ck_assert_mem_eq(&to.dgid, from.dgid, sizeof(to.dgid));
	SAME(to, from, dlid);
	SAME(to, from, pkey);
	SAME(to, from, preference);
	ibv_copy_path_rec_to_kern(&back, &to);
	ck_assert_mem_eq(&back, &from, offsetof(struct ib_user_path_rec, preference) + 1);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
}

SUITE("library")
