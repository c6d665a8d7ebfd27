/* SPDX-License-Identifier: BSD-3-Clause */
/* own_calls.h -- the library's own calls into verbs, told apart from clients'
 *
 * The provider comes back to libibverbs, and so to our wrappers, on the very thread that called it. Between begin and
 * end the wrappers pass everything on untouched: registration_is_own_call() is true. They nest.
 */
#ifndef PEERPIN_REGISTRATION_OWN_CALLS_H
#define PEERPIN_REGISTRATION_OWN_CALLS_H

void own_call_begin(void);
void own_call_end(void);

#endif
