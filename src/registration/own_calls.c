/* SPDX-License-Identifier: BSD-3-Clause */
/* own_calls.c -- which calls into verbs are the library's own: a number for each thread */
#include "registration/own_calls.h"

#include "registration/registration.h"

static __thread unsigned int own_calls __attribute__((tls_model("initial-exec")));

void own_call_begin(void)
{
	own_calls++;
}

void own_call_end(void)
{
	own_calls--;
}

bool registration_is_own_call(void)
{
	return own_calls != 0;
}
