/* SPDX-License-Identifier: BSD-3-Clause */
/* population.h -- many live allocations, registered, and queries of them */
#ifndef PEERPIN_TESTS_POPULATION_H
#define PEERPIN_TESTS_POPULATION_H

#include "memory/memory.h"
#include "registration/registration.h"

#define POPULATION_FIRST ((uint64_t)0x7f0000000000)
#define REQUEST_LENGTH	 128 /* bytes of a request */
#define ACCESS		 0xf /* access flags of UCX */

enum shape {
	SHAPE_SMALL, /* 512 bytes each, without gaps */
	SHAPE_2MIB,  /* as large as the driver's blocks, each in its own */
	SHAPE_MIXED, /* 512 bytes to 8 MiB, each order of magnitude as often, without gaps */
	SHAPES,
};

extern const char *const shape_names[SHAPES];

/* Addresses, and what a look-up finds: the base of the allocation. */
struct queries {
	uint64_t *addresses, *keys;
	uint64_t count;
};

struct population {
	uint64_t live;
	uint64_t *bases, *sizes, *keys;
	uint64_t end;		 /* behind the last */
	struct queries random;	 /* in random allocations */
	struct queries hot;	 /* all in one */
	double bytes;		 /* growth of this process for each allocation */
	double bytes_registered; /* and for each registration */
	double before;
};

/* lkey of the stand-in adapter for a range. */
static inline uint32_t population_lkey(uint64_t base, uint64_t length)
{
	return (uint32_t)(((base ^ length << 20) * 0x9e3779b97f4a7c15u) >> 32);
}

static inline uint32_t population_rkey(uint32_t lkey)
{
	return lkey * 0x9e3779b1u;
}

/* Make the allocations, once in a process; register, verify and deregister each. */
void population_make(struct population *population, enum shape shape, uint64_t live);
void population_register(struct population *population);

#endif
