/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs.h -- the few declarations of libibverbs that docs/examples/cache.c uses, for the stand-in
 *
 * Names, values and layouts are the real header's; that one makes functions macros that the
 * stand-in does not have.
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
