/* SPDX-License-Identifier: BSD-3-Clause */
/* ways.c -- registration methods of each pair: proved by the probe, or expected from readings */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/machine.h"
#include "tools/doctor/meaning.h"

static struct answered ways_answer(enum answer which, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static struct answered ways_answer(enum answer which, const char *format, ...)
{
	struct answered answered = { .answer = which };
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(answered.reason, sizeof(answered.reason), format, arguments);
	va_end(arguments);
	return answered;
}

const char *way_name(enum way way)
{
	static const char *const names[WAYS] = { "dma-buf", "peermem", "data-direct" };

	return names[way];
}

/* ---- facts ---- */

enum flavour driver_flavour(struct host *host)
{
	const struct reading *version = host_read(host, "/proc/driver/nvidia/version");

	if (!version->error)
		return strstr(version->text, "Open Kernel Module") ? FLAVOUR_OPEN
								   : FLAVOUR_PROPRIETARY;
	if (version->error == ENOENT && host_has(host, "/proc/version"))
		return FLAVOUR_NONE;
	return FLAVOUR_UNKNOWN;
}

bool kernel_is_at_least(struct host *host, int major, int minor)
{
	const char *text = host_text(host, "identity/kernel");
	int first = 0, second = 0;

	return text && sscanf(text, "%d.%d", &first, &second) == 2 &&
	       (first > major || (first == major && second >= minor));
}

static const char *const clients[] = { "nvidia-peermem", "nv_mem", "nv_mem_nc", "nvidia_peermem" };

bool is_past_peer_memory(struct host *host, const struct gpu *gpu)
{
	const char *compute = host_text(host, "cuda/%d/compute", gpu->ordinal);

	return compute && atoi(compute) >= 10;
}

static bool ways_clients_are_hidden(struct host *host)
{
	for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++) {
		if (reading_is_refused(
			    host_read(host, "/sys/kernel/mm/memory_peers/%s/version", clients[i])))
			return true;
	}
	return false;
}

const char *peer_memory_client(struct host *host)
{
	for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++) {
		if (host_has(host, "/sys/kernel/mm/memory_peers/%s/version", clients[i]))
			return clients[i];
	}
	return NULL;
}

/* ---- one method ---- */

/* "the adapter's driver has no dma-buf (EOPNOTSUPP)" */
static struct answered ways_failure(const char *text)
{
	const struct meaning *meaning = meaning_of(text);
	const char *error = strrchr(text, ' ');

	if (!*meaning->words || !error)
		return ways_answer(ANSWER_NO, "%s", text);
	return ways_answer(ANSWER_NO, "%s (%s)", meaning->words, error + 1);
}

const char *transfer_failure(struct host *host, const struct gpu *gpu,
			     const struct adapter *adapter, enum way way)
{
	const struct reading *reading = host_read(host, "probe/%d/%s/%s/transfer", gpu->ordinal,
						  adapter->name, way_name(way));

	if (reading->error) {
		/* EOPNOTSUPP: no transfer was possible; the memory is neither good nor bad. */
		if (reading->error != EOPNOTSUPP)
			host_has(host, "probe/%d/%s/%s/transfer", gpu->ordinal, adapter->name,
				 way_name(way));
		return NULL;
	}
	return !strncmp(reading->text, "fail ", 5) ? reading->text + 5 : NULL;
}

/* Result of the probe for any size. UNKNOWN: not tried. */
static struct answered ways_probed(struct host *host, const struct gpu *gpu,
				   const struct adapter *adapter, enum way way)
{
	static const unsigned int sizes[] = { 67108864, 2097152 };
	const char *broken = transfer_failure(host, gpu, adapter, way);
	struct answered best = ways_answer(ANSWER_UNKNOWN, "nothing was registered");

	for (size_t i = 0; gpu->ordinal >= 0 && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const char *text = host_text(host, "probe/%d/%s/%s/%u", gpu->ordinal, adapter->name,
					     way_name(way), sizes[i]);

		if (text && !strncmp(text, "ok", 2) && broken)
			return ways_answer(ANSWER_NO,
					   "data does not arrive in memory that was registered");
		if (text && !strncmp(text, "ok", 2))
			return ways_answer(ANSWER_PROVED, "%s", "");
		if (text && !strncmp(text, "fail ", 5))
			best = ways_failure(text + 5);
	}
	return best;
}

static struct answered ways_gpu_exports(struct host *host, const struct gpu *gpu)
{
	const char *exported = host_text(host, "cuda/%d/export/device", gpu->ordinal);
	int64_t supported;

	if (exported && !strcmp(exported, "ok"))
		return ways_answer(ANSWER_EXPECTED, "%s", "");
	if (driver_flavour(host) == FLAVOUR_PROPRIETARY)
		return ways_answer(ANSWER_NO, "the driver's kernel module is the proprietary one");
	if (exported)
		return ways_answer(ANSWER_NO, "%s cannot be exported: %s", gpu->label, exported);
	if (host_number(host, &supported, "cuda/%d/attribute/124", gpu->ordinal) && !supported)
		return ways_answer(ANSWER_NO,
				   "the driver has no dma-buf for %s (attribute 124 is 0)",
				   gpu->label);
	return ways_answer(ANSWER_UNKNOWN, "%s was not asked for a dma-buf", gpu->label);
}

static struct answered ways_adapter_takes(struct host *host, const struct adapter *adapter,
					  const char *probe)
{
	const char *error = host_text(host, "verbs/%s/%s", adapter->name, probe);

	if (error && !strcmp(error, "EBADF"))
		return ways_answer(ANSWER_EXPECTED, "%s", "");
	if (error && (!strcmp(error, "EOPNOTSUPP") || !strcmp(error, "EPROTONOSUPPORT") ||
		      !strcmp(error, "ENOSYS")))
		return ways_answer(ANSWER_NO, "%s takes no dma-buf (%s)", adapter->name, error);
	if (error)
		return ways_answer(ANSWER_UNKNOWN, "%s answers a dma-buf with %s", adapter->name,
				   error);
	return ways_answer(ANSWER_UNKNOWN, "%s was not asked whether it takes dma-buf",
			   adapter->name);
}

static struct answered ways_worse(struct answered one, struct answered other)
{
	return other.answer < one.answer ? other : one;
}

static struct answered ways_expect_peer_memory(struct host *host, const struct gpu *gpu)
{
	int64_t supported;

	if (host_number(host, &supported, "cuda/%d/attribute/116", gpu->ordinal) && !supported)
		return ways_answer(ANSWER_NO, "%s has no GPUDirect RDMA (attribute 116 is 0)",
				   gpu->label);
	if (peer_memory_client(host) && is_past_peer_memory(host, gpu))
		return ways_answer(
			ANSWER_UNKNOWN,
			"peer memory is not known to work from compute capability 10 on");
	if (peer_memory_client(host))
		return ways_answer(ANSWER_EXPECTED, "%s", "");
	if (!host_has(host, "/sys/module/"))
		return ways_answer(ANSWER_UNKNOWN, "/sys/module cannot be read");
	if (ways_clients_are_hidden(host))
		return ways_answer(ANSWER_UNKNOWN, "/sys/kernel/mm/memory_peers cannot be read");
	return ways_answer(ANSWER_NO, host_has(host, "/sys/module/nvidia_peermem/version")
					      ? "nvidia_peermem is loaded, but not registered"
					      : "no peer-memory module is loaded");
}

/* True if libibverbs listed the adapters and could not open this one. */
static bool ways_is_closed(struct host *host, const struct adapter *adapter)
{
	const char *ended = host_text(host, "verbs/ended");

	return ended && !strcmp(ended, "ok") &&
	       host_read(host, "verbs/%s/open", adapter->name)->error;
}

/* Answer for a GPU that is on the bus but hidden from CUDA. */
static struct answered ways_without_driver(struct host *host, const struct gpu *gpu)
{
	const char *ended = host_text(host, "cuda/ended");

	if (driver_flavour(host) == FLAVOUR_NONE)
		return ways_answer(ANSWER_NO, "no NVIDIA driver is loaded");
	if (ended && strcmp(ended, "ok"))
		return ways_answer(ANSWER_UNKNOWN, "asking the CUDA driver ended with %s", ended);
	return ways_answer(ANSWER_UNKNOWN, "the CUDA driver does not show the GPU %s", gpu->label);
}

struct answered way_between(struct host *host, const struct gpu *gpu, const struct adapter *adapter,
			    enum way way)
{
	struct answered found = ways_probed(host, gpu, adapter, way);

	if (adapter->software && found.answer != ANSWER_PROVED)
		return ways_answer(ANSWER_NO,
				   "%s is made of software, which does not reach GPU memory",
				   adapter->name);
	if (found.answer != ANSWER_UNKNOWN)
		return found;
	if (gpu->ordinal < 0)
		return ways_without_driver(host, gpu);
	if (ways_is_closed(host, adapter))
		return ways_answer(ANSWER_NO, "%s cannot be opened", adapter->name);
	if (way == WAY_PEER_MEMORY)
		return ways_expect_peer_memory(host, gpu);
	found = ways_worse(
		ways_gpu_exports(host, gpu),
		ways_adapter_takes(host, adapter,
				   way == WAY_DMA_BUF ? "dmabuf" : "dmabuf_data_direct"));
	return found;
}

/* ---- over methods, adapters, GPUs ---- */

struct answered ways_of_pair(struct host *host, const struct gpu *gpu,
			     const struct adapter *adapter)
{
	struct answered buffer = way_between(host, gpu, adapter, WAY_DMA_BUF);
	struct answered peer = way_between(host, gpu, adapter, WAY_PEER_MEMORY);
	struct answered best = peer.answer > buffer.answer ? peer : buffer;

	if (best.answer == ANSWER_NO && strcmp(buffer.reason, peer.reason))
		return ways_answer(ANSWER_NO, "dma-buf: %.120s; peermem: %.120s", buffer.reason,
				   peer.reason);
	if (best.answer == ANSWER_NO || adapter->ports == PORTS_ACTIVE)
		return best;
	if (adapter->ports == PORTS_INACTIVE)
		return ways_answer(ANSWER_NO, "%s%s has no active port",
				   best.answer == ANSWER_PROVED ? "memory is registered, but " : "",
				   adapter->name);
	if (best.answer == ANSWER_UNKNOWN)
		return best;
	return ways_answer(ANSWER_UNKNOWN, "whether a port of %s is active could not be read",
			   adapter->name);
}

const struct adapter *adapter_of_gpu(struct host *host, const struct gpu *gpu,
				     struct answered *answered)
{
	const struct machine *machine = machine_of(host);
	const struct adapter *best = NULL;
	long best_rank = -1;

	*answered = ways_answer(ANSWER_NO, "there is no RDMA adapter");
	for (unsigned int i = 0; i < machine->adapter_count; i++) {
		const struct adapter *adapter = &machine->adapters[i];
		struct answered now = ways_of_pair(host, gpu, adapter);
		long rank = now.answer * 100 + (adapter->ports == PORTS_ACTIVE) * 50 +
			    !adapter->software * 20 +
			    (PCI_PATH_UNKNOWN - distance_between(gpu, adapter));

		if (rank > best_rank) {
			best_rank = rank;
			best = adapter;
			*answered = now;
		}
	}
	if (!best && !machine->adapters_are_known)
		*answered = ways_answer(ANSWER_UNKNOWN, "/sys/class/infiniband cannot be read");
	return best;
}

/* True if each GPU has an adapter with at least this answer. */
static bool ways_reach_all(struct host *host, enum way way, enum answer least)
{
	const struct machine *machine = machine_of(host);

	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		bool works = false;

		for (unsigned int j = 0; !works && j < machine->adapter_count; j++)
			works = way_between(host, &machine->gpus[i], &machine->adapters[j], way)
					.answer >= least;
		if (!works)
			return false;
	}
	return machine->gpu_count > 0;
}

bool way_suffices(struct host *host, enum way way)
{
	return ways_reach_all(host, way, ANSWER_EXPECTED);
}

bool way_is_open(struct host *host, enum way way)
{
	return ways_reach_all(host, way, ANSWER_UNKNOWN);
}

bool every_gpu_works(struct host *host)
{
	const struct machine *machine = machine_of(host);
	struct answered answered;

	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		adapter_of_gpu(host, &machine->gpus[i], &answered);
		if (answered.answer != ANSWER_PROVED)
			return false;
	}
	return machine->gpu_count > 0;
}
