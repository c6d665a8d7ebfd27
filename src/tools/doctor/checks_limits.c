/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_limits.c -- limits of the process, as they are where doctor runs: in a job they may be others */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/checks.h"

#define CAP_IPC_LOCK   14
#define MEMLOCK_LITTLE (1LL << 30) /* a job's host buffers alone are that large */
#define FILES_FEW      1024

/* Whether the limit does not count: the capability does only in the first user namespace. */
static bool has_lock_capability(struct host *host)
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

static void look_at_memlock(struct host *host, struct finding *finding)
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
	if (has_lock_capability(host)) {
		finding_set(finding, VERDICT_OK, "memlock %s, which CAP_IPC_LOCK lifts", amount);
	} else if (bytes >= MEMLOCK_LITTLE) {
		finding_set(finding, VERDICT_OK, "memlock %s", amount);
	} else {
		finding_set(finding, VERDICT_WARN,
			    "memlock %s: registrations of host memory fail with ENOMEM beyond it", amount);
		finding_mend(
			finding,
			"ask your administrator: \"* - memlock unlimited\" in /etc/security/limits.conf and "
			"LimitMEMLOCK=infinity for slurmd; in a container --ulimit memlock=-1");
	}
}

static void look_at_cgroup(struct host *host, struct finding *finding)
{
	const char *at = host_text(host, "/proc/self/cgroup"), *limits;
	char line[512];

	while (host_line(&at, line, sizeof(line))) {
		if (strncmp(line, "0::", 3))
			continue;
		limits = host_text(host, "/sys/fs/cgroup%s/rdma.max", strcmp(line + 3, "/") ? line + 3 : "");
		for (const char *device = limits; host_line(&device, line, sizeof(line));) {
			if (strstr(line, "=max hca_object=max"))
				continue;
			finding_add(finding, VERDICT_WARN, "this cgroup limits %s", line);
			finding_mend(finding, "ask your administrator: rdma.max of this job's cgroup");
		}
		return;
	}
}

void check_limits(struct host *host, struct finding *finding)
{
	int64_t files, maps;

	finding_read(
		finding,
		"getrlimit, CapEff in /proc/self/status, /proc/sys/vm/max_map_count, rdma.max of the cgroup");
	look_at_memlock(host, finding);
	if (host_number(host, &files, "limits/nofile")) {
		if (files < FILES_FEW) {
			finding_add(finding, VERDICT_WARN, "only %lld open files", (long long)files);
			finding_mend(finding, "ulimit -n 65536");
		} else {
			finding_add(finding, VERDICT_OK, "%lld open files", (long long)files);
		}
	}
	if (host_number(host, &maps, "/proc/sys/vm/max_map_count") && maps < 65530) {
		finding_add(finding, VERDICT_WARN, "vm.max_map_count %lld", (long long)maps);
		finding_mend(finding, "sudo sysctl vm.max_map_count=262144");
	}
	look_at_cgroup(host, finding);
}
