/* SPDX-License-Identifier: BSD-3-Clause */
/* methods.c -- registration methods of each pair: proved by the probe, or expected from readings */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/machine.h"
#include "tools/units.h"

#define SUPPORT(level, reason) ((struct support){ level, reason })
#define EXPECTED	       SUPPORT(SUPPORT_EXPECTED, "")
#define NO(...)		       SUPPORT(SUPPORT_NO, text_of(__VA_ARGS__))
#define UNKNOWN(...)	       SUPPORT(SUPPORT_UNKNOWN, text_of(__VA_ARGS__))

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

bool is_past_peer_memory(struct host *host, const struct gpu *gpu)
{
	const char *compute = host_text(host, "cuda/%d/compute", gpu->ordinal);

	return compute && atoi(compute) >= 10 && !proof_of(host, gpu, NULL, METHOD_PEER_MEMORY);
}

bool gpu_is_integrated(struct host *host, const struct gpu *gpu)
{
	int64_t integrated;

	return gpu->ordinal >= 0 &&
	       host_number(host, &integrated, "cuda/%d/attribute/18", gpu->ordinal) && integrated;
}

bool gpus_are_integrated(struct host *host)
{
	EACH_GPU(host, gpu) {
		if (!gpu_is_integrated(host, gpu))
			return false;
	}
	return machine_of(host)->gpu_count > 0;
}

const char *end_words(const char *ended)
{
	const char *number = strpbrk(ended, "0123456789");
	size_t digits = number ? strspn(number, "0123456789") : 0;

	if (number && !strncmp(ended, "timeout", 7))
		return text_of("exceeded %.*s s%s", (int)digits, number, number + digits);
	if (number && !strncmp(ended, "exit", 4))
		return text_of("exited with status %s", number);
	return text_of("was killed by %s", ended);
}

bool is_unsupported(const char *error)
{
	return !strcmp(error, "EOPNOTSUPP") || !strcmp(error, "EPROTONOSUPPORT") ||
	       !strcmp(error, "ENOSYS");
}

const struct reading *peer_memory_client(struct host *host)
{
	return host_read_noting(host, "/sys/kernel/mm/memory_peers/nv_mem/version");
}

bool failed_as_integrated(struct host *host, const struct gpu *gpu, const char *failure)
{
	const struct reading *integrated = host_read(host, "cuda/%d/attribute/18", gpu->ordinal);

	if (!gpu_is_integrated(host, gpu) && !reading_is_refused(integrated))
		return false;
	return strstr(failure, "cuMemGetHandleForAddress") || strstr(failure, "ibv_reg_mr EFAULT");
}

/* ---- meanings of failed calls ---- */

/* First row with both parts in the failure applies; "" matches everything. */
static const struct meaning meanings[] = {
	{ "dmabuf", "ENOTSUPP", "the kernel refuses the PCIe path between them",
	  "peerpin doctor --only path --verbose; then another adapter, or nvidia-peermem" },
	{ "dmabuf", "EOPNOTSUPP", "the adapter's driver has no dma-buf", NULL },
	{ "dmabuf", "EPROTONOSUPPORT", "the adapter's driver has no dma-buf", NULL },
	{ "dmabuf", "ENOMEM", "no room: RLIMIT_MEMLOCK, BAR1 or the adapter's tables",
	  "peerpin doctor --only limits,bar1" },
	{ "cuMemGetHandleForAddressRange", "", "the driver exports no dma-buf", NULL },
	{ "ibv_reg_mr", "EFAULT", "no peer-memory client accepts it", NULL },
	{ "ibv_reg_mr", "ENOMEM", "no room: RLIMIT_MEMLOCK, BAR1 or the adapter's tables",
	  "peerpin doctor --only limits,bar1" },
	{ "ibv_reg_mr", "EINVAL", "the access flags are refused, or the GPU's pages are not 64 KiB",
	  "peerpin doctor --only kernel-log" },
	{ "ibv_open_device", "", "the adapter cannot be opened", "peerpin doctor --only uverbs" },
	{ "cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", "the GPU has no 64 MiB left",
	  "nvidia-smi (processes that use it)" },
	{ "timeout", "", "it did not end in time", "dmesg | tail (as root)" },
	{ "", "EINVAL", "the access flags or the range are refused",
	  "peerpin doctor --verbose --dump host.txt" },
	{ "", "", "", "peerpin doctor --verbose --dump host.txt, and read it" },
};

const struct meaning *meaning_of(const char *failure)
{
	size_t i = 0;

	while (!strstr(failure, meanings[i].call) || !strstr(failure, meanings[i].error))
		i++;
	return &meanings[i];
}

/* ---- one method ---- */

const struct reading *probe_reading(struct host *host, const struct gpu *gpu,
				    const struct adapter *adapter, enum method method,
				    const char *name)
{
	return host_read(host, "probe/%d/%s/%s/%s", gpu->ordinal, adapter->name,
			 method_name(method), name);
}

const char *probe_text(struct host *host, const struct gpu *gpu, const struct adapter *adapter,
		       enum method method, const char *name, const char *begin)
{
	const char *text = host_text(host, "probe/%d/%s/%s/%s", gpu->ordinal, adapter->name,
				     method_name(method), name);
	size_t length = strlen(begin);

	if (!text || strncmp(text, begin, length))
		return NULL;
	return text + length + (text[length] == ' ');
}

const char *transfer_failure(struct host *host, const struct gpu *gpu,
			     const struct adapter *adapter, enum method method)
{
	/* EOPNOTSUPP: no transfer was possible; the memory is neither good nor bad. */
	if (probe_reading(host, gpu, adapter, method, "transfer")->error == EOPNOTSUPP)
		return NULL;
	return probe_text(host, gpu, adapter, method, "transfer", "fail");
}

/* "the adapter's driver has no dma-buf (EOPNOTSUPP)" */
static struct support methods_failure(const char *text)
{
	const struct meaning *meaning = meaning_of(text);
	const char *error = strrchr(text, ' ');

	if (!*meaning->words || !error)
		return SUPPORT(SUPPORT_NO, text);
	return NO("%s (%s)", meaning->words, error + 1);
}

/* Result of the probe for any size. UNKNOWN: not tried. */
static struct support methods_probed(struct host *host, const struct gpu *gpu,
				     const struct adapter *adapter, enum method method)
{
	static const char *const sizes[] = { PROBE_LARGE, PROBE_SMALL };
	const char *broken = transfer_failure(host, gpu, adapter, method);
	struct support best = SUPPORT(SUPPORT_UNKNOWN, "nothing was registered");

	for (size_t i = 0; gpu->ordinal >= 0 && i < 2; i++) {
		const char *failure = probe_text(host, gpu, adapter, method, sizes[i], "fail");

		if (probe_text(host, gpu, adapter, method, sizes[i], "ok"))
			return broken ? NO("data does not arrive in memory that was registered")
				      : SUPPORT(SUPPORT_PROVED, "");
		if (failure && !failed_as_integrated(host, gpu, failure))
			best = methods_failure(failure);
	}
	return best;
}

static struct support methods_gpu_exports(struct host *host, const struct gpu *gpu)
{
	const char *exported = host_text(host, "cuda/%d/export/device", gpu->ordinal);
	int64_t supported;

	if (exported && !strcmp(exported, "ok"))
		return EXPECTED;
	if (gpu_is_integrated(host, gpu))
		return NO("%s is integrated", gpu->label);
	if (driver_flavour(host) == FLAVOUR_PROPRIETARY)
		return NO("the driver's kernel module is the proprietary one");
	if (exported)
		return NO("%s cannot be exported: %s", gpu->label, exported);
	if (host_number(host, &supported, "cuda/%d/attribute/124", gpu->ordinal) && !supported)
		return NO("the driver has no dma-buf for %s (attribute 124 is 0)", gpu->label);
	return UNKNOWN("no dma-buf of %s was requested", gpu->label);
}

static struct support methods_adapter_takes(struct host *host, const struct adapter *adapter,
					    const char *probe)
{
	const char *error = host_text(host, "verbs/%s/%s", adapter->name, probe);

	if (error && !strcmp(error, "EBADF"))
		return EXPECTED;
	if (error && is_unsupported(error))
		return NO("%s has no dma-buf (%s)", adapter->name, error);
	if (error)
		return UNKNOWN("%s rejects a dma-buf with %s", adapter->name, error);
	return UNKNOWN("dma-buf support of %s was not queried", adapter->name);
}

static struct support methods_expect_peer_memory(struct host *host, const struct gpu *gpu)
{
	const struct reading *client = peer_memory_client(host);
	int64_t supported;

	if (gpu_is_integrated(host, gpu))
		return UNKNOWN("%s is integrated, and none of its host memory was registered",
			       gpu->label);
	if (host_number(host, &supported, "cuda/%d/attribute/116", gpu->ordinal) && !supported)
		return NO("%s has no GPUDirect RDMA (attribute 116 is 0)", gpu->label);
	if (!client->error && is_past_peer_memory(host, gpu))
		return UNKNOWN("peer memory is unproven from compute capability 10 on");
	if (!client->error)
		return EXPECTED;
	if (!host_has(host, "/sys/module/"))
		return UNKNOWN("/sys/module cannot be read");
	if (reading_is_refused(client))
		return UNKNOWN("/sys/kernel/mm/memory_peers cannot be read");
	return NO(host_has(host, "/sys/module/nvidia_peermem/version")
			  ? "nvidia_peermem is loaded, but not registered"
			  : "no peer-memory module is loaded");
}

/* True if libibverbs listed the adapters and could not open this one. Without time nothing was
 * tried. */
static bool methods_is_closed(struct host *host, const struct adapter *adapter)
{
	const char *ended = host_text(host, "verbs/ended");

	return ended && !strcmp(ended, "ok") &&
	       host_read(host, "verbs/%s/ended", adapter->name)->error != ETIME &&
	       host_read(host, "verbs/%s/open", adapter->name)->error;
}

/* Support for a GPU that is on the bus but hidden from CUDA. */
static struct support methods_without_driver(struct host *host, const struct gpu *gpu)
{
	const char *ended = host_text(host, "cuda/ended");

	if (driver_flavour(host) == FLAVOUR_NONE)
		return NO("no NVIDIA driver is loaded");
	if (ended && strcmp(ended, "ok"))
		return UNKNOWN("the CUDA probe process %s", end_words(ended));
	return UNKNOWN("the CUDA driver does not list GPU %s", gpu->label);
}

struct support support_between(struct host *host, const struct gpu *gpu,
			       const struct adapter *adapter, enum method method)
{
	struct support found = methods_probed(host, gpu, adapter, method), exports, takes;

	if (adapter->software && found.level != SUPPORT_PROVED)
		return NO("%s is a software adapter, which cannot access GPU memory",
			  adapter->name);
	if (found.level != SUPPORT_UNKNOWN)
		return found;
	if (gpu->ordinal < 0)
		return methods_without_driver(host, gpu);
	if (methods_is_closed(host, adapter))
		return NO("%s cannot be opened", adapter->name);
	if (method == METHOD_PEER_MEMORY)
		return methods_expect_peer_memory(host, gpu);
	exports = methods_gpu_exports(host, gpu);
	takes = methods_adapter_takes(host, adapter,
				      method == METHOD_DMA_BUF ? "dmabuf" : "dmabuf_data_direct");
	return takes.level < exports.level ? takes : exports;
}

/* ---- over methods, adapters, GPUs ---- */

/* Unreadable data only leave the measurement out: they cast no doubt on the caller's check. */
const char *proof_of(struct host *host, const struct gpu *gpu, const struct adapter *adapter,
		     enum method method)
{
	char *before = host_take_refused(host);
	bool proved = false;

	EACH_GPU(host, one) {
		EACH_ADAPTER(host, other) {
			for (enum method way = 0; way < METHODS; way++)
				proved |= (!gpu || one == gpu) && (!adapter || other == adapter) &&
					  (method == METHODS || way == method) &&
					  methods_probed(host, one, other, way).level ==
						  SUPPORT_PROVED;
		}
	}
	host_take_refused(host);
	host_note_refused(host, before);
	return proved ? "the probe registered memory" : NULL;
}

static struct support methods_of_pair(struct host *host, const struct gpu *gpu,
				      const struct adapter *adapter)
{
	struct support buffer = support_between(host, gpu, adapter, METHOD_DMA_BUF);
	struct support peer = support_between(host, gpu, adapter, METHOD_PEER_MEMORY);
	struct support best = peer.level > buffer.level ? peer : buffer;

	if (best.level == SUPPORT_NO && strcmp(buffer.reason, peer.reason))
		return NO("dma-buf: %.120s; peermem: %.120s", buffer.reason, peer.reason);
	if (best.level == SUPPORT_NO || adapter->ports == PORTS_ACTIVE)
		return best;
	if (adapter->ports == PORTS_INACTIVE)
		return NO("%s%s has no active port",
			  best.level == SUPPORT_PROVED ? "memory is registered, but " : "",
			  adapter->name);
	if (best.level == SUPPORT_UNKNOWN)
		return best;
	return UNKNOWN("whether a port of %s is active could not be read", adapter->name);
}

const struct adapter *adapter_of_gpu(struct host *host, const struct gpu *gpu,
				     struct support *support)
{
	const struct adapter *best = NULL;
	long best_rank = -1;

	*support = NO("there is no RDMA adapter");
	EACH_ADAPTER(host, adapter) {
		struct support now = methods_of_pair(host, gpu, adapter);
		long rank = now.level * 100 + (adapter->ports == PORTS_ACTIVE) * 50 +
			    !adapter->software * 20 +
			    (PCI_PATH_UNKNOWN - distance_between(gpu, adapter));

		if (rank > best_rank) {
			best_rank = rank;
			best = adapter;
			*support = now;
		}
	}
	if (!best && !machine_of(host)->adapters_are_known)
		*support = UNKNOWN("/sys/class/infiniband cannot be read");
	return best;
}

/* True if each GPU has an adapter with at least this support. */
static bool methods_reach_all(struct host *host, enum method method, enum level least)
{
	EACH_GPU(host, gpu) {
		bool works = false;

		EACH_ADAPTER(host, adapter)
			works = works || support_between(host, gpu, adapter, method).level >= least;
		if (!works)
			return false;
	}
	return machine_of(host)->gpu_count > 0;
}

bool method_suffices(struct host *host, enum method method)
{
	return methods_reach_all(host, method, SUPPORT_EXPECTED);
}

bool method_is_open(struct host *host, enum method method)
{
	return methods_reach_all(host, method, SUPPORT_UNKNOWN);
}

bool every_gpu_works(struct host *host)
{
	struct support support;

	EACH_GPU(host, gpu) {
		adapter_of_gpu(host, gpu, &support);
		if (support.level != SUPPORT_PROVED)
			return false;
	}
	return machine_of(host)->gpu_count > 0;
}
