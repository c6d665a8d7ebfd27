/* SPDX-License-Identifier: BSD-3-Clause */
/* facts.c -- values of the host and its parts that a function computes, and the subjects of rules
 *
 * Without root the kernel shows 64 bytes of a device's configuration space; the capabilities lie
 * behind them. A text is NULL where the value is not there.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pci.h"
#include "base/text.h"
#include "tools/doctor/rules.h"
#include "tools/records.h"
#include "tools/units.h"

#define GIB		 (1LL << 30)
#define CLASS		 "/sys/class/infiniband"
#define CAP_SYS_RESOURCE 24

/* ---- numbers and words ---- */

#define NUMBER(number) text_of("%lld", (long long)(number))

/* 0: the value is no number. */
static int64_t facts_number(const struct subject *subject, const char *name)
{
	int64_t number;

	return value_number(subject, name, &number) ? number : 0;
}

/* NULL for 0. */
static const char *facts_count(int64_t number)
{
	return number ? NUMBER(number) : NULL;
}

/* "1" if both values are there, and differ. */
static const char *facts_differ(const struct subject *subject, const char *name, const char *other)
{
	const char *one = value_of(subject, name), *two = value_of(subject, other);

	return truth(one && two && strcmp(one, two));
}

/* Seconds. */
static int64_t facts_time_limit(struct host *host)
{
	int64_t limit;

	return host_number(host, &limit, "option/limit") ? limit : HOST_LIMIT;
}

/* ---- subjects ---- */

bool next_host(struct subject *subject)
{
	return !subject->number++;
}

bool next_gpu(struct subject *subject)
{
	const struct machine *machine = machine_of(subject->host);

	if (subject->number == machine->gpu_count)
		return false;
	subject->gpu = &machine->gpus[subject->number++];
	subject->item = subject->gpu->label;
	return true;
}

bool next_adapter(struct subject *subject)
{
	const struct machine *machine = machine_of(subject->host);

	if (subject->number == machine->adapter_count)
		return false;
	subject->adapter = &machine->adapters[subject->number++];
	subject->item = subject->adapter->name;
	return true;
}

bool next_device(struct subject *subject)
{
	const struct machine *machine = machine_of(subject->host);
	unsigned int number;

	while ((number = subject->number++) < machine->gpu_count + machine->adapter_count) {
		bool is_gpu = number < machine->gpu_count;

		subject->gpu = is_gpu ? &machine->gpus[number] : NULL;
		subject->adapter = is_gpu ? NULL : &machine->adapters[number - machine->gpu_count];
		subject->item = is_gpu ? subject->gpu->label : subject->adapter->name;
		if (*(subject->gpu ? subject->gpu->pci : subject->adapter->pci))
			return true;
	}
	return false;
}

bool next_preload(struct subject *subject)
{
	static const char *const sources[] = { "LD_PRELOAD", "/etc/ld.so.preload" };
	const char *lists[] = {
		host_text(subject->host, "environment/LD_PRELOAD"),
		reading_text(host_read(subject->host, "/etc/ld.so.preload")),
	};
	unsigned int number = 0;

	for (int i = 0; i < 2; i++) {
		char *copy = text_of("%s", lists[i] ? lists[i] : ""), *rest = NULL, *word;

		while ((word = strtok_r(copy, " :\n\t", &rest))) {
			copy = NULL;
			if (number++ < subject->number)
				continue;
			subject->number++;
			subject->line = word;
			subject->more = sources[i];
			return true;
		}
	}
	return false;
}

/* ---- the driver ---- */

/* "550.54.15": the module's version, or else from /proc/driver/nvidia/version: the number after
 * "Kernel Module". */
static const char *facts_driver(const struct subject *subject)
{
	const char *text = host_text(subject->host, "/sys/module/nvidia/version"), *at;

	if (text)
		return text;
	text = host_text(subject->host, "/proc/driver/nvidia/version");
	for (at = text ? strstr(text, "Kernel Module") : NULL; at && *at && *at != '\n'; at++) {
		if (at[0] == ' ' && text_is_digit(at[1]))
			return text_of("%.*s", (int)strspn(at + 1, "0123456789."), at + 1);
	}
	return text ? "" : NULL;
}

static const char *facts_flavour(const struct subject *subject)
{
	static const char *const names[] = { "none", "open", "proprietary", "unknown" };

	return names[driver_flavour(subject->host)];
}

static const char *facts_cuda(const struct subject *subject)
{
	int64_t version;

	if (!host_number(subject->host, &version, "cuda/driver_version"))
		return NULL;
	return text_of("%d.%d", (int)version / 1000, (int)version % 1000 / 10);
}

/* ---- peer memory ---- */

/* Folders of modules-load.d(5). */
static const char *facts_loaded_at_boot(const struct subject *subject)
{
	static const char *const folders[] = { "/etc", "/run", "/usr/lib" };
	char name[128], line[128];

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		const char *names = host_text(subject->host, "%s/modules-load.d/", folders[i]);

		while (host_line(&names, name, sizeof(name))) {
			const char *text =
				host_text(subject->host, "%s/modules-load.d/%s", folders[i], name);

			while (host_line(&text, line, sizeof(line))) {
				if (!strchr("#;", line[strspn(line, " \t")]) &&
				    (strstr(line, "nvidia-peermem") ||
				     strstr(line, "nvidia_peermem")))
					return "1";
			}
		}
	}
	return NULL;
}

/* ---- BAR1 ---- */

/* "128 GiB" */
static const char *facts_size(int64_t bytes)
{
	return bytes >= GIB ? text_of("%lld GiB", (long long)(bytes / GIB))
			    : text_of("%lld MiB", (long long)bytes >> 20);
}

struct bar1 bar1_of(struct host *host, const struct gpu *gpu)
{
	const char *resource =
		*gpu->pci ? host_text(host, "/sys/bus/pci/devices/%s/resource", gpu->pci) : NULL;
	const char *nvml = gpu->ordinal >= 0 ? host_text(host, "cuda/%d/bar1", gpu->ordinal) : NULL;
	struct bar1 bar1 = { .unassigned = resource && *resource };
	long long total = 0;

	if (resource)
		bar1.bytes = (long long)pci_resource_bar1(resource);
	if (nvml && sscanf(nvml, "%lld %lld", &total, &bar1.used) > 0 && !bar1.bytes)
		bar1.bytes = total;
	bar1.unassigned &= !bar1.bytes;
	return bar1;
}

/* Size of BAR1 in use, if it is above this part of the whole. */
static const char *facts_bar1_used(struct host *host, const struct gpu *gpu, int eighths)
{
	struct bar1 bar1 = bar1_of(host, gpu);

	return bar1.used > bar1.bytes / 8 * eighths ? facts_size(bar1.used) : NULL;
}

/* ---- kinds of memory ---- */

static const struct kind {
	const char *name, *words;
} kinds[] = { { "mapped", "VMM" },
	      { "mapped_plain", "VMM without gpuDirectRDMACapable" },
	      { "pool", "pool" },
	      { "device_pcie", "PCIe mapping" } };

static const char *facts_unexported(const struct subject *subject)
{
	char *list = NULL;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const char *result = host_text(subject->host, "cuda/%d/export/%s",
					       subject->gpu->ordinal, kinds[i].name);

		if (result && strcmp(result, "ok"))
			list_append(&list, ", ", kinds[i].words);
	}
	return list;
}

static const char *facts_incapable(const struct subject *subject)
{
	char *list = NULL;
	int64_t capable;

	for (size_t i = 1; i < 3; i++) {
		if (host_number(subject->host, &capable, "cuda/%d/capable/%s",
				subject->gpu->ordinal, kinds[i].name) &&
		    !capable)
			list_append(&list, ", ", kinds[i].words);
	}
	return list;
}

/* ---- subjects ---- */

/* The ports of each adapter in turn. `line`: the port; NULL: sysfs does not list them. */
bool next_port(struct subject *subject)
{
	static char port[16];
	static const char *rest;

	while (!subject->line || !host_line(&rest, port, sizeof(port))) {
		subject->line = NULL;
		if (!next_adapter(subject))
			return false;
		rest = host_text(subject->host, CLASS "/%s/ports/", subject->adapter->name);
		if (!rest)
			return true;
		subject->line = port;
	}
	subject->item = strcmp(port, "1") ? text_of("%s:%s", subject->adapter->name, port)
					  : subject->adapter->name;
	return true;
}

bool next_uverbs(struct subject *subject)
{
	const char *at = reading_text(host_read(subject->host, "/dev/infiniband/"));
	unsigned int number = 0;
	char name[64];

	while (host_line(&at, name, sizeof(name))) {
		if (strncmp(name, "uverbs", 6) || number++ < subject->number)
			continue;
		subject->number++;
		subject->item = subject->line = text_of("%s", name);
		return true;
	}
	return false;
}

/* ---- adapters ---- */

static const char *facts_hardware(const struct subject *subject)
{
	EACH_ADAPTER(subject->host, adapter) {
		if (!adapter->software)
			return "1";
	}
	return NULL;
}

static unsigned int facts_rdma_inactive(struct host *host)
{
	unsigned int count = 0;

	EACH_ADAPTER(host, adapter)
		count += adapter->ports == PORTS_INACTIVE;
	return count;
}

static const char *facts_slow_link(const struct subject *subject)
{
	const char *speed = value_of(subject, "link_speed");
	const char *most = value_of(subject, "max_link_speed");
	int64_t width, widest;
	bool narrow = value_number(subject, "link_width", &width) &&
		      value_number(subject, "max_link_width", &widest) && width < widest;

	return truth(narrow || (speed && most && atof(speed) < atof(most)));
}

/* ---- libibverbs ---- */

static const char *facts_uverbs_open(const struct subject *subject)
{
	const struct reading *adapter =
		host_read(subject->host, "/sys/class/infiniband_verbs/%s/ibdev", subject->line);
	int error = adapter->error
			    ? ENOENT
			    : host_read(subject->host, "verbs/%s/open", adapter->text)->error;

	return error == ENOENT ? NULL : error ? text_of("%s", host_error_name(error)) : "ok";
}

static const char *facts_opened_adapter(const struct subject *subject)
{
	EACH_ADAPTER(subject->host, adapter) {
		if (!host_read(subject->host, "verbs/%s/open", adapter->name)->error)
			return adapter->name;
	}
	return NULL;
}

/* ---- limits of the process ---- */

/* True if this process has the capability in the initial user namespace: limits of the kernel
 * accept no other. */
static bool facts_limits_has_capability(struct host *host, int capability)
{
	const char *status = host_text(host, "/proc/self/status");
	const char *map = host_text(host, "/proc/self/uid_map");
	const char *at = status ? strstr(status, "CapEff:") : NULL;
	unsigned long long effective = 0, inside = 1, outside = 1, count = 0;

	if (!at || sscanf(at, "CapEff: %llx", &effective) != 1 || !map ||
	    sscanf(map, "%llu %llu %llu", &inside, &outside, &count) != 3)
		return false;
	return (effective >> capability & 1) && !inside && !outside && count == 4294967295ULL;
}

/* The limit that the user can set in a shell, at most `wanted`: the hard limit bounds it, unless
 * CAP_SYS_RESOURCE lifts that. The soft limit: nothing higher, or the hard limit is not known. */
static int64_t facts_limits_reach(struct host *host, const char *name, int64_t wanted)
{
	const struct reading *hard = host_read(host, "limits/%s/hard", name);
	int64_t soft = 0, most;

	host_number(host, &soft, "limits/%s", name);
	most = soft;
	if (!hard->error && !strcmp(hard->text, "unlimited"))
		most = wanted;
	else if (!reading_number(hard, &most))
		most = soft;
	if (most < wanted && facts_limits_has_capability(host, CAP_SYS_RESOURCE))
		most = wanted;
	return most < soft ? soft : most < wanted ? most : wanted;
}

static const char *facts_memlock_size(const struct subject *subject)
{
	int64_t bytes;

	if (!value_number(subject, "memlock", &bytes))
		return "unlimited";
	return bytes < 1 << 20 ? text_of("%lld KiB", (long long)bytes >> 10)
			       : text_of("%lld MiB", (long long)bytes >> 20);
}

static const char *facts_memlock_reach(const struct subject *subject)
{
	int64_t most = facts_limits_reach(subject->host, "memlock", INT64_MAX);

	return most == INT64_MAX ? "unlimited" : NUMBER(most >> 10);
}

/* Error of registering 2 MiB of host memory: 0 with an adapter; ENOMEM with none, and refused by
 * one; ENOENT: not tried. */
static int facts_limits_host_error(struct host *host)
{
	int error = ENOENT;

	EACH_ADAPTER(host, adapter) {
		const struct reading *tried = host_read(host, "verbs/%s/host", adapter->name);

		if (!tried->error)
			return 0;
		error = tried->error == ENOMEM ? ENOMEM : error;
	}
	return error;
}

/* ---- cgroups ---- */

/* Lines of rdma.max with a limit, of the cgroup and those above. `more`: the cgroup. */
bool next_cgroup(struct subject *subject)
{
	const char *at = host_text(subject->host, "/proc/self/cgroup");
	unsigned int number = 0;
	char path[512], line[256], *cgroup = path + 3;
	bool own = true;

	while (host_line(&at, path, sizeof(path)) && strncmp(path, "0::", 3))
		;
	if (!at || strncmp(path, "0::/", 4))
		return false;
	for (; *cgroup && strcmp(cgroup, "/"); own = false, *strrchr(cgroup, '/') = '\0') {
		const char *device = host_text(subject->host, "/sys/fs/cgroup%s/rdma.max", cgroup);

		while (host_line(&device, line, sizeof(line))) {
			if (strstr(line, "=max hca_object=max") || number++ < subject->number)
				continue;
			subject->number++;
			subject->line = text_of("%s", line);
			subject->more = own ? NULL : text_of("%s", cgroup);
			return true;
		}
	}
	return false;
}

/* ---- limits of the adapters ---- */

static const char *facts_largest_memory(const struct subject *subject)
{
	int64_t most = 0, bytes;

	EACH_GPU(subject->host, gpu) {
		if (host_number(subject->host, &bytes, "cuda/%d/memory", gpu->ordinal) &&
		    bytes > most)
			most = bytes;
	}
	return NUMBER(most);
}

/* ---- a job ---- */

bool job_record(struct host *host, const char *path)
{
	struct records records = { 0 };
	int64_t bytes = 0, regions = 0;
	size_t i;

	records_read(&records, path);
	records_print_problems(&records, "peerpin doctor");
	for (i = 0; i < records.count; i++) {
		int64_t registrations = record_number(&records.list[i], "registrations");
		int64_t peak = record_number(&records.list[i], "pinned_bytes_peak");

		regions = registrations > regions ? registrations : regions;
		bytes = peak > bytes ? peak : bytes;
	}
	host_record(host, "job/processes", "%zu", records.count);
	host_record(host, "job/bytes", "%lld", (long long)bytes);
	host_record(host, "job/regions", "%lld", (long long)regions);
	i = records.count;
	records_free(&records);
	return i > 0;
}

static int64_t facts_limits_job_mib(const struct subject *subject)
{
	int64_t bytes = facts_number(subject, "job_bytes");

	return (bytes + (1 << 20) - 1) >> 20;
}

static int64_t facts_limits_free_mib(const struct subject *subject)
{
	struct bar1 bar1 = bar1_of(subject->host, subject->gpu);

	return (bar1.bytes - bar1.used) >> 20;
}

/* ---- pairs ---- */

bool next_pair(struct subject *subject)
{
	struct support support;

	if (!next_gpu(subject))
		return false;
	subject->adapter = adapter_of_gpu(subject->host, subject->gpu, &support);
	subject->item = subject->adapter ? pair_name(subject->gpu, subject->adapter) : NULL;
	return true;
}

/* The first adapter that is closer to the GPU than the one to use; NULL: none. */
static const struct adapter *facts_path_closer(struct host *host, const struct gpu *gpu,
					       const struct adapter *chosen)
{
	EACH_ADAPTER(host, other) {
		if (distance_between(gpu, other) < distance_between(gpu, chosen))
			return other;
	}
	return NULL;
}

bool next_closer(struct subject *subject)
{
	while (next_pair(subject)) {
		subject->adapter = facts_path_closer(subject->host, subject->gpu, subject->adapter);
		if (!subject->adapter)
			continue;
		subject->item = subject->adapter->name;
		return true;
	}
	return false;
}

/* True if a GPU is, or is not, far from the closest adapter. */
static bool facts_path_has(struct host *host, bool far)
{
	struct support support;

	EACH_GPU(host, gpu) {
		const struct adapter *chosen = adapter_of_gpu(host, gpu, &support);

		if (far == (distance_between(gpu, chosen) == PCI_PATH_SYS &&
			    !facts_path_closer(host, gpu, chosen)))
			return true;
	}
	return false;
}

/* ---- IOMMU ---- */

/* The kernel's command line has one of these options on: the last value counts. */
static const char *facts_passthrough(const struct subject *subject)
{
	static const struct {
		const char *on, *off;
	} options[] = { { "iommu=pt", "iommu=nopt" },
			{ "iommu.passthrough=1", "iommu.passthrough=0" },
			{ "intel_iommu=off", "intel_iommu=on" },
			{ "amd_iommu=off", "amd_iommu=on" } };
	const char *line = host_text(subject->host, "/proc/cmdline");
	bool any = false;

	for (size_t i = 0; line && i < sizeof(options) / sizeof(options[0]); i++) {
		bool on = false;

		for (const char *at = line; *at; at += strcspn(at, " ")) {
			at += strspn(at, " ");
			if (!strncmp(at, options[i].on, strlen(options[i].on)))
				on = true;
			else if (!strncmp(at, options[i].off, strlen(options[i].off)))
				on = false;
		}
		any |= on;
	}
	return truth(any);
}

/* ---- ACS ---- */

#define HEADER_BYTES   64
#define FIRST_EXTENDED 0x100
#define EXTENDED_ACS   0x000d
#define ACS_CONTROL    6
/* bits that send peer traffic upstream: request redirect, completion redirect, egress control */
#define ACS_REDIRECTS (0x04 | 0x08 | 0x20)

static unsigned int facts_path_word(const struct reading *config, size_t at)
{
	const unsigned char *bytes = (const unsigned char *)config->text;

	return at + 1 < config->length ? bytes[at] | (unsigned int)bytes[at + 1] << 8 : 0;
}

/* Offset of an extended capability; 0: absent. */
static size_t facts_path_find_extended(const struct reading *config, unsigned int id)
{
	size_t at = FIRST_EXTENDED;

	for (unsigned int turns = 0;
	     at >= FIRST_EXTENDED && at + 4 <= config->length && turns < 256; turns++) {
		if (facts_path_word(config, at) == id)
			return at;
		at = facts_path_word(config, at + 2) >> 4;
	}
	return 0;
}

static void facts_path_add_once(char **list, const char *pci)
{
	if (!*list || !strstr(*list, pci))
		list_add(list, pci);
}

/* Adds each bridge between GPU and adapter that redirects or hides its capabilities.
 * Returns the number of bridges. */
static unsigned int facts_path_bridges(struct host *host, const struct gpu *gpu,
				       const struct adapter *adapter, char **redirecting,
				       char **hidden)
{
	char bridges[BRIDGES_SIZE], pci[24];
	const char *at = bridges;
	unsigned int seen = 0;

	for (bridges_between(gpu, adapter, bridges); host_line(&at, pci, sizeof(pci)); seen++) {
		const struct reading *config =
			host_read(host, "/sys/bus/pci/devices/%s/config", pci);
		size_t acs = facts_path_find_extended(config, EXTENDED_ACS);

		if (config->error || config->length <= HEADER_BYTES)
			facts_path_add_once(hidden, pci);
		else if (acs && (facts_path_word(config, acs + ACS_CONTROL) & ACS_REDIRECTS))
			facts_path_add_once(redirecting, pci);
	}
	return seen;
}

/* The first 4 words of the list, and the number of the others. */
static const char *facts_path_shorten(const char *list)
{
	unsigned int words = 1;
	size_t length = 0;

	for (const char *at = list; at && *at; at++) {
		if (*at == ' ' && words++ == 4)
			length = (size_t)(at - list);
	}
	return words > 4 ? text_of("%.*s +%u", (int)length, list, words - 4) : list;
}

/* Bridges between each GPU and its adapter, as lists of words. */
struct bridges {
	bool known; /* a path */
	bool seen;
	char *redirecting;
	char *hidden; /* their capabilities cannot be read */
};

static struct bridges facts_path_bridges_of(struct host *host)
{
	struct bridges bridges = { .known = false };
	struct support support;

	EACH_GPU(host, gpu) {
		const struct adapter *chosen = adapter_of_gpu(host, gpu, &support);
		enum pci_path distance = chosen ? distance_between(gpu, chosen) : PCI_PATH_UNKNOWN;

		bridges.known |= distance != PCI_PATH_UNKNOWN;
		if (distance <= PCI_PATH_PHB)
			bridges.seen |= facts_path_bridges(host, gpu, chosen, &bridges.redirecting,
							   &bridges.hidden);
	}
	return bridges;
}

static const char *facts_path_first(const char *list)
{
	return list ? text_of("%.*s", (int)strcspn(list, " "), list) : NULL;
}

/* ---- the table ---- */

#define FACT(name, expression)                                                                     \
	static const char *fact_##name(const struct subject *subject)                              \
	{                                                                                          \
		struct host *host = subject->host;                                                 \
		struct finding *finding = subject->finding;                                        \
		const struct gpu *gpu = subject->gpu;                                              \
		const struct adapter *adapter = subject->adapter;                                  \
                                                                                                   \
		(void)host, (void)finding, (void)gpu, (void)adapter;                               \
		return expression;                                                                 \
	}
#include "tools/doctor/facts.def"
#undef FACT

const struct fact facts[] = {
#define FACT(name, expression) { #name, fact_##name },
#include "tools/doctor/facts.def"
#undef FACT
	{ NULL, NULL },
};
