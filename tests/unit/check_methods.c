/* SPDX-License-Identifier: BSD-3-Clause */
/* check_methods.c -- a third registration method is one more row of the table */
#include "suite.h"

#include "pinning_fixture.h"

static struct {
	bool accepts;
	int error;
	unsigned int probes, pins, unpins, probed_after;
	_Atomic uint64_t registrations;
} third;

static struct method_support third_probe(const struct pin_request *unused)
{
	(void)unused;
	third.probes++;
	third.probed_after = nic.probes;
	return (struct method_support){ .possible = true, .expected = true, .text = "tested" };
}

static bool third_accepts(const struct pin_request *unused)
{
	(void)unused;
	return third.accepts;
}

static int third_pin(const struct pin_request *unused, struct pin_result *result)
{
	static struct ibv_mr made = { .lkey = 3 };

	(void)unused;
	third.pins++;
	if (!third.error)
		result->mr = &made;
	return third.error;
}

static int third_unpin(struct ibv_mr *mr)
{
	ck_assert_uint_eq(mr->lkey, 3);
	third.unpins++;
	return 0;
}

/* Replaces the library's table. */
const struct registration_method registration_methods[] = {
#define METHOD REGISTRATION_METHOD
#include "report/methods.def"
#undef METHOD
	{ .name = "third",
	  .pin = third_pin,
	  .unpin = third_unpin,
	  .probe = third_probe,
	  .accepts = third_accepts,
	  .registrations = &third.registrations,
	  .call = ERRORS_KERNEL },
	{ .name = NULL },
};

static void set_up_third(void)
{
	set_up();
	memset(&third, 0, sizeof(third));
	third.accepts = true;
}

static void fail_first_two(void)
{
	nic.dma_buf = EIO;
	nic.peer = EFAULT;
}

CASE(methods, .set_up = set_up_third, .tear_down = tear_down);

TEST(methods, it_is_probed_last_and_once)
{
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(third.probes, 1);
	ck_assert_uint_eq(third.probed_after, 1);
	ck_assert_uint_eq(third.pins, 0);
	ck_assert_ptr_eq(pinned.method, &registration_methods[0]);
}

TEST(methods, it_registers_where_the_others_fail_and_has_its_own_counters)
{
	fail_first_two();
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_ptr_eq(pinned.method, &registration_methods[2]);
	ck_assert_uint_eq(nic.dma_bufs, 1);
	ck_assert_uint_eq(nic.peers, 1);
	/* The pair keeps the method that succeeded. */
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.dma_bufs + nic.peers, 2);
	ck_assert_uint_eq(third.registrations, 2);
	ck_assert_uint_eq(statistics_get(registrations_dma_buf), 0);
	ck_assert_uint_eq(statistics_get(registrations_peer_memory), 0);
	ck_assert_str_eq(statistics.pairs[0].method, "third");
	ck_assert_uint_eq(load_relaxed(&statistics.pairs[0].registrations), 2);
}

TEST(methods, the_first_method_is_the_pair_s_once_it_has_worked)
{
	fail_first_two();
	ck_assert_int_eq(pin(&own), 0);
	nic.dma_buf = 0;
	third.error = -EIO;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(third.pins, 2);
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(third.pins, 2);
	ck_assert_uint_eq(nic.peers, 1);
}

TEST(methods, it_is_not_tried_on_memory_that_it_does_not_accept)
{
	fail_first_two();
	third.accepts = false;
	ck_assert_int_eq(pin(&own), -EFAULT);
	ck_assert_uint_eq(third.pins, 0);
}

TEST(methods, the_error_of_three_failures_is_that_of_the_last_expected)
{
	fail_first_two();
	third.error = -EPERM;
	ck_assert_int_eq(pin(&own), -EPERM);
	/* Memory without a context: the probe does not expect the third method to succeed. */
	ck_assert_int_eq(pin(NULL), -EFAULT);
}

TEST(methods, it_deregisters_its_regions_itself)
{
	struct registration_request asked = { .pd = &pd,
					      .address = HOME,
					      .length = BLOCK,
					      .iova = HOME,
					      .access = RIGHTS,
					      .client_mr = &asked };
	struct registration_keys keys;
	struct allocation ended;

	fail_first_two();
	standin_with_registration = true;
	registration_pd_opened(&pd, false);
	standin_allocate(HOME, BLOCK, &own, true);
	memory_allocated(ALLOCATION_DEVICE, HOME, BLOCK);
	ck_assert(registration_request(&asked, &keys));
	ck_assert_uint_eq(keys.lkey, 3);
	ck_assert(memory_freeing(FREE_DEVICE, HOME, &ended));
	ck_assert_uint_eq(third.unpins, 1);
	ck_assert_uint_eq(nic.ended, 0);
}

int main(void)
{
	setenv("PEERPIN_PREREGISTER", "off", 1);
	return suite_main("methods");
}
