/* SPDX-License-Identifier: BSD-3-Clause */
/* own_calls.c -- per-thread marks of the library's own verbs calls */
#include "registration/own_calls.h"

#include "registration/registration.h"

static __thread unsigned int own_calls __attribute__((tls_model("initial-exec")));
static __thread const struct ibv_mr *ending __attribute__((tls_model("initial-exec")));

void own_call_begin(void)
{
	own_calls++;
}

void own_call_end(void)
{
	own_calls--;
}

const struct ibv_mr *own_call_ends(const struct ibv_mr *mr)
{
	const struct ibv_mr *previous = ending;

	ending = mr;
	return previous;
}

bool registration_is_own_call(void)
{
	return own_calls != 0;
}

bool registration_is_own_end(const struct ibv_mr *mr)
{
	return mr == ending;
}
