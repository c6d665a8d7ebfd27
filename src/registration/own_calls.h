/* SPDX-License-Identifier: BSD-3-Clause */
/* own_calls.h -- the library's own calls into verbs, told apart from clients'
 *
 * The provider comes back to libibverbs, and so to our wrappers, on the very thread that called it. Between begin and
 * end the wrappers pass everything on untouched: registration_is_own_call() is true. They nest. But for deregistrations: a
 * registration cache may end one of a client's in there, from a hook on the provider's memory. So the library's own are known by
 * their struct, from a call of own_call_ends() to the next; it returns what the last was called with.
 */
#ifndef PEERPIN_REGISTRATION_OWN_CALLS_H
#define PEERPIN_REGISTRATION_OWN_CALLS_H

struct ibv_mr;

void own_call_begin(void);
void own_call_end(void);
const struct ibv_mr *own_call_ends(const struct ibv_mr *mr);

#endif
