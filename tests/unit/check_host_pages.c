/* SPDX-License-Identifier: BSD-3-Clause */
/* check_host_pages.c -- what is remembered of the host's pages, and how it is forgotten */
#include "suite.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "memory/host_pages.h"
#include "memory/memory.h"
#include "report/statistics.h"
#include "standin.h"

#define HOME  ((uint64_t)0x7f1200000000)
#define BLOCK ((uint64_t)2 << 20)
#define PAGE  ((uint64_t)4096)

/* A driver that knows one range, which may be empty. */
static _Atomic uint64_t known_base, known_end;

static CUresult answer(unsigned int count, CUpointer_attribute *attributes, void **values,
		       CUdeviceptr address)
{
	bool known = address >= atomic_load(&known_base) && address < atomic_load(&known_end);

	for (unsigned int i = 0; i < count; i++) {
		if (attributes[i] == CU_POINTER_ATTRIBUTE_BUFFER_ID)
			*(uint64_t *)values[i] = known ? 7 : 0;
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			*(int *)values[i] = known ? 0 : -2;
		else if (known && attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
			*(uint64_t *)values[i] = PAGE;
	}
	return CUDA_SUCCESS;
}

static void set_up(void)
{
	standin_reset();
	standin_attributes = answer;
	atomic_store(&host_pages_generation, 1);
}

static void know(uint64_t base, uint64_t size)
{
	atomic_store(&known_end, 0);
	atomic_store(&known_base, base);
	atomic_store(&known_end, base + size);
}

START_TEST(a_page_that_the_driver_does_not_know_is_remembered_until_something_is_made_there)
{
	host_pages_learn(HOME + 100);
	ck_assert(host_pages_remember(HOME));
	ck_assert(host_pages_remember(HOME + PAGE - 1));
	ck_assert(!host_pages_remember(HOME + PAGE));
	host_pages_forget(HOME + 64 * BLOCK, BLOCK);
	ck_assert(host_pages_remember(HOME));
	host_pages_forget(HOME - BLOCK, BLOCK + 1);
	ck_assert(!host_pages_remember(HOME));
	host_pages_learn(HOME);
	ck_assert(host_pages_remember(HOME));
	host_pages_forget_all();
	ck_assert(!host_pages_remember(HOME));
	host_pages_learn(HOME);
	host_pages_forget(0, UINT64_MAX);
	ck_assert(!host_pages_remember(HOME));
}
END_TEST

START_TEST(what_the_driver_knows_or_may_come_to_know_is_not_remembered)
{
	know(HOME, PAGE);
	host_pages_learn(HOME);
	ck_assert(!host_pages_remember(HOME));
	know(0, 0);
	host_pages_exclude(HOME + BLOCK + 5, 1);
	host_pages_learn(HOME + BLOCK);
	ck_assert(!host_pages_remember(HOME + BLOCK));
	host_pages_learn(HOME + 2 * BLOCK);
	ck_assert(host_pages_remember(HOME + 2 * BLOCK));
	/* Beyond all addresses. */
	host_pages_learn((uint64_t)1 << 48);
	host_pages_learn(UINT64_MAX);
	ck_assert(!host_pages_remember(0));
}
END_TEST

START_TEST(a_page_of_which_a_part_is_recorded_is_not_remembered)
{
	know(HOME + 512, 100);
	standin_attributes = NULL;
	standin_allocate(HOME + 512, 100, NULL, false);
	memory_allocated(ALLOCATION_HOST, HOME + 512, 100);
	standin_attributes = answer;
	/* The driver does not know this part of it. */
	host_pages_learn(HOME + 2048);
	ck_assert(!host_pages_remember(HOME + 2048));
	host_pages_learn(HOME + PAGE);
	ck_assert(host_pages_remember(HOME + PAGE));
}
END_TEST

/* Another thread makes memory right after the driver has said that there is none. */
static CUresult answer_and_make(unsigned int count, CUpointer_attribute *attributes, void **values,
				CUdeviceptr address)
{
	CUresult result = answer(count, attributes, values, address);

	know(address, PAGE);
	host_pages_forget(address, PAGE);
	return result;
}

START_TEST(a_page_that_is_made_between_the_question_and_the_note_is_not_remembered)
{
	standin_attributes = answer_and_make;
	host_pages_learn(HOME + 3 * BLOCK);
	ck_assert(!host_pages_remember(HOME + 3 * BLOCK));
}
END_TEST

START_TEST(after_the_last_generation_nothing_is_remembered_any_more)
{
	host_pages_learn(HOME);
	atomic_store(&host_pages_generation, HOST_GENERATION_MAX - 1);
	host_pages_learn(HOME);
	host_pages_forget_all();
	ck_assert_uint_eq(atomic_load(&host_pages_generation), HOST_GENERATION_MAX);
	host_pages_forget_all();
	ck_assert_uint_eq(atomic_load(&host_pages_generation), 0);
	host_pages_learn(HOME);
	ck_assert(!host_pages_remember(HOME));
	host_pages_forget_all();
	ck_assert_uint_eq(atomic_load(&host_pages_generation), 0);
}
END_TEST

/* Some learn a page all the time, another thread makes memory there: once the call that makes it
 * has returned, the page must not be remembered. A page in another block each time, since one whose
 * block is announced already is forgotten however late it is stored. */
static _Atomic bool stop;
static _Atomic unsigned int learned;
static _Atomic uint64_t page;

static void *learn(void *unused)
{
	uint64_t address;

	while (!atomic_load(&stop)) {
		address = atomic_load(&page);
		host_pages_learn(address);
		if (host_pages_remember(address))
			atomic_fetch_add(&learned, 1);
	}
	return unused;
}

START_TEST(a_page_learned_beside_an_allocation_is_not_remembered_after_it)
{
	pthread_t threads[2];
	bool remembered = false;

	atomic_store(&page, HOME);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, learn, NULL), 0);
	while (!atomic_load(&learned))
		sched_yield();
	for (uint64_t round = 1; round < 10000; round++) {
		uint64_t address = HOME + round % 32768 * BLOCK;

		/* The threads come upon it while it is made. */
		atomic_store(&page, address);
		for (volatile unsigned int pause = (unsigned int)round % 256; pause; pause--)
			;
		know(address, PAGE);
		host_pages_forget(address, PAGE);
		/* A check of its own for each would be a call to the kernel. */
		for (int look = 0; look < 50; look++)
			remembered |= host_pages_remember(address);
		require(!remembered);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_gt(atomic_load(&learned), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("host pages");
	TCase *single = tcase_create("one thread");
	TCase *many = tcase_create("many threads");

	tcase_add_checked_fixture(single, set_up, NULL);
	tcase_add_test(
		single,
		a_page_that_the_driver_does_not_know_is_remembered_until_something_is_made_there);
	tcase_add_test(single, what_the_driver_knows_or_may_come_to_know_is_not_remembered);
	tcase_add_test(single, a_page_of_which_a_part_is_recorded_is_not_remembered);
	tcase_add_test(single,
		       a_page_that_is_made_between_the_question_and_the_note_is_not_remembered);
	tcase_add_test(single, after_the_last_generation_nothing_is_remembered_any_more);
	suite_add_tcase(suite, single);
	tcase_add_checked_fixture(many, set_up, NULL);
	tcase_set_timeout(many, 300);
	tcase_add_test(many, a_page_learned_beside_an_allocation_is_not_remembered_after_it);
	suite_add_tcase(suite, many);
	return suite_run(suite);
}
