/* SPDX-License-Identifier: BSD-3-Clause */
/* own_calls.h -- marks the library's own verbs calls, to distinguish them from clients' calls
 *
 * The provider calls back into libibverbs, and so into the library's wrappers, on the calling
 * thread. Between own_call_begin() and own_call_end() registration_is_own_call() is true, and the
 * wrappers forward every call but deregistrations. The calls nest.
 *
 * A registration cache may deregister a client's struct meanwhile, from a hook on the provider's
 * memory. So own deregistrations are identified by their struct, from one call of own_call_ends()
 * to the next. own_call_ends() returns the previous call's argument.
 */
#ifndef PEERPIN_REGISTRATION_OWN_CALLS_H
#define PEERPIN_REGISTRATION_OWN_CALLS_H

struct ibv_mr;

void own_call_begin(void);
void own_call_end(void);
const struct ibv_mr *own_call_ends(const struct ibv_mr *mr);

#endif
