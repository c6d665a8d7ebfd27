/* SPDX-License-Identifier: BSD-3-Clause */
/* groups.h -- merges identical findings: "GPU0 GPU1 dma-buf; GPU2 nothing" */
#ifndef PEERPIN_DOCTOR_GROUPS_H
#define PEERPIN_DOCTOR_GROUPS_H

#include "tools/doctor/checks.h"

#define GROUPS_MAX 16

struct groups {
	struct group {
		enum verdict verdict;
		char *words;
		char *items;
	} groups[GROUPS_MAX];
	unsigned int count;
};

/* Adds `item` to the group with this verdict and text. */
void groups_add(struct groups *groups, enum verdict verdict, const char *item, const char *format,
		...) __attribute__((format(printf, 4, 5)));

/* Adds all groups to the finding in order of creation, then frees them. */
void groups_say(struct groups *groups, struct finding *finding);

/* Shortens "GPU0 GPU1 GPU2 GPU5" to "GPU0..2 GPU5". The caller frees the result. */
char *shorten_list(const char *items);

#endif
