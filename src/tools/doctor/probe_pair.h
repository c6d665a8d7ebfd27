/* SPDX-License-Identifier: BSD-3-Clause */
/* probe_pair.h -- registers memory of one GPU with one adapter by each method (child) */
#ifndef PEERPIN_TOOLS_DOCTOR_PROBE_PAIR_H
#define PEERPIN_TOOLS_DOCTOR_PROBE_PAIR_H

#include "tools/doctor/host.h"

/* Parameters of the next child, set before the fork. */
struct probe_pair {
	int gpu;
	char adapter[64];
	enum method first; /* earlier methods are done */
};

extern struct probe_pair probe_pair;

/* In the child. */
void probe_pair_query(struct host *host);

/* Parent only: records failure `how` of the lost child for this method. Readings already
 * recorded stay (host_record). */
void probe_pair_lost(struct host *host, enum method method, const char *how);

#endif
