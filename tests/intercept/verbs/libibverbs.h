/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs.h -- what the stand-in has beside the real one's names */
#ifndef PEERPIN_TESTS_LIBIBVERBS_H
#define PEERPIN_TESTS_LIBIBVERBS_H

#include "registration/verbs_abi.h"

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
unsigned int standin_kernel_regions(void);

/* Called inside the next registration in the kernel; NULL: nothing. */
extern void (*standin_in_register)(void);

#endif
