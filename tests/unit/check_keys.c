/* SPDX-License-Identifier: BSD-3-Clause */
/* check_keys.c -- keys looked up at each use, without a client MR */
#include "suite.h"

#include <errno.h>
#include <pthread.h>

#include "memory/table.h"
#include "registration/keys.h"
#include "registration/region_choice.h"
#include "registration_fixture.h"

/* The local key from a look-up; 0: none. */
static uint32_t look(const struct domain *domain, uint64_t address, uint64_t length)
{
	uint32_t lkey, rkey;

	return registration_find(domain, address, length, RIGHTS, &lkey, &rkey) ? lkey : 0;
}

CASE(single, .set_up = set_up);

TEST(single, what_is_registered_is_found_with_the_keys_that_clients_get)
{
	struct domain *domain = registration_domain(&pd, RIGHTS);
	struct registration_keys keys;
	uint32_t lkey, rkey;

	ck_assert_ptr_nonnull(domain);
	begin(HOME, 3000);
	ck_assert(ask_in(&pd, 0, HOME, 3000, RIGHTS, &keys));
	ck_assert(registration_find(domain, HOME + 1000, 2000, RIGHTS, &lkey, &rkey));
	ck_assert_uint_eq(lkey, keys.lkey);
	ck_assert_uint_eq(rkey, keys.rkey);
	ck_assert_uint_eq(look(domain, HOME + 1000, 2001), 0);
	ck_assert_uint_eq(look(domain, HOME + 3000, 0), 0);
	ck_assert_uint_eq(look(domain, HOME - 1, 2), 0);
	ck_assert_uint_eq(look(domain, HOME, UINT64_MAX), 0);
	ck_assert_uint_eq(look(domain, HOME + 2999, 1), keys.lkey);
	/* The client MR is deregistered, the region stays. */
	ck_assert(registration_drop(&handles[0]));
	ck_assert_uint_eq(look(domain, HOME, 3000), keys.lkey);
	ck_assert_uint_eq(statistics_tallied(TALLY_look_ups), 3);
}

TEST(single, background_registrations_are_found_in_their_domain)
{
	struct domain *domain;
	uint64_t done;

	begin(HOME, BLOCK);
	domain = registration_domain(&pd, RIGHTS);
	begin(HOME + BLOCK, BLOCK);
	await("registrations_background", 2);
	ck_assert_int_eq(statistics_find("registrations_background", &done), 0);
	ck_assert(standin_covers(look(domain, HOME, BLOCK), HOME));
	ck_assert(standin_covers(look(domain, HOME + BLOCK, BLOCK), HOME + BLOCK));
	ck_assert_ptr_eq(registration_domain(&pd, RIGHTS), domain);
	/* peerpin does not record look-ups for each region. */
	ck_assert_uint_eq(statistics_get(never_used), 0);
}

/* The first two domains look in user words, the third in an array. */
TEST(single, keys_of_kept_memory_are_hidden_in_every_domain)
{
	static const int access[] = { RIGHTS, IBV_ACCESS_LOCAL_WRITE, 0 };
	struct registration_keys keys;
	struct domain *domains[3];
	struct allocation kept;
	uint32_t lkey, rkey;

	for (int i = 0; i < 3; i++)
		domains[i] = registration_domain(&pd, access[i]);
	begin(HOME, 3000);
	for (int i = 0; i < 3; i++)
		ck_assert(ask_in(&pd, i, HOME, 3000, access[i], &keys));
	ck_assert(memory_find(HOME, &kept));
	ck_assert(table_hide(&kept));
	for (int i = 0; i < 3; i++)
		ck_assert(!registration_find(domains[i], HOME, 1, access[i], &lkey, &rkey));
	ck_assert(table_show(&kept));
	for (int i = 0; i < 3; i++)
		ck_assert(registration_find(domains[i], HOME, 1, access[i], &lkey, &rkey));
}

TEST(single, access_flags_and_domains_are_distinguished)
{
	struct ibv_pd other = { .context = DEVICE, .handle = 2 };
	struct domain *domain = registration_domain(&pd, RIGHTS), *narrow, *elsewhere;
	uint32_t lkey, rkey;

	registration_pd_opened(&other, false);
	narrow = registration_domain(&pd, IBV_ACCESS_LOCAL_WRITE);
	elsewhere = registration_domain(&other, RIGHTS);
	ck_assert(narrow != domain && elsewhere != domain);
	ck_assert_ptr_null(registration_domain(&pd, IBV_ACCESS_ON_DEMAND));
	begin(HOME, BLOCK);
	await("registrations_background", 3);
	ck_assert(registration_find(narrow, HOME, 1, IBV_ACCESS_LOCAL_WRITE, &lkey, &rkey));
	ck_assert_uint_ne(lkey, look(domain, HOME, 1));
	ck_assert_uint_ne(look(elsewhere, HOME, 1), look(domain, HOME, 1));
	ck_assert(!registration_find(domain, HOME, 1, IBV_ACCESS_LOCAL_WRITE, &lkey, &rkey));
	ck_assert(!registration_find(narrow, HOME, 1, RIGHTS, &lkey, &rkey));
}

TEST(single, nothing_is_found_of_what_has_ended_or_was_never_registered)
{
	struct domain *domain = registration_domain(&pd, RIGHTS);
	uint32_t key;

	begin(HOME, BLOCK);
	await("registrations_background", 1);
	key = look(domain, HOME, 1);
	ck_assert_uint_ne(key, 0);
	end(HOME);
	ck_assert_uint_eq(look(domain, HOME, 1), 0);
	/* Equal address, equal slot in the table. */
	begin(HOME, BLOCK);
	await("registrations_background", 2);
	ck_assert_uint_ne(look(domain, HOME, 1), key);
	ck_assert(standin_covers(look(domain, HOME, 1), HOME));
	/* Memory without RDMA support. */
	standin_allocate(HOME + BLOCK, BLOCK, NULL, false);
	memory_allocated(ALLOCATION_DEVICE, HOME + BLOCK, BLOCK);
	ck_assert_uint_eq(look(domain, HOME + BLOCK, 1), 0);
}

TEST(single, a_protection_domain_s_end_withdraws_its_keys)
{
	struct domain *domain = registration_domain(&pd, RIGHTS);
	struct ibv_pd next = { .context = DEVICE, .handle = 7 };

	begin(HOME, BLOCK);
	await("registrations_background", 1);
	ck_assert_uint_ne(look(domain, HOME, 1), 0);
	registration_pd_closing(&pd);
	ck_assert_uint_eq(look(domain, HOME, 1), 0);
	registration_pd_closed(&pd, true);
	/* The domain's struct is reused for a domain without regions. */
	registration_pd_opened(&next, false);
	standin_fail_with(-ENOMEM);
	domain = registration_domain(&next, RIGHTS);
	await("registrations_failed", 1);
	ck_assert_uint_eq(look(domain, HOME, 1), 0);
}

/* Wait for the worker. */
static uint32_t await_key(const struct domain *domain, uint64_t address)
{
	uint32_t key;

	while (!(key = look(domain, address, 1)))
		sched_yield();
	return key;
}

TEST(single, allocations_that_share_a_region_are_found_each_while_it_lives)
{
	struct domain *domain = registration_domain(&pd, RIGHTS);
	uint32_t key;

	begin(HOME, 1000);
	begin(HOME + 1024, 1000);
	key = await_key(domain, HOME);
	ck_assert_uint_eq(await_key(domain, HOME + 1024), key);
	end(HOME);
	ck_assert_uint_eq(look(domain, HOME, 1), 0);
	ck_assert_uint_eq(look(domain, HOME + 1024, 1000), key);
	/* The new allocation lies in an existing region. */
	begin(HOME + 2048, 1000);
	ck_assert_uint_eq(await_key(domain, HOME + 2048), key);
	ck_assert_uint_eq(standin_registrations(), 1);
}

/* The third domain of a process has no user words beside the records: its keys are in an array. */
#define THIRD (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)

/* The kernel refuses: a registration of the client's own remains in the protection domain. */
TEST(single, a_refused_end_of_a_protection_domain_brings_other_keys)
{
	struct domain *domain = registration_domain(&pd, RIGHTS);
	uint32_t key;

	begin(HOME, BLOCK);
	key = await_key(domain, HOME);
	registration_pd_closing(&pd);
	begin(HOME + 2 * BLOCK, BLOCK);
	registration_pd_closed(&pd, false);
	ck_assert_uint_ne(await_key(domain, HOME), key);
	ck_assert(standin_covers(await_key(domain, HOME), HOME));
	ck_assert(standin_covers(await_key(domain, HOME + 2 * BLOCK), HOME + 2 * BLOCK));
	ck_assert_ptr_eq(registration_domain(&pd, RIGHTS), domain);
}

static struct domain *third_domain(void)
{
	ck_assert_ptr_nonnull(registration_domain(&pd, RIGHTS));
	ck_assert_ptr_nonnull(registration_domain(&pd, IBV_ACCESS_LOCAL_WRITE));
	return registration_domain(&pd, THIRD);
}

static uint32_t look_in_third(const struct domain *domain, uint64_t address)
{
	uint32_t lkey, rkey;

	return registration_find(domain, address, 1, THIRD, &lkey, &rkey) ? lkey : 0;
}

static void *end_home(void *unused)
{
	struct allocation ended;

	(void)unused;
	return memory_freeing(FREE_DEVICE, HOME, &ended) ? NULL : "there was no memory to end";
}

static void *begin_next(void *unused)
{
	begin(HOME + 1024, 1000);
	return unused;
}

/* The array of keys is indexed by slot. A slot is reused before the last allocation's keys are
 * withdrawn. */
TEST(single, what_has_ended_takes_nothing_from_who_has_its_slot)
{
	struct domain *domain = third_domain();
	struct allocation last, next;
	struct registration_keys keys;
	struct region_reference *reference;
	pthread_t thread, beginning;
	void *complaint;

	begin(HOME, 1000);
	ck_assert(ask_in(&pd, 0, HOME, 1000, THIRD, &keys));
	ck_assert(memory_find(HOME, &last));
	pthread_mutex_lock(&registration_lock);
	ck_assert_int_eq(pthread_create(&thread, NULL, end_home, NULL), 0);
	while (memory_is_live(&last))
		sched_yield();
	/* On another thread: an allocation queries the driver, which this thread's lock forbids. */
	ck_assert_int_eq(pthread_create(&beginning, NULL, begin_next, NULL), 0);
	pthread_join(beginning, NULL);
	ck_assert(memory_find(HOME + 1024, &next));
	ck_assert_uint_eq(next.slot, last.slot);
	reference = region_refer_whole(&next, domain);
	ck_assert_uint_eq(look_in_third(domain, HOME + 1024), keys.lkey);
	/* As after the region's registration. */
	keys_publish_all(reference->region);
	ck_assert_uint_eq(look_in_third(domain, HOME + 1024), keys.lkey);
	pthread_mutex_unlock(&registration_lock);
	pthread_join(thread, &complaint);
	ck_assert_ptr_null(complaint);
	ck_assert_uint_eq(look_in_third(domain, HOME + 1024), keys.lkey);
}

/* Keys are numbered in order: after a thread has read that a key has ended, no look-up returns that
 * key or an older one. */
static _Atomic uint32_t newest_ended;
static _Atomic bool stop;
static _Atomic unsigned int looks;

static void *use(void *argument)
{
	const struct domain *domain = argument;

	while (!atomic_load(&stop)) {
		for (uint64_t i = 0; i < 4; i++) {
			uint32_t ended = atomic_load(&newest_ended),
				 key = look(domain, HOME + i * 65536 + 100, 64);

			if (key && key <= ended)
				return (void *)"the key of memory that had been freed was handed "
					       "out";
		}
		if (!look(domain, HOME + BLOCK + 5, 4096))
			return (void *)"living memory was not found";
		atomic_fetch_add_explicit(&looks, 1, memory_order_relaxed);
	}
	return NULL;
}

CASE(many, .set_up = set_up, .timeout = 300);

TEST(many, no_key_of_freed_memory_is_found_while_addresses_are_reused)
{
	struct domain *domain = registration_domain(&pd, RIGHTS);
	unsigned int found = 0;
	pthread_t threads[2];
	void *complaint;

	begin(HOME + BLOCK, BLOCK);
	await("registrations_background", 1);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, use, domain), 0);
	for (unsigned int round = 0; round < 3000 || atomic_load(&looks) < 3000; round++) {
		uint32_t newest = 0, key;

		for (uint64_t i = 0; i < 4; i++) {
			begin(HOME + i * 65536, 65536 - round % 512);
			if (round % 2)
				ask((int)i, HOME + i * 65536, 1);
		}
		for (uint64_t i = 0; i < 4; i++) {
			key = look(domain, HOME + i * 65536, 1);
			newest = key > newest ? key : newest;
			found += key != 0;
			end(HOME + i * 65536);
		}
		if (newest)
			atomic_store(&newest_ended, newest);
	}
	atomic_store(&stop, true);
	ck_assert_uint_gt(found, 1000);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &complaint);
		ck_assert_msg(!complaint, "%s", (const char *)complaint);
	}
}

SUITE("keys")
