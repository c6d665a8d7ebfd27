/* SPDX-License-Identifier: BSD-3-Clause */
/* own_calls.c -- the library's own verbs calls: marks of the thread, and deregistration */
#include "base/kernel.h"
#include "base/process.h"
#include "registration/methods.h"

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

bool registration_is_own_call(void)
{
	return own_calls != 0;
}

bool registration_is_own_end(const struct ibv_mr *mr)
{
	return mr == ending;
}

/* Retry: a remaining registration keeps memory that is about to be freed, or reaches later memory
 * at that address. */
#define DEREGISTER_TRIES    100
#define DEREGISTER_PAUSE_NS 100000

/* A registration cache may deregister a client's struct meanwhile, from a hook on the provider's
 * memory: `ending` identifies the library's own deregistration. */
int own_call_deregister(struct ibv_mr *mr)
{
	const struct verbs_calls *verbs = verbs_calls();
	const struct ibv_mr *outer = ending;
	int saved_errno = errno;
	int error;

	/* The kernel ends it with the process. */
	if (own_thread_is_done())
		return 0;
	own_call_begin();
	ending = mr;
	error = verbs->ibv_dereg_mr ? verbs->ibv_dereg_mr(mr) : ENOSYS;
	for (int i = 0;
	     i < DEREGISTER_TRIES && pinning_may_succeed_later(-error) && !own_thread_is_done();
	     i++) {
		kernel_sleep(DEREGISTER_PAUSE_NS);
		error = verbs->ibv_dereg_mr(mr);
	}
	ending = outer;
	own_call_end();
	errno = saved_errno;
	return error > 0 ? -error : error;
}
