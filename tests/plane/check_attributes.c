/* SPDX-License-Identifier: BSD-3-Clause */
/* check_attributes.c -- attributes, addresses and texts of the simulated adapter
 *
 * Texts and rates are those of the installed libibverbs.
 */
#include <dlfcn.h>
#include <endian.h>
#include <stdio.h>

#include "plane_fixture.h"

CASE(attributes, .set_up = plane_open, .tear_down = plane_close);

TEST(attributes, a_port_is_active_and_has_an_address)
{
	struct ibv_port_attr port;
	union ibv_gid gid;

	plane.adapter = 2;
	memset(&port, 0xff, sizeof(port));
	ck_assert_int_eq(ibv_query_port(plane.context, 1, &port), 0);
	ck_assert_int_eq(port.state, IBV_PORT_ACTIVE);
	ck_assert_int_eq(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
	ck_assert_int_eq(port.lid, 3);
	ck_assert_int_eq(port.lid, address_lid(plane.context));
	ck_assert_int_eq(port.gid_tbl_len, 1);
	ck_assert_int_eq(port.pkey_tbl_len, 1);
	ck_assert_int_eq(port.flags, 0);
	ck_assert_int_eq(ibv_query_port(plane.context, 0, &port), EINVAL);
	ck_assert_int_eq(ibv_query_port(plane.context, 2, &port), EINVAL);
	ck_assert_int_eq(ibv_query_gid(plane.context, 1, 0, &gid), 0);
	ck_assert_uint_eq(be64toh(gid.global.subnet_prefix), 0xfe80000000000000u);
	ck_assert(gid.global.interface_id == ibv_get_device_guid(&plane.device));
	ck_assert_int_eq(ibv_query_gid(plane.context, 1, 1, &gid), -1);
	ck_assert_int_eq(ibv_query_gid(plane.context, 2, 0, &gid), -1);
}

#undef ibv_query_port

TEST(attributes, an_old_program_gets_a_port_that_ends_at_the_link_layer)
{
	struct ibv_port_attr port, other;

	memset(&port, 0xff, sizeof(port));
	ck_assert_int_eq(ibv_query_port(plane.context, 1, (struct _compat_ibv_port_attr *)&port),
			 0);
	ck_assert_int_eq(attributes_query_port(plane.context, 1, &other, sizeof(other)), 0);
	ck_assert_mem_eq(&port, &other, offsetof(struct ibv_port_attr, flags));
	ck_assert_int_eq(port.flags, 0xff);
	ck_assert_int_eq(port.port_cap_flags2, 0xffff);
}

TEST(attributes, adapters_have_different_addresses)
{
	union ibv_gid first, second;

	address_gid(plane.context, &first);
	plane.adapter = 1;
	address_gid(plane.context, &second);
	ck_assert_mem_ne(&first, &second, sizeof(first));
}

TEST(attributes, gid_and_pkey_tables_have_one_entry)
{
	struct ibv_gid_entry entry, table[2];
	union ibv_gid gid;
	__be16 pkey;

	address_gid(plane.context, &gid);
	ck_assert_int_eq(ibv_query_gid_ex(plane.context, 1, 0, &entry, 0), 0);
	ck_assert_mem_eq(&entry.gid, &gid, sizeof(gid));
	ck_assert_int_eq(entry.gid_type, IBV_GID_TYPE_IB);
	ck_assert_int_eq(entry.port_num, 1);
	ck_assert_int_ne(ibv_query_gid_ex(plane.context, 1, 1, &entry, 0), 0);
	ck_assert_int_ne(ibv_query_gid_ex(plane.context, 1, 0, &entry, 1), 0);
	ck_assert_int_eq(ibv_query_gid_table(plane.context, table, 2, 0), 1);
	ck_assert_mem_eq(&table[0], &entry, sizeof(entry));
	ck_assert_int_lt(ibv_query_gid_table(plane.context, table, 0, 0), 0);
	ck_assert_int_eq(ibv_query_pkey(plane.context, 1, 0, &pkey), 0);
	ck_assert_int_eq(be16toh(pkey), 0xffff);
	ck_assert_int_eq(ibv_get_pkey_index(plane.context, 1, pkey), 0);
	ck_assert_int_eq(ibv_get_pkey_index(plane.context, 1, 1), -1);
	ck_assert_int_eq(ibv_query_pkey(plane.context, 1, 1, &pkey), -1);
}

TEST(attributes, a_device_has_limits_also_in_the_extended_form)
{
	struct ibv_device_attr_ex extended;
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_device_attr device;

	ck_assert_int_eq(ibv_query_device(plane.context, &device), 0);
	ck_assert_int_eq(device.max_mr, 1000);
	ck_assert_int_eq(device.phys_port_cnt, 1);
	ck_assert_int_gt(device.max_qp, 0);
	ck_assert_int_gt(device.max_qp_wr, 0);
	ck_assert_int_gt(device.max_sge, 1);
	ck_assert_int_gt(device.max_srq, 0);
	ck_assert_int_gt(device.max_qp_rd_atom, 0);
	ck_assert_int_eq(device.atomic_cap, IBV_ATOMIC_HCA);
	memset(&extended, 0xff, sizeof(extended));
	ck_assert_int_eq(ibv_query_device_ex(plane.context, NULL, &extended), 0);
	ck_assert_mem_eq(&extended.orig_attr, &device, sizeof(device));
	ck_assert_int_eq(extended.tm_caps.flags, 0);
	ck_assert_uint_eq(extended.odp_caps.general_caps, 0);
	ck_assert_int_eq(
		attributes_query_device_ex(plane.context, &input, &extended, sizeof(extended)),
		EINVAL);
}

TEST(attributes, functions_that_are_missing_are_not_supported)
{
	struct ibv_cq_init_attr_ex attributes = { .cqe = 1 };

	errno = 0;
	ck_assert_ptr_null(ibv_create_cq_ex(plane.context, &attributes));
	ck_assert_int_eq(errno, EOPNOTSUPP);
	errno = 0;
	ck_assert_ptr_null(ibv_alloc_mw(&plane.pd, IBV_MW_TYPE_1));
	ck_assert_int_eq(errno, EOPNOTSUPP);
}

/* ---- address handles ---- */

TEST(attributes, an_address_handle_keeps_its_attributes_and_its_domain)
{
	struct ibv_ah_attr attributes = { .dlid = 2, .sl = 3, .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(&plane.pd, &attributes);

	ck_assert_ptr_nonnull(ah);
	ck_assert_int_eq(plane.domain_objects, 1);
	ck_assert(!context_uninstall(plane.context));
	ck_assert_int_eq(address_attributes(ah)->dlid, 2);
	ck_assert_int_eq(address_attributes(ah)->sl, 3);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);
	ck_assert_int_eq(plane.domain_objects, 0);
	attributes.port_num = 2;
	errno = 0;
	ck_assert_ptr_null(ibv_create_ah(&plane.pd, &attributes));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(plane.domain_objects, 0);
}

TEST(attributes, addresses_of_adapters_reach_this_host_and_others_do_not)
{
	struct ibv_ah_attr attributes = { .port_num = 1 };

	ck_assert(!address_is_here(&attributes));
	attributes.dlid = 1;
	ck_assert(address_is_here(&attributes));
	attributes.dlid = ADAPTERS_MAX;
	ck_assert(address_is_here(&attributes));
	attributes.dlid = ADAPTERS_MAX + 1;
	ck_assert(!address_is_here(&attributes));
	attributes = (struct ibv_ah_attr){ .is_global = 1, .port_num = 1 };
	ck_assert(!address_is_here(&attributes));
	plane.adapter = 5;
	address_gid(plane.context, &attributes.grh.dgid);
	ck_assert(address_is_here(&attributes));
}

TEST(attributes, an_answer_goes_to_the_sender_of_a_datagram)
{
	struct ibv_wc wc = { .slid = 7, .sl = 2, .dlid_path_bits = 1 };
	struct ibv_grh grh = { .version_tclass_flow = htobe32(6u << 28 | 0x12u << 20 | 0x34567) };
	struct ibv_ah_attr answer;
	struct ibv_ah *ah;

	ck_assert_int_eq(ibv_init_ah_from_wc(plane.context, 1, &wc, &grh, &answer), 0);
	ck_assert_int_eq(answer.dlid, 7);
	ck_assert_int_eq(answer.sl, 2);
	ck_assert_int_eq(answer.src_path_bits, 1);
	ck_assert_int_eq(answer.port_num, 1);
	ck_assert_int_eq(answer.is_global, 0);
	wc.wc_flags = IBV_WC_GRH;
	ck_assert_int_eq(ibv_init_ah_from_wc(plane.context, 1, &wc, &grh, &answer), -1);
	address_gid(plane.context, &grh.dgid);
	plane.adapter = 3;
	address_gid(plane.context, &grh.sgid);
	plane.adapter = 0;
	ck_assert_int_eq(ibv_init_ah_from_wc(plane.context, 1, &wc, &grh, &answer), 0);
	ck_assert_int_eq(answer.is_global, 1);
	ck_assert_mem_eq(&answer.grh.dgid, &grh.sgid, sizeof(grh.sgid));
	ck_assert_int_eq(answer.grh.sgid_index, 0);
	ck_assert_uint_eq(answer.grh.flow_label, 0x34567);
	ck_assert_int_eq(answer.grh.traffic_class, 0x12);
	ah = ibv_create_ah_from_wc(&plane.pd, &wc, &grh, 1);
	ck_assert_ptr_nonnull(ah);
	ck_assert_int_eq(address_attributes(ah)->dlid, 7);
	ibv_destroy_ah(ah);
}

/* ---- texts and rates ---- */

static void *library;

static void open_library(void)
{
	library = dlopen("libibverbs.so.1", RTLD_NOW);
	ck_assert_msg(library, "%s", dlerror());
	/* The library of this test's own functions would be equal to itself. */
	ck_assert_ptr_null(dlsym(library, "sim_adapter_set"));
}

CASE(texts, .set_up = open_library);

static void same_texts(const char *name, const char *(*ours)(int))
{
	const char *(*theirs)(int) = (const char *(*)(int))dlsym(library, name);

	ck_assert_ptr_nonnull(theirs);
	for (int i = -1; i < 40; i++)
		ck_assert_msg(!strcmp(ours(i), theirs(i)), "%s(%d): %s, not %s", name, i, ours(i),
			      theirs(i));
}

TEST(texts, texts_are_those_of_libibverbs)
{
	same_texts("ibv_node_type_str", (const char *(*)(int))ibv_node_type_str);
	same_texts("ibv_port_state_str", (const char *(*)(int))ibv_port_state_str);
	same_texts("ibv_event_type_str", (const char *(*)(int))ibv_event_type_str);
	same_texts("ibv_wc_status_str", (const char *(*)(int))ibv_wc_status_str);
}

static void same_numbers(const char *name, int (*ours)(int), int step)
{
	int (*theirs)(int) = (int (*)(int))dlsym(library, name);

	ck_assert_ptr_nonnull(theirs);
	for (int i = -step; i < 1000 * step; i += step)
		ck_assert_msg(ours(i) == theirs(i), "%s(%d): %d, not %d", name, i, ours(i),
			      theirs(i));
}

TEST(texts, rates_are_those_of_libibverbs)
{
	same_numbers("ibv_rate_to_mult", (int (*)(int))ibv_rate_to_mult, 1);
	same_numbers("mult_to_ibv_rate", (int (*)(int))mult_to_ibv_rate, 1);
	same_numbers("ibv_rate_to_mbps", (int (*)(int))ibv_rate_to_mbps, 1);
	for (int rate = 0; rate < 40; rate++)
		ck_assert_int_eq(mbps_to_ibv_rate(ibv_rate_to_mbps(rate)),
				 ibv_rate_to_mbps(rate) < 0 ? IBV_RATE_MAX : rate);
	same_numbers("mbps_to_ibv_rate", (int (*)(int))mbps_to_ibv_rate, 2500);
}

SUITE("attributes")
