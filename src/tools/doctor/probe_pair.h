/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_pair.h -- registers memory of one GPU with one adapter, by each way: what a child of probe.c does */
#ifndef PEERPIN_TOOLS_DOCTOR_PROBE_PAIR_H
#define PEERPIN_TOOLS_DOCTOR_PROBE_PAIR_H

#include "tools/doctor/host.h"

/* Ways are numbered from 0 to this one. */
#define PROBE_DATA_DIRECT 2

/* What the next child is about. */
struct probe_pair {
	int gpu;
	char adapter[64];
	int first_way; /* those before it have been tried */
};

extern struct probe_pair probe_pair;

/* In the child. */
void probe_pair_ask(struct host *host);

/* In the parent: the way fails by how the child was lost; what it told before that stays (host_record). */
void probe_pair_lost(struct host *host, int way, const char *how);

const char *probe_way_name(int way);

#endif
