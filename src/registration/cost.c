/* SPDX-License-Identifier: BSD-3-Clause */
/* cost.c -- shortest times of registrations on an adapter, by their length */
#include "registration/cost.h"

#define SHIFT_MAX    20u
#define USUAL_MAX_NS 1000000u

static unsigned int cost_class(uint64_t bytes)
{
	return 63u - (unsigned int)__builtin_clzll(bytes);
}

void cost_add(struct adapter *adapter, uint64_t bytes, uint64_t nanoseconds)
{
	uint64_t *least = &adapter->least_ns[cost_class(bytes)];

	if (!*least || nanoseconds < *least)
		*least = nanoseconds | 1;
}

/* A range takes at most as long as a longer one, and as a shorter one in proportion to the length.
 * Lengths of one class differ by up to 2. */
uint64_t cost_usual(const struct adapter *adapter, uint64_t bytes)
{
	unsigned int class = cost_class(bytes);
	uint64_t usual = USUAL_MAX_NS, least;

	for (unsigned int i = 0; i < COST_CLASSES; i++) {
		least = adapter->least_ns[i];
		if (!least || i + SHIFT_MAX <= class)
			continue;
		if (i < class)
			least <<= class - i + 1;
		if (least < usual)
			usual = least;
	}
	return usual;
}
