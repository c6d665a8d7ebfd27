/* SPDX-License-Identifier: BSD-3-Clause */
/* check_leases.c -- hits without the lock: leases protect regions like references, and the order of
 * eviction is unchanged */
#include "suite.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/process.h"
#include "memory/lookup.h"
#include "registration_fixture.h"

#define BUFFERS 16u
#define FIT	8u /* buffers within the pin limit */
#define ROUNDS	5000u

extern pthread_mutex_t registration_lock; /* registration/internal.h */

/* registration/leases.h */
bool leases_hit(const struct registration_request *request, const struct found *found,
		struct registration_keys *keys);
bool leases_drop(const void *key);
void leases_stop(void);
void leases_go(void);

static struct {
	char bytes[64]; /* the spacing of providers' structs */
} structs[256];

static uint64_t buffer(unsigned int i)
{
	return HOME + i * 2 * BLOCK;
}

static void set_up_with_pin_limit(void)
{
	setenv("PEERPIN_PREREGISTER", "off", 1);
	setenv("PEERPIN_PIN_LIMIT", "16M", 1);
	set_up();
	for (unsigned int i = 0; i < BUFFERS; i++)
		begin(buffer(i), BLOCK);
}

static void set_up_superset(void)
{
	setenv("PEERPIN_PREREGISTER", "off", 1);
	setenv("PEERPIN_ACCESS_MATCH", "superset", 1);
	set_up();
}

static void set_up_block(void)
{
	setenv("PEERPIN_PREREGISTER", "off", 1);
	setenv("PEERPIN_GRANULARITY", "2M", 1);
	set_up();
}

/* ENOSYS from membarrier, as from an old kernel or a container's filter. */
static void take_membarrier_away(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { .len = sizeof(steps) / sizeof(steps[0]), .filter = steps };

	ck_assert(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	ck_assert(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
}

static void set_up_without_membarrier(void)
{
	set_up_with_pin_limit();
	take_membarrier_away();
}

/* A request as from a wrapper. Returns the local key; 0: bypassed. */
static uint32_t get_at(unsigned int handle, uint64_t address, uint64_t length)
{
	struct registration_request request = request_in(&pd, 0, address, length, RIGHTS);
	struct registration_keys keys;

	request.client_mr = &structs[handle];
	return registration_hit(&request, &keys) || registration_request(&request, &keys)
		       ? keys.lkey
		       : 0;
}

static uint32_t get(unsigned int handle, unsigned int i)
{
	return get_at(handle, buffer(i), BLOCK);
}

static bool drop(unsigned int handle)
{
	return registration_drop(&structs[handle]);
}

/* The first request registers, the second creates a grant: the third needs no lock. */
static void prime(unsigned int handle, unsigned int i)
{
	for (unsigned int times = 0; times < 2; times++) {
		ck_assert_uint_ne(get(handle, i), 0);
		ck_assert(drop(handle));
	}
}

static uint32_t lease(unsigned int handle, unsigned int i)
{
	uint32_t key;

	prime(handle, i);
	pthread_mutex_lock(&registration_lock);
	key = get(handle, i);
	pthread_mutex_unlock(&registration_lock);
	ck_assert_uint_ne(key, 0);
	return key;
}

static bool dropped, held;

static void *drop_elsewhere(void *handle)
{
	held = registration_holds(handle);
	dropped = registration_drop(handle);
	return NULL;
}

static void in_a_thread(void *(*run)(void *), void *argument)
{
	pthread_t thread;

	ck_assert(!pthread_create(&thread, NULL, run, argument));
	ck_assert(!pthread_join(thread, NULL));
}

START_TEST(a_hit_and_its_end_need_no_lock)
{
	uint64_t hits;

	prime(0, 0);
	hits = statistics_tallied(TALLY_hits);
	pthread_mutex_lock(&registration_lock);
	for (unsigned int i = 0; i < 1000; i++) {
		ck_assert(standin_covers(get(0, 0), buffer(0)));
		ck_assert(drop(0));
	}
	pthread_mutex_unlock(&registration_lock);
	ck_assert_uint_eq(statistics_tallied(TALLY_hits), hits + 1000);
	ck_assert(!registration_holds(&structs[0]));
	ck_assert(!drop(0));
}
END_TEST

START_TEST(nobody_takes_or_gives_back_while_all_are_stopped)
{
	struct registration_request request = request_in(&pd, 0, buffer(0), BLOCK, RIGHTS);
	struct registration_keys keys;
	struct found found;

	prime(0, 0);
	request.client_mr = &structs[0];
	ck_assert(lookup(buffer(0), &found));
	pthread_mutex_lock(&registration_lock);
	for (unsigned int i = 0; i < 2; i++) {
		leases_stop();
		ck_assert(!leases_hit(&request, &found, &keys));
		leases_stop();
		leases_go();
		ck_assert(!leases_hit(&request, &found, &keys));
		leases_go();
		ck_assert(leases_hit(&request, &found, &keys));
		ck_assert(leases_drop(&structs[0]));
	}
	pthread_mutex_unlock(&registration_lock);
}
END_TEST

START_TEST(what_is_leased_is_never_evicted)
{
	uint32_t keys[FIT];

	for (unsigned int i = 0; i < FIT; i++)
		keys[i] = lease(i, i);
	ck_assert_uint_eq(get(100, FIT), 0);
	ck_assert_uint_eq(statistics_get(bypassed_pin_limit), 1);
	ck_assert(!registration_evict(DEVICE, 1));
	for (unsigned int i = 0; i < FIT; i++)
		ck_assert(standin_covers(keys[i], buffer(i)));
	ck_assert(drop(3));
	ck_assert_uint_ne(get(100, FIT), 0);
	ck_assert(!standin_covers(keys[3], buffer(3)));
	ck_assert_uint_eq(standin_registered(), FIT);
}
END_TEST

/* Model: buffers in order of use; the least recently used is evicted first. */
static unsigned int order[FIT], in_order, misses;

static void model_use(unsigned int which)
{
	unsigned int at = 0;

	while (at < in_order && order[at] != which)
		at++;
	if (at == in_order) {
		misses++;
		if (in_order < FIT)
			in_order++;
		else
			at = 0;
	}
	for (; at + 1 < in_order; at++)
		order[at] = order[at + 1];
	order[in_order - 1] = which;
}

START_TEST(what_was_used_last_stays_longest)
{
	unsigned int seed = 7, which;

	for (unsigned int i = 0; i < 10000; i++) {
		which = (unsigned int)rand_r(&seed);
		/* Use some buffers more often, so that most requests hit. */
		which = which % 16 ? which / 16 % FIT : which / 16 % BUFFERS;
		ck_assert(standin_covers(get(0, which), buffer(which)));
		ck_assert(drop(0));
		model_use(which);
	}
	ck_assert_uint_eq(standin_registrations(), misses);
	ck_assert_uint_gt(statistics_tallied(TALLY_hits), 5000);
}
END_TEST

static void *use_elsewhere(void *unused)
{
	(void)unused;
	prime(0, 0);
	prime(0, 1);
	lease(0, 0);
	ck_assert(drop(0));
	return NULL;
}

/* Holds FIT - 1 new buffers: only the most recently used one of the others stays. */
static void evict_all_but_one(void)
{
	for (unsigned int i = 0; i < FIT - 1; i++)
		ck_assert_uint_ne(get(100 + i, FIT + i), 0);
}

START_TEST(what_other_threads_use_counts_as_well)
{
	for (unsigned int i = 2; i < FIT; i++) {
		ck_assert_uint_ne(get(0, i), 0);
		ck_assert(drop(0));
	}
	in_a_thread(use_elsewhere, NULL);
	evict_all_but_one();
	ck_assert_uint_eq(statistics_get(evictions), FIT - 1);
	ck_assert_uint_ne(get(1, 0), 0);
	ck_assert_uint_eq(standin_registrations(), FIT + FIT - 1);
}
END_TEST

START_TEST(uses_with_the_lock_and_without_are_in_one_order)
{
	struct registration_request request = request_in(&pd, 0, buffer(1), BLOCK, RIGHTS);
	struct registration_keys keys;

	for (unsigned int i = 0; i < FIT; i++)
		prime(0, i);
	request.client_mr = &structs[5];
	ck_assert(registration_request(&request, &keys));
	lease(0, 0);
	ck_assert(drop(0));
	ck_assert(drop(5));
	evict_all_but_one();
	ck_assert_uint_ne(get(1, 1), 0);
	ck_assert_uint_eq(standin_registrations(), FIT + FIT - 1);
}
END_TEST

START_TEST(freed_memory_that_is_leased_is_revoked)
{
	uint32_t key = lease(0, 0);

	end(buffer(0));
	ck_assert(!standin_covers(key, buffer(0)));
	ck_assert_uint_eq(statistics_get(revoked), 1);
	begin(buffer(0), BLOCK);
	ck_assert_uint_ne(get(1, 0), key);
	ck_assert(registration_holds(&structs[0]));
	ck_assert(drop(0));
	ck_assert_uint_eq(statistics_get(late_deregistrations), 1);
	ck_assert(!drop(0));
}
END_TEST

START_TEST(so_is_what_shares_its_region_with_others)
{
	begin(HOME, 1000);
	begin(HOME + 4096, 1000);
	for (unsigned int i = 0; i < 2; i++) {
		ck_assert_uint_ne(get_at(1, HOME + 4096, 1000), 0);
		ck_assert(drop(1));
		ck_assert_uint_ne(get_at(0, HOME, 1000), 0);
		ck_assert(drop(0));
	}
	ck_assert_uint_ne(get_at(0, HOME, 1000), 0);
	end(HOME);
	ck_assert_uint_eq(statistics_get(revoked), 1);
	ck_assert_uint_eq(standin_registered(), 1);
	/* The region is idle. */
	ck_assert(registration_evict(DEVICE, 1));
	ck_assert_uint_eq(standin_registered(), 0);
	ck_assert(drop(0));
	ck_assert_uint_eq(statistics_get(late_deregistrations), 1);
}
END_TEST

START_TEST(what_one_thread_took_another_may_give_back)
{
	lease(0, 0);
	in_a_thread(drop_elsewhere, &structs[0]);
	ck_assert(held && dropped);
	ck_assert(!registration_holds(&structs[0]));
	ck_assert(!drop(0));
	ck_assert(registration_evict(DEVICE, 1));
	ck_assert_uint_eq(standin_registered(), 0);
}
END_TEST

/* A request that never takes a lease. */
static bool ask_at(unsigned int handle, unsigned int i, int access)
{
	struct registration_request request = request_in(&pd, 0, buffer(i), BLOCK, access);
	struct registration_keys keys;

	request.client_mr = &structs[handle];
	return registration_request(&request, &keys);
}

static void *get_elsewhere(void *handle)
{
	struct registration_request request = request_in(&pd, 0, buffer(1), BLOCK, RIGHTS);
	struct registration_keys keys;

	request.client_mr = handle;
	held = registration_request(&request, &keys);
	return NULL;
}

START_TEST(a_struct_that_comes_again_stands_for_the_newer_alone)
{
	lease(0, 0);
	in_a_thread(get_elsewhere, &structs[0]);
	ck_assert(held);
	ck_assert(drop(0));
	ck_assert(!drop(0));
	/* Likewise on one thread. */
	lease(1, 0);
	ck_assert_uint_ne(get(1, 1), 0);
	ck_assert(drop(1));
	ck_assert(!drop(1));
	/* Likewise if the older client MR is in the table. */
	prime(2, 0);
	ck_assert(ask_at(2, 1, RIGHTS));
	ck_assert_uint_ne(get(2, 0), 0);
	ck_assert(drop(2));
	ck_assert(!drop(2));
	ck_assert(registration_evict(DEVICE, 100 * BLOCK));
	ck_assert_uint_eq(standin_registered(), 0);
}
END_TEST

START_TEST(rights_that_a_wider_region_serves_end_with_it)
{
	struct registration_keys keys;
	struct registration_request request =
		request_in(&pd, 0, buffer(0), BLOCK, IBV_ACCESS_LOCAL_WRITE);

	begin(buffer(0), BLOCK);
	prime(0, 0);
	request.client_mr = &structs[0];
	for (unsigned int times = 0; times < 4; times++) {
		ck_assert(registration_hit(&request, &keys) ||
			  registration_request(&request, &keys));
		ck_assert(standin_covers(keys.lkey, buffer(0)));
		ck_assert(drop(0));
	}
	ck_assert_uint_eq(standin_registrations(), 1);
	ck_assert(registration_evict(DEVICE, 1));
	ck_assert(registration_hit(&request, &keys) || registration_request(&request, &keys));
	ck_assert(standin_covers(keys.lkey, buffer(0)));
	ck_assert(drop(0));
}
END_TEST

START_TEST(a_domain_that_closes_keeps_what_is_leased_and_serves_nobody)
{
	struct registration_request request = request_in(&pd, 0, buffer(0), BLOCK, RIGHTS);
	struct registration_keys keys;
	uint32_t key;

	prime(1, 1);
	prime(2, 0);
	key = lease(0, 0);
	registration_pd_closing(&pd);
	ck_assert_uint_eq(standin_registered(), 1);
	ck_assert(standin_covers(key, buffer(0)));
	request.client_mr = &structs[2];
	ck_assert(!registration_hit(&request, &keys));
	registration_pd_closed(&pd, false);
	ck_assert_uint_eq(get(2, 0), key);
	ck_assert(drop(0));
	ck_assert(drop(2));
	registration_pd_closing(&pd);
	ck_assert_uint_eq(standin_registered(), 0);
	registration_pd_closed(&pd, true);
	ck_assert(!registration_hit(&request, &keys));
}
END_TEST

START_TEST(a_forked_child_knows_what_its_parent_leased)
{
	int status;
	pid_t child;

	lease(0, 0);
	child = fork();
	if (!child)
		_exit(process_is_passive() && registration_holds(&structs[0]) && drop(0) &&
				      !drop(0) && !drop(1) && standin_registered() == 1
			      ? 0
			      : 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert(drop(0));
	ck_assert(!drop(0));
}
END_TEST

START_TEST(as_much_can_be_held_as_anybody_likes)
{
	for (unsigned int times = 0; times < 3; times++) {
		for (unsigned int i = 0; i < 256; i++)
			ck_assert_uint_ne(get(i, i % FIT), 0);
		ck_assert(!registration_evict(DEVICE, 1));
		for (unsigned int i = 0; i < 256; i++)
			ck_assert(drop(i));
	}
	for (unsigned int i = 0; i < 256; i++)
		ck_assert(!drop(i));
	ck_assert(registration_evict(DEVICE, 100 * BLOCK));
	ck_assert_uint_eq(standin_registered(), 0);
}
END_TEST

/* One after another: a new thread takes over the holder of an ended one, with its leases. */
#define THREADS 300u

static void *lease_and_end(void *number)
{
	lease((unsigned int)(uintptr_t)number % 128, (unsigned int)(uintptr_t)number % FIT);
	return NULL;
}

START_TEST(what_threads_that_have_ended_leased_stays_until_somebody_gives_it_back)
{
	for (uintptr_t i = 0; i < THREADS; i++) {
		in_a_thread(lease_and_end, (void *)i);
		if (i >= 128)
			continue;
		ck_assert(registration_holds(&structs[i]));
	}
	ck_assert(!registration_evict(DEVICE, 1));
	for (unsigned int i = 0; i < 128; i++) {
		ck_assert(drop(i));
		ck_assert(!drop(i));
	}
	ck_assert(registration_evict(DEVICE, 100 * BLOCK));
	ck_assert_uint_eq(standin_registered(), 0);
}
END_TEST

static _Atomic unsigned int wrong;

static void *hit_and_evict(void *argument)
{
	unsigned int number = (unsigned int)(uintptr_t)argument, seed = number, which;
	uint32_t key;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		which = (unsigned int)rand_r(&seed) / 16;
		which = i % 8 ? number * 2 + which % 2 : which % BUFFERS;
		key = get(number, which);
		if (!key)
			continue; /* the other threads hold all regions */
		if (!standin_covers(key, buffer(which)) || !registration_holds(&structs[number]) ||
		    !standin_covers(key, buffer(which)))
			wrong++;
		if (!drop(number))
			wrong++;
	}
	return NULL;
}

START_TEST(who_holds_something_has_it_while_others_evict)
{
	pthread_t threads[4];

	if (_i)
		take_membarrier_away();
	for (uintptr_t i = 0; i < 4; i++)
		ck_assert(!pthread_create(&threads[i], NULL, hit_and_evict, (void *)i));
	for (unsigned int i = 0; i < 4; i++)
		ck_assert(!pthread_join(threads[i], NULL));
	ck_assert_uint_eq(wrong, 0);
	ck_assert_uint_gt(statistics_get(evictions), 0);
	ck_assert(registration_evict(DEVICE, 100 * BLOCK));
	ck_assert_uint_eq(standin_registered(), 0);
}
END_TEST

/* Threads that are held up at any instruction, also between two steps some 10 ns apart: signals
 * arrive at any time, and their handler takes longer than the other thread needs. */
#define SIGNALS 900u
#define HELD_UP 200000 /* ns */

static _Atomic bool over;
static _Atomic bool held_up;
static _Atomic unsigned int signals, tries;

static void wait_for(long ns)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		sched_yield(); /* Valgrind runs one thread at a time: let the other one run */
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < ns);
}

static void hold_up(int signal)
{
	(void)signal;
	held_up = true;
	wait_for(HELD_UP);
	held_up = false;
	signals++;
}

/* Whether the key reaches the memory. The other thread may just have evicted the region: wait until
 * it continues if it is held up. */
static bool reaches(uint32_t key, unsigned int before)
{
	if (!held_up && tries == before)
		return true;
	while (held_up && !over)
		sched_yield();
	wait_for(HELD_UP / 10);
	return standin_covers(key, buffer(0));
}

/* A key that reaches no memory is wrong, unless the memory was freed and the client MR revoked. */
static void *hit_one(void *may_be_freed)
{
	unsigned int before;
	uint64_t late;
	uint32_t key;
	bool right;

	while (!over) {
		before = tries;
		late = statistics_get(late_deregistrations);
		key = get(0, 0);
		right = !key || reaches(key, before);
		if (key && !drop(0))
			wrong++;
		if (!right && (!may_be_freed || statistics_get(late_deregistrations) == late))
			wrong++;
	}
	return NULL;
}

static void *free_one(void *unused)
{
	(void)unused;
	for (; !over; tries++) {
		end(buffer(0));
		begin(buffer(0), BLOCK);
		wait_for(HELD_UP / 20);
	}
	return NULL;
}

/* Evicts by the pin limit, with a region larger than the rest of it, or as for a registration of
 * the client's own. */
static void *evict_one(void *by_pin_limit)
{
	struct registration_request request =
		request_in(&pd, 0, HOME + 1000 * BLOCK, FIT * BLOCK, RIGHTS);
	struct registration_keys keys;

	request.client_mr = &structs[100];
	for (; !over; tries++) {
		if (!by_pin_limit)
			registration_evict(DEVICE, 1);
		else if (registration_request(&request, &keys) && !drop(100))
			wrong++;
	}
	return NULL;
}

/* Enough evictions and hits? A loaded machine may hold up one thread for most of the signals. */
static bool has_come_to_it(int variant)
{
	uint64_t taken = variant == 2 ? statistics_get(revoked) : statistics_get(evictions);

	return taken > SIGNALS / 100 && statistics_tallied(TALLY_hits) > SIGNALS;
}

/* Returns after the handler. */
static void interrupt(pthread_t thread)
{
	unsigned int before = signals;

	ck_assert(!pthread_kill(thread, SIGUSR1));
	while (signals == before)
		sched_yield();
}

static void end_both(const pthread_t threads[2])
{
	over = true;
	for (unsigned int i = 0; i < 2; i++)
		ck_assert(!pthread_join(threads[i], NULL));
	ck_assert_uint_eq(wrong, 0);
}

START_TEST(nobody_loses_what_he_holds_wherever_anybody_is_held_up)
{
	struct sigaction action = { .sa_handler = hold_up, .sa_flags = SA_RESTART };
	pthread_t threads[2];

	begin(HOME + 1000 * BLOCK, FIT * BLOCK);
	ck_assert(!sigaction(SIGUSR1, &action, NULL));
	ck_assert(!pthread_create(&threads[0], NULL, hit_one, _i == 2 ? &over : NULL));
	ck_assert(!pthread_create(&threads[1], NULL, _i == 2 ? free_one : evict_one,
				  _i ? &over : NULL));
	for (unsigned int i = 0; (i < SIGNALS || !has_come_to_it(_i)) && !wrong; i++)
		interrupt(threads[i % 2]);
	end_both(threads);
	ck_assert(has_come_to_it(_i));
}
END_TEST

#define FORKS 100u

/* The child has no stacks of other threads, so a leak checker such as Valgrind would report losses
 * at its exit: kill it. */
static void fork_and_go_on(int signal)
{
	int status = -1;
	pid_t child = fork();

	(void)signal;
	if (!child)
		kill(getpid(), SIGKILL);
	wrong += waitpid(child, &status, 0) != child || status != SIGKILL;
	signals++;
}

static void *hit_again_and_again(void *unused)
{
	prime(0, 0);
	while (!over) {
		if (get(0, 0))
			drop(0);
	}
	return unused;
}

/* Each free of memory that a client has used stops all holders. */
static void *stop_again_and_again(void *unused)
{
	while (!over) {
		get(1, 1);
		drop(1);
		end(buffer(1));
		begin(buffer(1), BLOCK);
	}
	return unused;
}

/* The thread that stops all holders has the lock and waits for the interrupted thread. */
START_TEST(a_fork_in_a_handler_that_interrupts_a_hit_does_not_hang)
{
	struct sigaction action = { .sa_handler = fork_and_go_on, .sa_flags = SA_RESTART };
	pthread_t threads[2];

	alarm(100); /* kills a hang */
	ck_assert(!sigaction(SIGUSR1, &action, NULL));
	ck_assert(!pthread_create(&threads[0], NULL, hit_again_and_again, NULL));
	ck_assert(!pthread_create(&threads[1], NULL, stop_again_and_again, NULL));
	for (unsigned int i = 0; i < FORKS; i++)
		interrupt(threads[0]);
	end_both(threads);
	ck_assert_uint_gt(statistics_tallied(TALLY_hits), FORKS);
}
END_TEST

/* Not with sanitizers: the cancelled thread may be inside the sanitizer's own code. */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define ENDS 50u

static _Atomic unsigned int hits;

static void *hit_until_cancelled(void *handle)
{
	unsigned int own = (unsigned int)(uintptr_t)handle;

	prime(own, 0);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;) {
		get(own, 0);
		drop(own);
		hits++;
	}
	return NULL;
}

/* As by pthread_exit in a signal handler: a thread ends at any instruction. */
START_TEST(a_thread_that_ends_in_the_middle_of_a_hit_is_waited_for_by_nobody)
{
	pthread_t thread;
	void *result;

	alarm(100); /* kills a hang */
	for (uintptr_t i = 0; i < ENDS; i++) {
		hits = 0;
		ck_assert(!pthread_create(&thread, NULL, hit_until_cancelled, (void *)(i + 1)));
		while (hits < 1000)
			sched_yield();
		ck_assert(!pthread_cancel(thread));
		ck_assert(!pthread_join(thread, &result));
		ck_assert_ptr_eq(result, PTHREAD_CANCELED);
		end(buffer(0));
		begin(buffer(0), BLOCK);
	}
	for (unsigned int i = 1; i <= ENDS; i++)
		drop(i);
	prime(0, 0);
	ck_assert(registration_evict(DEVICE, 100 * BLOCK));
	ck_assert_uint_eq(standin_registered(), 0);
}
END_TEST
#endif

START_TEST(a_kernel_that_refuses_membarrier_later_costs_nobody_what_he_holds)
{
	uint32_t key = lease(0, 0);

	take_membarrier_away();
	for (unsigned int i = 1; i < BUFFERS; i++)
		prime(1, i);
	ck_assert(standin_covers(key, buffer(0)));
	key = lease(1, 1);
	for (unsigned int i = 2; i < BUFFERS; i++)
		prime(2, i);
	ck_assert(standin_covers(key, buffer(1)));
	ck_assert(drop(0));
	ck_assert(drop(1));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("leases");
	TCase *leases = tcase_create("leases");
	TCase *sharing = tcase_create("sharing");
	TCase *wider = tcase_create("wider rights");
	TCase *old = tcase_create("without membarrier");

	tcase_set_timeout(leases, 900); /* threads wait for each other 1000 times, by yielding */
	tcase_set_timeout(old, 300);
	tcase_add_checked_fixture(leases, set_up_with_pin_limit, NULL);
	tcase_add_test(leases, a_hit_and_its_end_need_no_lock);
	tcase_add_test(leases, nobody_takes_or_gives_back_while_all_are_stopped);
	tcase_add_test(leases, what_is_leased_is_never_evicted);
	tcase_add_test(leases, what_was_used_last_stays_longest);
	tcase_add_test(leases, freed_memory_that_is_leased_is_revoked);
	tcase_add_test(leases, what_one_thread_took_another_may_give_back);
	tcase_add_test(leases, a_struct_that_comes_again_stands_for_the_newer_alone);
	tcase_add_test(leases, a_domain_that_closes_keeps_what_is_leased_and_serves_nobody);
	tcase_add_test(leases, a_forked_child_knows_what_its_parent_leased);
	tcase_add_test(leases, as_much_can_be_held_as_anybody_likes);
	tcase_add_test(leases,
		       what_threads_that_have_ended_leased_stays_until_somebody_gives_it_back);
	tcase_add_test(leases, what_other_threads_use_counts_as_well);
	tcase_add_test(leases, uses_with_the_lock_and_without_are_in_one_order);
	tcase_add_loop_test(leases, nobody_loses_what_he_holds_wherever_anybody_is_held_up, 0, 3);
	tcase_add_loop_test(leases, who_holds_something_has_it_while_others_evict, 0, 2);
	tcase_add_test(leases, a_fork_in_a_handler_that_interrupts_a_hit_does_not_hang);
#ifdef ENDS
	tcase_add_test(leases, a_thread_that_ends_in_the_middle_of_a_hit_is_waited_for_by_nobody);
#endif
	tcase_add_test(leases, a_kernel_that_refuses_membarrier_later_costs_nobody_what_he_holds);
	suite_add_tcase(suite, leases);
	tcase_add_checked_fixture(sharing, set_up_block, NULL);
	tcase_add_test(sharing, so_is_what_shares_its_region_with_others);
	suite_add_tcase(suite, sharing);
	tcase_add_checked_fixture(wider, set_up_superset, NULL);
	tcase_add_test(wider, rights_that_a_wider_region_serves_end_with_it);
	suite_add_tcase(suite, wider);
	tcase_add_checked_fixture(old, set_up_without_membarrier, NULL);
	tcase_add_test(old, a_hit_and_its_end_need_no_lock);
	tcase_add_test(old, what_is_leased_is_never_evicted);
	suite_add_tcase(suite, old);
	return suite_run(suite);
}
