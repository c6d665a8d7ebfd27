/* SPDX-License-Identifier: BSD-3-Clause */
/* standin_adapter.c -- an adapter of variables */
#include "standin.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "registration/methods.h"
#include "registration/objects.h"

#define REGIONS 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static struct pinned {
	struct ibv_mr mr;
	uint64_t base, length;
	bool registered;
} regions[REGIONS];
static struct {
	unsigned int registered, registrations, attempts, in_blocked;
	bool blocked, unpin_blocked, in_blocked_unpin;
	int failure;
	uint64_t bytes, limit, blocked_base;
} adapter;

/* Called with the lock. */
static int add(const struct pin_request *request, struct pin_result *result)
{
	for (uint32_t i = 0; i < REGIONS; i++) {
		if (regions[i].registered)
			continue;
		adapter.registered++;
		adapter.registrations++;
		adapter.bytes += request->length;
		/* Keys are never reused within a test: a stale key differs from a new one. */
		regions[i] = (struct pinned){ .mr = { .context = request->pd->context,
						      .pd = request->pd,
						      .handle = i,
						      .lkey = adapter.registrations,
						      .rkey = adapter.registrations },
					      .base = request->base,
					      .length = request->length,
					      .registered = true };
		result->mr = &regions[i].mr;
		return 0;
	}
	return -ENOMEM;
}

static bool is_blocked(const struct pin_request *request)
{
	return adapter.blocked || (adapter.blocked_base && request->base == adapter.blocked_base);
}

static int pin(const struct pin_request *request, struct pin_result *result)
{
	int error = -ENOMEM;

	standin_called();
	pthread_mutex_lock(&lock);
	adapter.attempts++;
	if (is_blocked(request)) {
		adapter.in_blocked++;
		pthread_cond_broadcast(&changed);
		while (is_blocked(request))
			pthread_cond_wait(&changed, &lock);
		adapter.in_blocked--;
	}
	if (adapter.failure)
		error = adapter.failure;
	else if (!adapter.limit || adapter.bytes + request->length <= adapter.limit)
		error = add(request, result);
	pthread_mutex_unlock(&lock);
	return error;
}

static int unpin(struct ibv_mr *mr)
{
	int error = -EINVAL;

	standin_called();
	pthread_mutex_lock(&lock);
	adapter.in_blocked_unpin = adapter.unpin_blocked;
	pthread_cond_broadcast(&changed);
	while (adapter.unpin_blocked)
		pthread_cond_wait(&changed, &lock);
	if (regions[mr->handle].registered) {
		regions[mr->handle].registered = false;
		adapter.bytes -= regions[mr->handle].length;
		adapter.registered--;
		error = 0;
	}
	pthread_mutex_unlock(&lock);
	return error;
}

const struct registration_method standin_method = {
	.name = "stand-in", .call = ERRORS_REG_MR, .pin = pin, .unpin = unpin
};

static unsigned int read_locked(const unsigned int *value)
{
	unsigned int copy;

	pthread_mutex_lock(&lock);
	copy = *value;
	pthread_mutex_unlock(&lock);
	return copy;
}

unsigned int standin_registered(void)
{
	return read_locked(&adapter.registered);
}

unsigned int standin_registrations(void)
{
	return read_locked(&adapter.registrations);
}

unsigned int standin_attempts(void)
{
	return read_locked(&adapter.attempts);
}

bool standin_covers(uint32_t key, uint64_t address)
{
	bool covers = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < REGIONS; i++) {
		if (regions[i].registered && regions[i].mr.lkey == key &&
		    address - regions[i].base < regions[i].length)
			covers = true;
	}
	pthread_mutex_unlock(&lock);
	return covers;
}

void standin_fail_with(int error)
{
	pthread_mutex_lock(&lock);
	adapter.failure = error;
	pthread_mutex_unlock(&lock);
}

static void set_locked(bool *flag, bool value)
{
	pthread_mutex_lock(&lock);
	*flag = value;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void standin_block(bool block)
{
	set_locked(&adapter.blocked, block);
}

void standin_block_at(uint64_t base)
{
	pthread_mutex_lock(&lock);
	adapter.blocked_base = base;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void standin_await_blocked(unsigned int count)
{
	pthread_mutex_lock(&lock);
	while (adapter.in_blocked < count)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

void standin_block_unpin(bool block)
{
	set_locked(&adapter.unpin_blocked, block);
}

void standin_await_blocked_unpin(void)
{
	pthread_mutex_lock(&lock);
	while (!adapter.in_blocked_unpin)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

void standin_limit(uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	adapter.limit = bytes;
	pthread_mutex_unlock(&lock);
}

void standin_adapter_reset(void)
{
	pthread_mutex_lock(&lock);
	memset(regions, 0, sizeof(regions));
	memset(&adapter, 0, sizeof(adapter));
	pthread_mutex_unlock(&lock);
}
