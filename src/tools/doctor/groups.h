/* SPDX-License-Identifier: BSD-3-Clause */
/* groups.h -- says once what is the same of several GPUs or adapters: "GPU0 GPU1 dma-buf; GPU2 nothing" */
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

/* The words are said of the item. */
void groups_add(struct groups *groups, enum verdict verdict, const char *item, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Adds them all to the finding, the first ones first, and frees them. */
void groups_say(struct groups *groups, struct finding *finding);

/* "GPU0 GPU1 GPU2 GPU5" as "GPU0..2 GPU5". For the caller to free. */
char *shorten_list(const char *items);

#endif
