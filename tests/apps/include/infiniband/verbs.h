/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs.h -- declarations of libibverbs for docs/examples/cache.c
 *
 * Names, values and layouts are the real header's. Its functions are macros over a table of
 * functions.
 */
#ifndef PEERPIN_TESTS_VERBS_H
#define PEERPIN_TESTS_VERBS_H

#include "registration/verbs_abi.h"

struct ibv_device;

struct ibv_device **ibv_get_device_list(int *count);
void ibv_free_device_list(struct ibv_device **list);
struct ibv_context *ibv_open_device(struct ibv_device *device);
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);

#endif
