/* SPDX-License-Identifier: BSD-3-Clause */
/* traps.h -- output of the programs of check_traps.sh */
#ifndef PEERPIN_TESTS_TRAPS_H
#define PEERPIN_TESTS_TRAPS_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* One line for each trap; check_traps.sh requires every number once. */
static inline void trap(const char *number, const char *promise, bool kept)
{
	printf("%s %s %s\n", kept ? "ok" : "FAILED:", number, promise);
	fflush(stdout);
}

/* Part of a trap's test; prints the place of a failure. */
#define PART(condition)                                                                            \
	({                                                                                         \
		bool kept_ = (condition);                                                          \
		if (!kept_)                                                                        \
			printf("%s, line %d: not so: %s\n", __FILE__, __LINE__, #condition);       \
		kept_;                                                                             \
	})

static inline uint64_t statistic(const char *name)
{
	int (*read)(const char *name, uint64_t *value) =
		(__typeof__(read))dlsym(RTLD_DEFAULT, "peerpin_statistic");
	uint64_t value = 0;

	if (!read || read(name, &value)) {
		printf("FAILED: not under the preload, or no counter %s\n", name);
		exit(99);
	}
	return value;
}

#endif
