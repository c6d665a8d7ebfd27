/* SPDX-License-Identifier: BSD-3-Clause */
/* check_corners.c -- where two things meet in the registration layer: threads, ends, failures,
 * settings */
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "registration/internal.h"
#include "registration_fixture.h"

static void set_up_sync_small_pin_limit(void)
{
	setenv("PEERPIN_PREREGISTER", "sync", 1);
	setenv("PEERPIN_GRANULARITY", "2M", 1);
	setenv("PEERPIN_PIN_LIMIT", "4M", 1);
	set_up();
}

static void set_up_off_small_pin_limit(void)
{
	setenv("PEERPIN_PREREGISTER", "off", 1);
	setenv("PEERPIN_PIN_LIMIT", "4M", 1);
	set_up();
}

static void set_up_superset(void)
{
	setenv("PEERPIN_PREREGISTER", "off", 1);
	setenv("PEERPIN_ACCESS_MATCH", "superset", 1);
	set_up();
}

/* ---- SYNC_MEMOPS ---- */

START_TEST(sync_memops_is_set_by_the_first_request_that_is_served)
{
	begin(HOME, BLOCK);
	standin_fail_with(-EIO);
	ck_assert_uint_eq(ask(0, HOME, 4096), 0);
	standin_fail_with(0);
	ck_assert_uint_ne(ask(0, HOME, 4096), 0);
	ck_assert_uint_eq(standin_sync_memops(), 1);
}
END_TEST

static _Atomic bool setting, let_set, is_set;

static CUresult set_slowly(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
	(void)value, (void)attribute, (void)address;
	setting = true;
	while (!let_set)
		sched_yield();
	is_set = true;
	return CUDA_SUCCESS;
}

static void *ask_first(void *unused)
{
	ask(0, HOME, 4096);
	return unused;
}

static void *let_it_set(void *unused)
{
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	let_set = true;
	return unused;
}

START_TEST(no_client_gets_keys_before_sync_memops_is_set)
{
	struct registration_request request = request_in(&pd, 1, HOME, 4096, RIGHTS);
	struct registration_keys keys;
	pthread_t first, timer;
	bool served, set;

	standin_driver.cuPointerSetAttribute = set_slowly;
	begin(HOME, BLOCK);
	pthread_create(&first, NULL, ask_first, NULL);
	while (!setting)
		sched_yield();
	pthread_create(&timer, NULL, let_it_set, NULL);
	served = registration_hit(&request, &keys);
	set = is_set;
	let_set = true;
	pthread_join(first, NULL);
	pthread_join(timer, NULL);
	ck_assert(!served || set);
}
END_TEST

/* ---- learning ---- */

START_TEST(what_found_no_room_is_not_outstanding_for_ever)
{
	unsigned int before;

	for (int i = 0; i < 2; i++) {
		begin(HOME + (1000 + 2 * (uint64_t)i) * BLOCK, BLOCK);
		ck_assert_uint_ne(ask(250 + i, HOME + (1000 + 2 * (uint64_t)i) * BLOCK, 4096), 0);
	}
	for (uint64_t i = 0; i < 20; i++)
		begin(HOME + i * 4096, 1000);
	for (uint64_t i = 0; i < 20; i++)
		end(HOME + i * 4096);
	for (uint64_t i = 0; i < 2; i++)
		end(HOME + (1000 + 2 * i) * BLOCK);
	before = standin_registrations();
	begin(HOME + 2 * BLOCK, 1000);
	begin(HOME + 4 * BLOCK, 1000);
	ck_assert_uint_eq(standin_registrations() - before, 2);
}
END_TEST

START_TEST(look_ups_find_what_learning_has_passed_over)
{
	struct domain *domain;
	uint32_t lkey, rkey;

	activate();
	for (uint64_t i = 0; i < 64; i++) {
		begin(HOME, 3 * BLOCK);
		end(HOME);
	}
	begin(HOME + 8 * BLOCK, 3 * BLOCK);
	domain = registration_domain(&pd, RIGHTS);
	begin(HOME, 3 * BLOCK);
	ck_assert(registration_find(domain, HOME + 8 * BLOCK, 4096, RIGHTS, &lkey, &rkey));
	ck_assert(registration_find(domain, HOME, 4096, RIGHTS, &lkey, &rkey));
}
END_TEST

/* ---- pin limit ---- */

static int unpins;

static int unpin_and_ask(struct ibv_mr *mr)
{
	/* What another client does meanwhile. */
	if (++unpins == 2)
		ask(9, HOME + 20 * BLOCK, 4096);
	return standin_method.unpin(mr);
}

static uint64_t pinned_now, pinned_most;

static int pin_and_count(const struct pin_request *request, struct ibv_mr **mr)
{
	int error = standin_method.pin(request, mr);

	if (!error)
		pinned_now += request->length;
	if (pinned_now > pinned_most)
		pinned_most = pinned_now;
	return error;
}

START_TEST(two_clients_that_make_room_keep_to_the_pin_limit)
{
	struct registration_method method = { .name = "counting",
					      .pin = pin_and_count,
					      .unpin = unpin_and_ask };

	registration_forced_method = &method;
	for (uint64_t i = 0; i < 2; i++) {
		begin(HOME + 2 * i * BLOCK, BLOCK);
		ck_assert_uint_ne(ask(0, HOME + 2 * i * BLOCK, 4096), 0);
		registration_drop(&handles[0]);
	}
	begin(HOME + 10 * BLOCK, 2 * BLOCK);
	begin(HOME + 20 * BLOCK, BLOCK);
	pinned_now = pinned_most = 0;
	ask(1, HOME + 10 * BLOCK, 4096);
	ck_assert_int_eq(unpins, 2);
	/* Only what has been pinned since: both of the first have gone. */
	ck_assert_uint_le(pinned_most, 2 * BLOCK);
}
END_TEST

/* ---- rights ---- */

START_TEST(rights_that_the_kernel_refuses_are_refused_in_superset_mode_too)
{
	struct registration_keys keys;

	begin(HOME, BLOCK);
	ck_assert(ask_in(&pd, 0, HOME, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
			 &keys));
	ck_assert(!ask_in(&pd, 1, HOME, 4096, IBV_ACCESS_REMOTE_WRITE, &keys));
}
END_TEST

START_TEST(rights_that_the_kernel_refuses_make_no_domain)
{
	struct registration_keys keys;
	unsigned int attempts;

	begin(HOME, BLOCK);
	standin_fail_with(-EINVAL);
	ck_assert(!ask_in(&pd, 0, HOME, 4096, IBV_ACCESS_REMOTE_WRITE, &keys));
	attempts = standin_attempts();
	for (uint64_t i = 1; i < 9; i++)
		begin(HOME + 2 * i * BLOCK, BLOCK);
	ck_assert_uint_eq(standin_attempts(), attempts);
}
END_TEST

START_TEST(a_hit_by_address_is_not_what_only_a_dma_buf_may_have)
{
	struct registration_request request = request_in(&pd, 0, HOME, 4096, RIGHTS);
	struct registration_keys keys;

	request.dma_buf = true;
	standin_allocate(HOME, BLOCK, NULL, false);
	memory_allocated(ALLOCATION_POOL, HOME, BLOCK);
	ck_assert(registration_request(&request, &keys));
	request.dma_buf = false;
	request.client_mr = &handles[1];
	ck_assert(!registration_request(&request, &keys));
	ck_assert(!registration_hit(&request, &keys));
}
END_TEST

/* ---- ends ---- */

static _Atomic bool pinning, let_end;

/* As dma_buf.c, when it finds that its release of the primary context was the last one. */
static int pin_and_end_another(const struct pin_request *request, struct ibv_mr **mr)
{
	if (request->base == HOME) {
		pinning = true;
		while (!let_end)
			sched_yield();
		end(HOME + 4 * BLOCK);
	}
	return standin_method.pin(request, mr);
}

static void *close_on_thread(void *unused)
{
	registration_pd_closing(&pd);
	return unused;
}

START_TEST(a_free_inside_of_a_registration_does_not_meet_a_close)
{
	struct registration_method method = { .name = "ending",
					      .pin = pin_and_end_another,
					      .unpin = standin_method.unpin };
	pthread_t first, closing;

	registration_forced_method = &method;
	begin(HOME, BLOCK);
	begin(HOME + 4 * BLOCK, BLOCK);
	begin(HOME + 8 * BLOCK, BLOCK);
	pthread_create(&first, NULL, ask_first, NULL);
	while (!pinning)
		sched_yield();
	ck_assert_uint_ne(ask(1, HOME + 4 * BLOCK, 4096), 0);
	registration_drop(&handles[1]);
	pthread_create(&closing, NULL, close_on_thread, NULL);
	/* With the lock held it ends one region, and waits for the other one. */
	while (!statistics_get(bypassed_domain))
		ask(2, HOME + 8 * BLOCK, 4096), registration_drop(&handles[2]);
	let_end = true;
	pthread_join(first, NULL);
	pthread_join(closing, NULL);
	ck_assert_uint_eq(standin_registered(), 0);
}
END_TEST

/* ---- fork ---- */

static _Atomic bool forks_done;

static void *hold_often(void *unused)
{
	struct ibv_pd other = { .context = DEVICE, .handle = 77 };

	while (!forks_done) {
		registration_pd_opened(&other);
		registration_pd_closing(&other);
		registration_pd_closed(&other, true);
		registration_context_closing(DEVICE);
	}
	return unused;
}

/* The program has never called CUDA: nobody has told us of forks. */
START_TEST(a_child_of_a_program_without_cuda_does_not_hang)
{
	struct ibv_pd own = { .context = DEVICE, .handle = 77 };
	int status, hung = 0;
	pthread_t thread;
	pid_t child;

	pthread_create(&thread, NULL, hold_often, NULL);
	for (int i = 0; i < 300 && !hung; i++) {
		child = fork();
		if (!child) {
			signal(SIGALRM, SIG_DFL);
			alarm(60); /* a hang ends */
			registration_drop(&handles[3]);
			registration_pd_opened(&own);
			registration_pd_closing(&own);
			registration_pd_closed(&own, true);
			registration_context_closing(DEVICE);
			_exit(0);
		}
		waitpid(child, &status, 0);
		hung += WIFSIGNALED(status);
	}
	forks_done = true;
	pthread_join(thread, NULL);
	ck_assert_int_eq(hung, 0);
}
END_TEST

static void fork_in_handler(int unused)
{
	int status = -1;
	pid_t child = fork();

	(void)unused;
	if (!child)
		return;
	if (waitpid(child, &status, 0) != child || status)
		_exit(1);
}

/* Crash reporters and the like do. */
START_TEST(a_fork_in_a_handler_that_interrupts_who_has_the_lock_does_not_hang)
{
	struct sigaction action = { .sa_handler = fork_in_handler };
	struct ibv_pd other = { .context = DEVICE, .handle = 77 };
	pid_t parent = getpid();

	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	pthread_mutex_lock(&registration_lock);
	raise(SIGUSR1);
	pthread_mutex_unlock(&registration_lock);
	/* The child goes on, too. */
	alarm(60);
	registration_pd_opened(&other);
	if (getpid() != parent)
		_exit(0);
	/* The next one is as any other. */
	fork_in_handler(0);
	if (getpid() != parent)
		_exit(0);
	registration_pd_opened(&other);
}
END_TEST

/* ---- a neighbour keeps the region ---- */

struct asking {
	int handle;
	uint64_t address;
	uint32_t key;
};

static void *ask_there(void *argument)
{
	struct asking *asking = argument;

	asking->key = ask(asking->handle, asking->address, 1000);
	return NULL;
}

static bool has_reference(uint64_t address)
{
	struct allocation allocation;
	bool has;

	pthread_mutex_lock(&registration_lock);
	has = memory_find(address, &allocation) && domains &&
	      region_find_reference(domains, allocation.slot, allocation.id);
	pthread_mutex_unlock(&registration_lock);
	return has;
}

START_TEST(no_handle_is_given_for_what_was_freed_while_its_region_was_in_the_making)
{
	struct asking first = { .handle = 0, .address = HOME, .key = 1 };
	struct asking neighbour = { .handle = 1, .address = HOME + 1024 };
	pthread_t threads[2];

	begin(first.address, 1000);
	begin(neighbour.address, 1000);
	standin_block(true);
	ck_assert_int_eq(pthread_create(&threads[0], NULL, ask_there, &first), 0);
	standin_await_blocked(1);
	ck_assert_int_eq(pthread_create(&threads[1], NULL, ask_there, &neighbour), 0);
	while (!has_reference(neighbour.address))
		sched_yield();
	end(first.address);
	standin_block(false);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	ck_assert_uint_eq(first.key, 0);
	ck_assert_uint_eq(statistics_get(bypassed_ended), 1);
	ck_assert(!registration_holds(&handles[0]));
	ck_assert(standin_covers(neighbour.key, neighbour.address));
	end(neighbour.address);
	ck_assert_uint_eq(standin_registered(), 0);
}
END_TEST

static TCase *tcase(Suite *suite, const char *name, void (*fixture)(void))
{
	TCase *made = tcase_create(name);

	tcase_add_checked_fixture(made, fixture, NULL);
	tcase_set_timeout(made, 300);
	suite_add_tcase(suite, made);
	return made;
}

int main(void)
{
	Suite *suite = suite_create("corners");
	TCase *off = tcase(suite, "off", set_up_off), *sync = tcase(suite, "sync", set_up_sync);

	tcase_add_test(off, sync_memops_is_set_by_the_first_request_that_is_served);
	tcase_add_test(off, no_client_gets_keys_before_sync_memops_is_set);
	tcase_add_test(off, a_hit_by_address_is_not_what_only_a_dma_buf_may_have);
	tcase_add_test(off, a_free_inside_of_a_registration_does_not_meet_a_close);
	tcase_add_test(off,
		       no_handle_is_given_for_what_was_freed_while_its_region_was_in_the_making);
	tcase_add_test(off, a_child_of_a_program_without_cuda_does_not_hang);
	tcase_add_test(off, a_fork_in_a_handler_that_interrupts_who_has_the_lock_does_not_hang);
	tcase_add_test(sync, look_ups_find_what_learning_has_passed_over);
	tcase_add_test(sync, rights_that_the_kernel_refuses_make_no_domain);
	tcase_add_test(tcase(suite, "small pin limit", set_up_sync_small_pin_limit),
		       what_found_no_room_is_not_outstanding_for_ever);
	tcase_add_test(tcase(suite, "pin limit", set_up_off_small_pin_limit),
		       two_clients_that_make_room_keep_to_the_pin_limit);
	tcase_add_test(tcase(suite, "superset", set_up_superset),
		       rights_that_the_kernel_refuses_are_refused_in_superset_mode_too);
	return suite_run(suite);
}
