/* SPDX-License-Identifier: BSD-3-Clause */
/* check_hit_steps.c -- a hit, with a free, a reuse, an eviction or a closing protection domain
 * after each of its instructions; an eviction, with a hit after each of its instructions; a
 * deregistration, with another one of the same client MR
 *
 * The processor's trap flag stops the thread after each instruction. A copy of the process
 * continues there, after the other thread's part, which runs in the signal handler: a hit holds no
 * lock, and takes none.
 */
#include <stdio.h>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#include "suite.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/process.h"
#include "hits_fixture.h"

#define TRAP_FLAG 0x100
#define OTHER	  20u /* a buffer at another address, in the slot of buffer 0 */

enum verdict { NO_HIT, HIT, WRONG, VERDICTS };

static void (*other_thread)(void);
static bool is_copy;
static unsigned int instructions, verdicts[VERDICTS]; /* of the copies */

/* The library is passive in a child, and goes on in a copy. */
static void step(int signal, siginfo_t *info, void *interrupted)
{
	ucontext_t *context = interrupted;
	pid_t copy = (pid_t)syscall(SYS_fork);
	int status;

	(void)signal;
	(void)info;
	if (!copy) {
		is_copy = true;
		store_relaxed(&process_page.state, PROCESS_OWN);
		context->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
		other_thread();
		return;
	}
	instructions++;
	require(waitpid(copy, &status, 0) == copy);
	if (!WIFEXITED(status) || WEXITSTATUS(status) >= WRONG)
		ck_abort_msg("wrong after instruction %u: status 0x%x", instructions, status);
	verdicts[WEXITSTATUS(status)]++;
}

/* Below the red zone of the caller. */
#define CHANGE_FLAGS(instruction)                                                                  \
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\t" instruction                        \
			 " (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp"                              \
			 :                                                                         \
			 :                                                                         \
			 : "memory", "cc")

/* `verdict` judges in each copy. */
static void step_through(void (*stepped)(void), void (*other)(void), enum verdict (*verdict)(void))
{
	other_thread = other;
	CHANGE_FLAGS("orq $0x100,");
	stepped();
	CHANGE_FLAGS("andq $-0x101,");
	if (is_copy)
		_exit((int)verdict());
	ck_assert_uint_gt(instructions, 50);
	/* The other thread comes before the hit's look-up in some copies, after it in others. */
	ck_assert(verdicts[NO_HIT] && verdicts[HIT]);
}

static void set_up_steps(void)
{
	struct sigaction action = { .sa_sigaction = step, .sa_flags = SA_SIGINFO };

	ck_assert(!sigaction(SIGTRAP, &action, NULL));
	set_up_with_pin_limit();
	prime(0);
}

static uint32_t key; /* of the client MR at AT(0); 0: none */

static void hit_buffer_0(void)
{
	key = hit(AT(0), 0);
}

/* ---- the other thread's parts ---- */

static void free_memory(void)
{
	end(buffer(0));
}

static void reuse_slot(void)
{
	end(buffer(0));
	begin(buffer(OTHER), BLOCK);
	prime(OTHER);
}

static void reuse_address(void)
{
	end(buffer(0));
	begin(buffer(0), BLOCK);
	prime(0);
}

static void evict_it(void)
{
	evict_all();
}

static void evict_and_register(void)
{
	evict_all();
	prime(0);
}

static void close_domain(void)
{
	registration_pd_closing(&pd);
	registration_pd_closed(&pd, true);
}

/* Its domain is the reused struct. */
static void replace_domain(void)
{
	static struct ibv_pd second = { .context = DEVICE, .handle = 2 };

	close_domain();
	registration_pd_opened(&second, false);
	require(get_in(&second, AT(255), buffer(0), BLOCK));
	require(registration_drop(AT(255)));
}

/* Fate of a client MR that the hit returns nevertheless. */
enum fate {
	REVOKED,
	REVOKED_OR_NEW, /* of the memory at this address afterwards */
	KEPT,		/* its region too */
};

static const struct {
	void (*run)(void);
	enum fate fate;
} others[] = {
	{ free_memory, REVOKED },	   { reuse_slot, REVOKED },
	{ reuse_address, REVOKED_OR_NEW }, { evict_it, KEPT },
	{ evict_and_register, KEPT },	   { close_domain, REVOKED },
	{ replace_domain, REVOKED },
};

static enum fate fate;

static enum verdict judge_hit(void)
{
	uint64_t late = statistics_get(late_deregistrations);
	bool covers = key && standin_covers(key, buffer(0));

	if (!key)
		return registration_holds(AT(0)) ? WRONG : NO_HIT;
	if (!registration_drop(AT(0)))
		return WRONG;
	if (statistics_get(late_deregistrations) > late)
		return fate != KEPT ? HIT : WRONG;
	return fate != REVOKED && covers ? HIT : WRONG;
}

START_TEST(a_hit_is_of_its_memory_or_revoked_whichever_instruction_another_thread_comes_after)
{
	fate = others[_i].fate;
	step_through(hit_buffer_0, others[_i].run, judge_hit);
	fate = KEPT;
	ck_assert_int_eq(judge_hit(), HIT);
	ck_assert(evict_all());
	ck_assert_uint_eq(standin_registered(), 0);
}
END_TEST

static bool evicted;

static void evict_one(void)
{
	evicted = registration_evict(DEVICE, 1);
}

static enum verdict judge_eviction(void)
{
	fate = KEPT;
	return evicted == !key ? judge_hit() : WRONG;
}

START_TEST(an_eviction_takes_no_held_region_whichever_instruction_a_hit_comes_after)
{
	step_through(evict_one, hit_buffer_0, judge_eviction);
	ck_assert(evicted);
}
END_TEST

static unsigned int dropped, dropped_by_other;

static void deregister(void)
{
	dropped += registration_drop_once(AT(0), &client_mrs[0].handle);
}

static void deregister_too(void)
{
	dropped_by_other += registration_drop_once(AT(0), &client_mrs[0].handle);
}

static enum verdict judge_deregistrations(void)
{
	if (dropped + dropped_by_other != 1)
		return WRONG;
	return dropped ? HIT : NO_HIT;
}

START_TEST(a_client_mr_is_dropped_once_whichever_instruction_a_second_drop_comes_after)
{
	require(hit(AT(0), 0));
	step_through(deregister, deregister_too, judge_deregistrations);
	ck_assert_uint_eq(dropped, 1);
}
END_TEST

int main(void)
{
	Suite *suite;
	TCase *steps;

	/* Valgrind has no trap flag. */
	if (suite_is_under_valgrind()) {
		puts("0 passed, 0 failed, 1 skipped");
		return 0;
	}
	suite = suite_create("hit steps");
	steps = tcase_create("steps");
	tcase_add_checked_fixture(steps, set_up_steps, NULL);
	tcase_add_loop_test(
		steps,
		a_hit_is_of_its_memory_or_revoked_whichever_instruction_another_thread_comes_after,
		0, sizeof(others) / sizeof(others[0]));
	tcase_add_test(steps,
		       an_eviction_takes_no_held_region_whichever_instruction_a_hit_comes_after);
	tcase_add_test(
		steps,
		a_client_mr_is_dropped_once_whichever_instruction_a_second_drop_comes_after);
	suite_add_tcase(suite, steps);
	return suite_run(suite);
}

#else

/* The trap flag is x86's, ThreadSanitizer cannot be interrupted anywhere, and AddressSanitizer's
 * instructions would each have a copy. */
int main(void)
{
	puts("0 passed, 0 failed, 1 skipped");
	return 0;
}

#endif
