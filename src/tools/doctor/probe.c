/* SPDX-License-Identifier: BSD-3-Clause */
/* probe.c -- readings probe/: real registrations of real GPU memory, by each way
 *
 * One child for each pair of GPU and adapter, so that what a pair does to it hides no other. The rights are those that
 * MPI and NCCL ask for: an adapter may take memory that is only to be read, and no other. "data-direct" is tried where
 * the adapter has it. Beside what host.h lists, each time the whole name begins with probe/GPU/ADAPTER/:
 *
 *   ended               how the child of the pair ended; said: what was printed there. probe/ended is the first that is
 *                       not "ok"; it is not there if no pair was tried. Where the child was lost while it tried a way,
 *                       another child goes on with the next way: WAY/ended, WAY/said
 *   WAY/begun           "1": it was tried
 *   WAY/transfer        error EOPNOTSUPP with words: no data could be sent at all, for want of an active port, say
 *   WAY/export          cuMemGetHandleForAddressRange of 2 MiB, before the registration: "ok NANOSECONDS"
 *   WAY/BYTES           "fail CALL ERRNO" may name what comes before the registration: "fail ibv_open_device EACCES",
 *                       "fail cuMemGetHandleForAddressRange CUDA_ERROR_NOT_SUPPORTED"; and how the child was lost:
 *                       "fail timeout 10 in ibv_reg_mr"
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/doctor/host.h"
#include "tools/doctor/probe_pair.h"

#define SECONDS 10

static bool note_begun(const char *name, const struct reading *reading, void *last)
{
	char begun[160];

	for (int way = probe_pair.first_way; way <= PROBE_DATA_DIRECT; way++) {
		snprintf(begun, sizeof(begun), "probe/%d/%s/%s/begun", probe_pair.gpu, probe_pair.adapter,
			 probe_way_name(way));
		if (!reading->error && strcmp(name, begun) == 0 && *(int *)last < way)
			*(int *)last = way;
	}
	return true;
}

/* The last way that was begun; -1: none was. Asking for what is not there would record that it is not (host_read). */
static int way_begun(struct host *host)
{
	int last = -1;

	host_each(host, note_begun, &last);
	return last;
}

static void try_pair(struct host *host, char ended[100])
{
	const struct reading *told;
	const char *how;
	char prefix[120];
	int way;

	snprintf(prefix, sizeof(prefix), "probe/%d/%s/", probe_pair.gpu, probe_pair.adapter);
	for (probe_pair.first_way = 0; probe_pair.first_way <= PROBE_DATA_DIRECT;
	     probe_pair.first_way = way + 1) {
		host_ask_child(host, prefix, SECONDS, probe_pair_ask);
		told = host_read(host, "%sended", prefix);
		/* What was not even tried has not failed. */
		if (told->error == ETIME)
			return;
		how = told->error ? "not started" : told->text;
		if (!*ended || strcmp(ended, "ok") == 0)
			snprintf(ended, 100, "%s", how);
		if (strcmp(how, "ok") == 0)
			return;
		way = way_begun(host);
		if (way < 0) {
			/* Already opening them was too much. */
			probe_pair_lost(host, 0, how);
			probe_pair_lost(host, 1, how);
			return;
		}
		probe_pair_lost(host, way, how);
		if (way < PROBE_DATA_DIRECT)
			snprintf(prefix, sizeof(prefix), "probe/%d/%s/%s/", probe_pair.gpu,
				 probe_pair.adapter, probe_way_name(way + 1));
	}
}

/* The name in line `number`, counted from 0. */
static bool adapter_at(struct host *host, int64_t number, char *name, size_t size)
{
	const char *names = host_text(host, "verbs/devices");

	while (host_line(&names, name, size)) {
		if (*name && !number--)
			return true;
	}
	return false;
}

/* Each GPU with one adapter first, and mostly with that of its own number: should the time not be enough for all
 * pairs, each GPU has had its turn. */
static void fill(struct host *host)
{
	const char *option = host_text(host, "option/probe");
	int64_t count = 0, adapters = 0;
	char ended[100] = "";

	if (option && strcmp(option, "off") == 0)
		return;
	host_number(host, &count, "cuda/count");
	while (adapter_at(host, adapters, probe_pair.adapter, sizeof(probe_pair.adapter)))
		adapters++;
	for (int64_t turn = 0; turn < adapters; turn++) {
		for (probe_pair.gpu = 0; probe_pair.gpu < count; probe_pair.gpu++) {
			adapter_at(host, (probe_pair.gpu + turn) % adapters, probe_pair.adapter,
				   sizeof(probe_pair.adapter));
			try_pair(host, ended);
		}
	}
	if (*ended)
		host_say(host, "probe/ended", "%s", ended);
}

void probe_add(struct host *host)
{
	host_add_source(host, "probe/", fill);
}
