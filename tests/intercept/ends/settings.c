/* SPDX-License-Identifier: BSD-3-Clause */
/* settings.c -- settings of registration, from the environment to the adapter */
#include "ends.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_context *second;
static struct ibv_pd *second_pd;

static void set_up_two(void)
{
	set_up();
	second = open_device(1);
	second_pd = ibv_alloc_pd(second);
	require(second_pd);
}

/* Background registration covers this domain without a client request. */
#define CHOSEN (ACCESS | IBV_ACCESS_REMOTE_ATOMIC)

static void domains_are_learned(unsigned int unused)
{
	CUdeviceptr memory, next;

	(void)unused;
	set_up_two();
	memory = allocate(UNIT);
	require(begun() == 0 && !worker_thread());
	require(registered(memory));
	next = allocate(UNIT);
	until(own("registrations_background") == 1);
	require(sim("live") == 2);
	require(!ibv_dereg_mr(registered(next)) && own("hits") == 1);
	require(!ibv_dealloc_pd(second_pd) && sim("live") == 2);
}

static void domains_are_learned_on_the_named_adapter(unsigned int unused)
{
	CUdeviceptr memory, next;

	(void)unused;
	set_up_two();
	memory = allocate(UNIT);
	require(registered(memory) && registered_in(second_pd, memory, UNIT, CHOSEN));
	next = allocate(UNIT);
	until(own("registrations_background") == 1);
	require(sim("live") == 3);
	require(!ibv_dereg_mr(registered_in(second_pd, next, UNIT, CHOSEN)) && own("hits") == 1);
}

/* ---- PEERPIN_PREREGISTER ---- */

static void allocate_more_without_worker(void)
{
	for (int i = 0; i < 100; i++)
		allocate(SIZE);
	require(!worker_thread());
}

static void sync_registers_in_the_allocation(unsigned int unused)
{
	CUdeviceptr memory;

	(void)unused;
	set_up();
	activate();
	memory = allocate(UNIT);
	require(sim("live") == 2 && own("registrations_background") == 1 &&
		own("background_ns") == 0);
	require(!ibv_dereg_mr(registered(memory)) && own("hits") == 1);
}

static void off_registers_synchronously(unsigned int unused)
{
	CUdeviceptr memory;

	(void)unused;
	set_up();
	activate();
	memory = allocate(UNIT);
	require(sim("live") == 1);
	require(!ibv_dereg_mr(registered(memory)) && own("synchronous") == 2 &&
		own("registrations_background") == 0);
	require(!ibv_dereg_mr(registered(memory)) && own("hits") == 1 && sim("live") == 2);
	allocate_more_without_worker();
}

/* ---- the start of the process ---- */

/* As setproctitle, which also moves the environment: here nothing of it is left. */
static void overwrite_start_block(void)
{
	char *begin = program_invocation_name, *end = begin, *name = strrchr(begin, '/');

	program_invocation_short_name = name ? name + 1 : begin;
	for (unsigned int i = 0; environ[i]; i++)
		end = environ[i] + strlen(environ[i]);
	require(end > begin);
	memset(begin, 'x', (size_t)(end - begin));
	environ[0] = NULL;
}

static void a_title_over_arguments_and_environment_changes_no_setting(unsigned int later)
{
	pid_t child;

	with_files();
	child = fork();
	if (!child) {
		if (!later)
			overwrite_start_block();
		set_up();
		if (later)
			overwrite_start_block();
		activate();
		allocate(UNIT);
		require(sim("live") == 2);
		exit(0);
	}
	require(await_child(child) == 0);
	require(file_contains("results", "\"program\": \"ends\""));
	require(file_contains("results", "\"PEERPIN_PREREGISTER\": \"eager\""));
	remove_files();
}

#define TWO "PEERPIN_SIM_ADAPTER_DEVICES=2 "

const struct test setting_tests[] = {
	TEST(domains_are_learned, 1, TWO),
	TEST(domains_are_learned_on_the_named_adapter, 0, TWO "PEERPIN_DEVICES=sim1"),
	TEST(domains_are_learned_on_the_named_adapter, 0, TWO "PEERPIN_DEVICES=^sim0"),
	TEST(domains_are_learned_on_the_named_adapter, 0, TWO "PEERPIN_DEVICES=other,*1"),
	TEST(sync_registers_in_the_allocation, 0, "PEERPIN_PREREGISTER=eager"),
	TEST(off_registers_synchronously, 0, "PEERPIN_PREREGISTER=off"),
	TEST(a_title_over_arguments_and_environment_changes_no_setting, 0,
	     "PEERPIN_PREREGISTER=eager PEERPIN_DEVICES=sim0"),
	TEST(a_title_over_arguments_and_environment_changes_no_setting, 1,
	     "PEERPIN_PREREGISTER=eager PEERPIN_DEVICES=sim0"),
	{ .name = NULL },
};

const struct test *const test_files[] = { memory_tests,	  domain_tests, process_tests,
					  exit_tests,	  thread_tests, worker_tests,
					  setting_tests,  client_tests, primary_tests,
					  expected_tests, export_tests, NULL };
