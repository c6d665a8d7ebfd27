/* SPDX-License-Identifier: BSD-3-Clause */
/* registration_fixture.h -- allocations, frees and client requests on the stand-ins */
#ifndef PEERPIN_TESTS_REGISTRATION_FIXTURE_H
#define PEERPIN_TESTS_REGISTRATION_FIXTURE_H

#include <check.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "memory/memory.h"
#include "registration/background.h"
#include "registration/domain.h"
#include "registration/lock.h"
#include "registration/methods.h"
#include "report/statistics.h"
#include "standin.h"
#include "suite.h"

#define HOME   ((uint64_t)0x7f1200000000)
#define BLOCK  ((uint64_t)2 << 20)
#define RIGHTS 0xf

#define DEVICE ((struct ibv_context *)0x5000)

static struct ibv_pd pd = { .context = DEVICE, .handle = 1 };
/* Addresses that stand for providers' structs, as near to each other as structs can be. */
static struct ibv_mr client_mrs[256];

static inline void begin(uint64_t base, uint64_t size)
{
	standin_allocate(base, size, NULL, true);
	memory_allocated(ALLOCATION_DEVICE, base, size);
}

static inline void end(uint64_t base)
{
	struct allocation ended;

	require(memory_freeing(FREE_DEVICE, base, &ended));
	standin_free(base);
}

static inline struct registration_request request_in(struct ibv_pd *in, int handle,
						     uint64_t address, uint64_t length, int access)
{
	return (struct registration_request){ .pd = in,
					      .address = address,
					      .length = length,
					      .iova = address,
					      .access = access,
					      .client_mr = &client_mrs[handle] };
}

static inline bool ask_in(struct ibv_pd *in, int handle, uint64_t address, uint64_t length,
			  int access, struct registration_keys *keys)
{
	struct registration_request request = request_in(in, handle, address, length, access);

	return registration_request(&request, keys);
}

/* The local key of a served request; 0: forwarded. */
static inline uint32_t ask(int handle, uint64_t address, uint64_t length)
{
	struct registration_keys keys;

	return ask_in(&pd, handle, address, length, RIGHTS, &keys) ? keys.lkey : 0;
}

static inline void await(const char *counter, uint64_t at_least)
{
	uint64_t value;

	do {
		require(!statistics_find(counter, &value));
		if (value < at_least)
			sched_yield();
	} while (value < at_least);
}

/* Of domains: that of all and the queue may be in progress still. */
static inline void await_rescans(void)
{
	while (background_has_more())
		sched_yield();
}

static inline void rescan_first_domain(void)
{
	registration_lock();
	require(background_queue_domain(domain_after(NULL, 0)));
	registration_unlock();
	worker_wake();
	await_rescans();
}

/* The stand-in's method, which counts registrations on the test's thread. */
static _Atomic unsigned int own_pins;
static pthread_t own;

static inline int pin_and_count_own(const struct pin_request *request, struct pin_result *result)
{
	own_pins += pthread_equal(pthread_self(), own) != 0;
	return standin_method.pin(request, result);
}

static inline void count_own_pins(void)
{
	static struct registration_method counting;

	counting = standin_method;
	counting.pin = pin_and_count_own;
	own = pthread_self();
	registration_forced_method = &counting;
}

static bool pd_by_key; /* `pd` of a client that indexes registrations by key */

static inline void set_up(void)
{
	standin_reset();
	standin_with_registration = true;
	registration_pd_opened(&pd, pd_by_key);
}

static inline void set_up_off(void)
{
	setenv("PEERPIN_PREREGISTER", "off", 1);
	set_up();
}

static inline void set_up_eager(void)
{
	setenv("PEERPIN_PREREGISTER", "eager", 1);
	set_up();
}

/* Enables the domain by a first request: later allocations are registered in the background. */
static inline void enable_domain(void)
{
	begin(HOME + 1000 * BLOCK, BLOCK);
	ck_assert_uint_ne(ask(255, HOME + 1000 * BLOCK, 4096), 0);
}

#endif
