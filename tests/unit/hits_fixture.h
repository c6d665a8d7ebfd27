/* SPDX-License-Identifier: BSD-3-Clause */
/* hits_fixture.h -- requests as from a wrapper: a hit, or else a request with the lock */
#ifndef PEERPIN_TESTS_HITS_FIXTURE_H
#define PEERPIN_TESTS_HITS_FIXTURE_H

#include <pthread.h>

#include "registration_fixture.h"

#define BUFFERS 16u
#define FIT	8u /* buffers within the pin limit */

extern pthread_mutex_t registration_mutex; /* registration/lock.h */

#define AT(i) ((void *)&client_mrs[i])

static inline uint64_t buffer(unsigned int i)
{
	return HOME + i * 2 * BLOCK;
}

static inline void set_up_with_pin_limit(void)
{
	setenv("PEERPIN_PREREGISTER", "off", 1);
	setenv("PEERPIN_PIN_LIMIT", "16M", 1);
	set_up();
	for (unsigned int i = 0; i < BUFFERS; i++)
		begin(buffer(i), BLOCK);
}

static inline bool hit_in(struct ibv_pd *in, const void *at, uint64_t address, uint64_t length,
			  struct registration_keys *keys)
{
	struct registration_request request = request_in(in, 0, address, length, RIGHTS);

	request.client_mr = at;
	return registration_hit(&request, keys);
}

/* The local key; 0: no hit. */
static inline uint32_t hit(const void *at, unsigned int i)
{
	struct registration_keys keys;

	return hit_in(&pd, at, buffer(i), BLOCK, &keys) ? keys.lkey : 0;
}

/* A request as from a wrapper. */
static inline uint32_t get_in(struct ibv_pd *in, const void *at, uint64_t address, uint64_t length)
{
	struct registration_request request = request_in(in, 0, address, length, RIGHTS);
	struct registration_keys keys;

	request.client_mr = at;
	return registration_hit(&request, &keys) || registration_request(&request, &keys)
		       ? keys.lkey
		       : 0;
}

static inline uint32_t get(const void *at, unsigned int i)
{
	return get_in(&pd, at, buffer(i), BLOCK);
}

static inline void prime(unsigned int i)
{
	require(get(AT(255), i));
	require(registration_drop(AT(255)));
}

static inline bool evict_all(void)
{
	return registration_evict(DEVICE, 100 * BLOCK);
}

#endif
