/* SPDX-License-Identifier: BSD-3-Clause */
/* demo.h -- `peerpin demo`: measurements of one run of its client */
#ifndef PEERPIN_SIM_DEMO_H
#define PEERPIN_SIM_DEMO_H

#include <stdint.h>

#define DEMO_BUFFERS   16
#define DEMO_ROUNDS    8 /* after a first one */
#define DEMO_SAMPLES   (DEMO_ROUNDS * DEMO_BUFFERS)
#define DEMO_MAX_DELAY 10000

/* Statistics of peerpin that the demo reads. */
#define DEMO_STATISTICS(STATISTIC)                                                                 \
	STATISTIC(requests)                                                                        \
	STATISTIC(hits)                                                                            \
	STATISTIC(forwarded)                                                                       \
	STATISTIC(background_delays)

/* The client prints these numbers in this order. Without peerpin its statistics are 0. */
struct demo_result {
	uint64_t wrong_bytes;
	uint64_t outlived;  /* registrations that outlived their memory */
	uint64_t live_keys; /* keys that reached memory after its free */
#define STATISTIC(name) uint64_t name;
	DEMO_STATISTICS(STATISTIC)
#undef STATISTIC
	uint64_t request_ns[DEMO_SAMPLES];
	uint64_t cycle_ns[DEMO_SAMPLES]; /* allocation, request, deregistration and free */
};

#define DEMO_NUMBERS (sizeof(struct demo_result) / sizeof(uint64_t))

/* Runs the client, and prints its result. A registration takes `delay` us. Returns the status. */
int demo_client(unsigned long delay);

#endif
