/* SPDX-License-Identifier: BSD-3-Clause */
/* probe.c -- readings probe/: registrations of real GPU memory by each method
 *
 * One child per pair of GPU and adapter, so that a crash in one pair hides no other. Access
 * flags are those that MPI and NCCL use: an adapter may register read-only memory and refuse
 * writable memory. "data-direct" is tried only with adapters that support it.
 *
 * Readings beside those of host.h, all below probe/GPU/ADAPTER/:
 *
 *   ended               end of the pair's child; output: its output. probe/ended is the first
 *                       that is not "ok", absent if no pair was tried. If the child is lost
 *                       during a method, another child continues with the next one:
 *                       METHOD/ended, METHOD/output
 *   METHOD/begun        "1": the method was started
 *   METHOD/transfer     error EOPNOTSUPP with a reason: no transfer was possible, for example
 *                       without an active port
 *   METHOD/BYTES        "fail CALL ERRNO" may name a call before the registration:
 *                       "fail ibv_open_device EACCES",
 *                       "fail cuMemGetHandleForAddressRange CUDA_ERROR_NOT_SUPPORTED";
 *                       or the end of a lost child: "fail timeout 10 in ibv_reg_mr"
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/doctor/host_internal.h"
#include "tools/doctor/probe_pair.h"

#define SECONDS 10

/* Last method that was started; -1: none. Not host_read: an absent name would become an ENOENT. */
static int probe_last_begun(const struct host *host)
{
	int last = -1;

	for (enum method method = probe_pair.first; method < METHODS; method++) {
		if (host_recorded(host, probe_pair_name(method, "begun")))
			last = (int)method;
	}
	return last;
}

static void probe_try_pair(struct host *host, const char **ended)
{
	const struct reading *reading;
	const char *how;
	char prefix[120];
	int lost;

	snprintf(prefix, sizeof(prefix), "probe/%d/%s/", probe_pair.gpu, probe_pair.adapter);
	for (probe_pair.first = 0; probe_pair.first < METHODS; probe_pair.first = lost + 1) {
		host_run_child(host, prefix, SECONDS, probe_pair_query);
		reading = host_read(host, "%sended", prefix);
		/* A pair skipped for lack of time has not failed. */
		if (reading->error == ETIME)
			return;
		how = reading->error ? "not started" : reading->text;
		if (!*ended || strcmp(*ended, "ok") == 0)
			*ended = how;
		if (strcmp(how, "ok") == 0)
			return;
		lost = probe_last_begun(host);
		if (lost < 0) {
			/* The child was lost while opening GPU or adapter. */
			probe_pair_lost(host, METHOD_DMA_BUF, how);
			probe_pair_lost(host, METHOD_PEER_MEMORY, how);
			return;
		}
		probe_pair_lost(host, (enum method)lost, how);
		if (lost < METHOD_DATA_DIRECT)
			snprintf(prefix, sizeof(prefix), "probe/%d/%s/%s/", probe_pair.gpu,
				 probe_pair.adapter, method_name((enum method)lost + 1));
	}
}

/* Name in line `number`, counted from 0. */
static bool probe_adapter_at(struct host *host, int64_t number, char *name, size_t size)
{
	const char *names = host_text(host, "verbs/devices");

	while (host_line(&names, name, size)) {
		if (*name && !number--)
			return true;
	}
	return false;
}

/* Tries each GPU with one adapter before any second adapter, starting at the adapter with the
 * GPU's own number: at the time limit, each GPU has had a turn. */
void probe_fill(struct host *host)
{
	const char *option = host_text(host, "option/probe"), *ended = NULL;
	int64_t count = 0, adapters = 0;

	if (option && strcmp(option, "off") == 0)
		return;
	host_number(host, &count, "cuda/count");
	while (probe_adapter_at(host, adapters, probe_pair.adapter, sizeof(probe_pair.adapter)))
		adapters++;
	for (int64_t turn = 0; turn < adapters; turn++) {
		for (probe_pair.gpu = 0; probe_pair.gpu < count; probe_pair.gpu++) {
			probe_adapter_at(host, (probe_pair.gpu + turn) % adapters,
					 probe_pair.adapter, sizeof(probe_pair.adapter));
			probe_try_pair(host, &ended);
		}
	}
	if (ended)
		host_record(host, "probe/ended", "%s", ended);
}
