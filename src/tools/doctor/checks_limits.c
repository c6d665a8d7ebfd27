/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_limits.c -- checks of process limits where doctor runs; a job may have other limits */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/groups.h"

#define CAP_IPC_LOCK   14
#define MEMLOCK_LITTLE (1LL << 30) /* host buffers of one job reach this size */
#define FILES_FEW      1024
#define REGIONS_FEW    65536 /* one registration cache may need as many */

/* True if CAP_IPC_LOCK lifts the memlock limit: only in the initial user namespace. */
static bool checks_limits_has_lock_capability(struct host *host)
{
	const char *status = host_text(host, "/proc/self/status");
	const char *map = host_text(host, "/proc/self/uid_map");
	const char *at = status ? strstr(status, "CapEff:") : NULL;
	unsigned long long effective = 0, inside = 1, outside = 1, count = 0;

	if (!at || sscanf(at, "CapEff: %llx", &effective) != 1 || !map ||
	    sscanf(map, "%llu %llu %llu", &inside, &outside, &count) != 3)
		return false;
	return (effective >> CAP_IPC_LOCK & 1) && !inside && !outside && count == 4294967295ULL;
}

static void checks_limits_memlock(struct host *host, struct finding *finding)
{
	const char *text = host_text(host, "limits/memlock");
	char amount[32];
	int64_t bytes;

	if (!text) {
		finding_set(finding, VERDICT_UNKNOWN, "the memlock limit cannot be read");
		return;
	}
	if (!strcmp(text, "unlimited")) {
		finding_set(finding, VERDICT_OK, "memlock unlimited");
		return;
	}
	bytes = strtoll(text, NULL, 10);
	if (bytes < 1 << 20)
		snprintf(amount, sizeof(amount), "%lld KiB", (long long)bytes >> 10);
	else
		snprintf(amount, sizeof(amount), "%lld MiB", (long long)bytes >> 20);
	if (checks_limits_has_lock_capability(host)) {
		finding_set(finding, VERDICT_OK, "memlock %s, which CAP_IPC_LOCK lifts", amount);
	} else if (bytes >= MEMLOCK_LITTLE) {
		finding_set(finding, VERDICT_OK, "memlock %s", amount);
	} else {
		finding_set(finding, VERDICT_WARN,
			    "memlock %s: registrations of host memory fail with ENOMEM beyond it",
			    amount);
		finding_fix(finding,
			    "ask your administrator: \"* - memlock unlimited\" in "
			    "/etc/security/limits.conf and "
			    "LimitMEMLOCK=infinity for slurmd; in a container --ulimit memlock=-1");
	}
}

static void checks_limits_rdma_max(struct host *host, const char *cgroup, bool own,
				   struct finding *finding)
{
	const char *device = host_text(host, "/sys/fs/cgroup%s/rdma.max", cgroup);
	char line[256];

	while (host_line(&device, line, sizeof(line))) {
		if (strstr(line, "=max hca_object=max"))
			continue;
		finding_add(finding, VERDICT_WARN, "%s%s limits %s",
			    own ? "this cgroup" : "the cgroup above, ", own ? "" : cgroup, line);
		finding_fix(finding, "ask your administrator: rdma.max of %s",
			    own ? "this job's cgroup" : cgroup);
	}
}

/* A limit applies to all cgroups below: check every ancestor. */
static void checks_limits_cgroups(struct host *host, struct finding *finding)
{
	const char *at = host_text(host, "/proc/self/cgroup");
	char line[512], *cgroup = line + 3;
	bool own = true;

	while (host_line(&at, line, sizeof(line)) && strncmp(line, "0::", 3))
		;
	if (!at || strncmp(line, "0::/", 4))
		return;
	while (*cgroup && strcmp(cgroup, "/")) {
		checks_limits_rdma_max(host, cgroup, own, finding);
		*strrchr(cgroup, '/') = '\0';
		own = false;
	}
}

/* ---- limits of the adapters ---- */

static int64_t checks_limits_of_adapter(struct host *host, const struct adapter *adapter,
					const char *name)
{
	const char *at = host_text(host, "verbs/%s/limits", adapter->name);
	size_t length = strlen(name);
	char line[128];

	while (host_line(&at, line, sizeof(line))) {
		if (!strncmp(line, name, length) && line[length] == ' ')
			return (int64_t)strtoull(line + length, NULL, 10);
	}
	return -1;
}

static int64_t checks_limits_largest_memory(struct host *host)
{
	const struct machine *machine = machine_of(host);
	int64_t largest = 0, bytes;

	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		if (host_number(host, &bytes, "cuda/%d/memory", machine->gpus[i].ordinal) &&
		    bytes > largest)
			largest = bytes;
	}
	return largest;
}

static void checks_limits_adapters(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	struct groups groups = { .count = 0 };

	for (unsigned int i = 0; i < machine->adapter_count; i++) {
		const struct adapter *adapter = &machine->adapters[i];
		int64_t regions = checks_limits_of_adapter(host, adapter, "max_mr");
		int64_t bytes = checks_limits_of_adapter(host, adapter, "max_mr_size"),
			memory = checks_limits_largest_memory(host);

		if (regions > 0 && regions < REGIONS_FEW) {
			groups_add(&groups, VERDICT_WARN, adapter->name,
				   "takes only %lld registrations", (long long)regions);
			finding_fix(finding,
				    "PEERPIN_MIN_SIZE=2M, and UCX_RCACHE_MAX_REGIONS=%lld: fewer "
				    "registrations",
				    (long long)regions / 2);
		}
		if (bytes > 0 && bytes < memory) {
			groups_add(&groups, VERDICT_WARN, adapter->name,
				   "registers at most %lld MiB at a time", (long long)bytes >> 20);
			finding_fix(finding, "allocate in pieces of at most %lld MiB",
				    (long long)bytes >> 20);
		}
	}
	groups_say(&groups, finding);
}

void check_limits(struct host *host, struct finding *finding)
{
	int64_t files, maps;

	finding_read(finding,
		     "getrlimit, CapEff in /proc/self/status, /proc/sys/vm/max_map_count, rdma.max "
		     "of the cgroup and those "
		     "above, ibv_query_device");
	checks_limits_memlock(host, finding);
	if (host_number(host, &files, "limits/nofile")) {
		if (files < FILES_FEW) {
			finding_add(finding, VERDICT_WARN, "only %lld open files",
				    (long long)files);
			finding_fix(finding, "ulimit -n 65536");
		} else {
			finding_add(finding, VERDICT_OK, "%lld open files", (long long)files);
		}
	}
	if (host_number(host, &maps, "/proc/sys/vm/max_map_count") && maps < 65530) {
		finding_add(finding, VERDICT_WARN, "vm.max_map_count %lld", (long long)maps);
		finding_fix(finding, "sudo sysctl vm.max_map_count=262144");
	}
	checks_limits_cgroups(host, finding);
	checks_limits_adapters(host, finding);
}
