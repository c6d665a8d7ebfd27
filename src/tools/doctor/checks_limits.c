/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_limits.c -- checks of process limits where doctor runs; a job may have other limits */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/checks.h"
#include "tools/units.h"

#define CAP_IPC_LOCK	 14
#define CAP_SYS_RESOURCE 24
#define HOST_BYTES	 (2LL << 20) /* of the reading verbs/NAME/host */
#define MEMLOCK_LITTLE	 (1LL << 30) /* host buffers of one job reach this size */
#define FILES_FEW	 1024
#define FILES_MANY	 65536
#define REGIONS_FEW	 65536 /* one registration cache may need as many */

/* True if this process has the capability in the initial user namespace: limits of the kernel
 * accept no other. */
static bool checks_limits_has_capability(struct host *host, int capability)
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
 * CAP_SYS_RESOURCE lifts that. `soft`: nothing higher, or the hard limit is not known. */
static int64_t checks_limits_reach(struct host *host, const char *name, int64_t soft,
				   int64_t wanted)
{
	const struct reading *hard = host_read(host, "limits/%s/hard", name);
	int64_t most = soft;

	if (!hard->error && !strcmp(hard->text, "unlimited"))
		most = wanted;
	else if (!reading_number(hard, &most))
		most = soft;
	if (most < wanted && checks_limits_has_capability(host, CAP_SYS_RESOURCE))
		most = wanted;
	return most < soft ? soft : most < wanted ? most : wanted;
}

#define MEMLOCK_FIX                                                                                \
	"ask your administrator: \"* - memlock unlimited\" in /etc/security/limits.conf and "      \
	"LimitMEMLOCK=infinity for slurmd; in a container --ulimit memlock=-1"
#define FILES_FIX                                                                                  \
	"ask your administrator: \"* - nofile 65536\" in /etc/security/limits.conf and "           \
	"LimitNOFILE=65536 for slurmd; in a container --ulimit nofile=65536"

/* Shells take KiB. The administrator's fix follows where the hard limit is too low as well. */
static void checks_limits_memlock_fix(struct host *host, int64_t bytes, struct finding *finding)
{
	int64_t most = checks_limits_reach(host, "memlock", bytes, INT64_MAX);

	if (most == INT64_MAX)
		finding_fix(finding, "ulimit -l unlimited (in the job's script)");
	else if (most >> 10 > bytes >> 10)
		finding_fix(finding, "ulimit -l %lld (the hard limit, in the job's script)",
			    (long long)most >> 10);
	if (most < MEMLOCK_LITTLE)
		finding_fix(finding, MEMLOCK_FIX);
}

/* Result of registering HOST_BYTES of host memory: 0 with an adapter; ENOMEM with none, and refused
 * by one; ENOENT: not tried. */
static int checks_limits_host_error(struct host *host)
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

/* "64 KiB", "8 MiB", "unlimited" */
static const char *checks_limits_size(int64_t bytes)
{
	if (bytes == INT64_MAX)
		return "unlimited";
	return bytes < 1 << 20 ? text_of("%lld KiB", (long long)bytes >> 10)
			       : text_of("%lld MiB", (long long)bytes >> 20);
}

static void checks_limits_memlock(struct host *host, struct finding *finding)
{
	const char *text = host_text(host, "limits/memlock"), *measured;
	bool capable = checks_limits_has_capability(host, CAP_IPC_LOCK);
	int error = checks_limits_host_error(host);
	int64_t bytes;

	if (!text) {
		finding_add(finding, UNKNOWN, "the memlock limit cannot be read");
		return;
	}
	bytes = !strcmp(text, "unlimited") ? INT64_MAX : strtoll(text, NULL, 10);
	measured = bytes < HOST_BYTES && !error ? "2 MiB of it were registered" : NULL;
	if (!capable && bytes < MEMLOCK_LITTLE) {
		finding_implied(
			finding, NULL, measured, WARN, NULL,
			"memlock %s: registrations of host memory fail with ENOMEM beyond it",
			checks_limits_size(bytes));
		if (!measured)
			checks_limits_memlock_fix(host, bytes, finding);
		return;
	}
	finding_add(
		finding, error == ENOMEM ? WARN : OK, "memlock %s%s%s", checks_limits_size(bytes),
		capable && bytes != INT64_MAX ? ", which CAP_IPC_LOCK lifts" : "",
		error == ENOMEM ? ", but 2 MiB of host memory cannot be registered (ENOMEM)" : "");
	if (error == ENOMEM)
		finding_fix(finding, "dmesg | tail (as root), and the memory limit of the job or "
				     "container");
}

static void checks_limits_files(struct host *host, struct finding *finding)
{
	int64_t files, most;

	if (!host_number(host, &files, "limits/nofile"))
		return;
	finding_add(finding, files < FILES_FEW ? WARN : OK, "%s%lld open files",
		    files < FILES_FEW ? "only " : "", (long long)files);
	if (files >= FILES_FEW)
		return;
	most = checks_limits_reach(host, "nofile", files, FILES_MANY);
	if (most > files)
		finding_fix(finding, "ulimit -n %lld (in the job's script)", (long long)most);
	if (most < FILES_FEW)
		finding_fix(finding, FILES_FIX);
}

static void checks_limits_rdma_max(struct host *host, const char *cgroup, bool own,
				   struct finding *finding)
{
	const char *device = host_text(host, "/sys/fs/cgroup%s/rdma.max", cgroup);
	char line[256];

	while (host_line(&device, line, sizeof(line))) {
		if (strstr(line, "=max hca_object=max"))
			continue;
		finding_add(finding, WARN, "%s%s limits %s",
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

int64_t adapter_limit(struct host *host, const struct adapter *adapter, const char *name)
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

static void checks_limits_adapter(struct host *host, const struct adapter *adapter, int64_t memory,
				  struct finding *finding)
{
	long long regions = adapter_limit(host, adapter, "max_mr");
	long long bytes = adapter_limit(host, adapter, "max_mr_size");

	if (regions > 0 && regions < REGIONS_FEW) {
		finding_item(finding, WARN, adapter->name, "supports only %lld registrations",
			     regions);
		finding_fix(finding, "UCX_RCACHE_MAX_REGIONS=%lld: fewer registrations",
			    regions / 2);
	}
	if (bytes > 0 && bytes < memory) {
		finding_item(finding, WARN, adapter->name, "registers at most %lld MiB at a time",
			     bytes >> 20);
		finding_fix(finding, "allocate in pieces of at most %lld MiB", bytes >> 20);
	}
}

void check_limits(struct host *host, struct finding *finding)
{
	int64_t maps, memory = 0, bytes;

	checks_limits_memlock(host, finding);
	checks_limits_files(host, finding);
	if (host_number(host, &maps, "/proc/sys/vm/max_map_count") && maps < 65530)
		finding_problem(finding, WARN, as_root(host, "sysctl vm.max_map_count=262144"),
				"vm.max_map_count %lld", (long long)maps);
	checks_limits_cgroups(host, finding);
	EACH_GPU(host, gpu) {
		if (host_number(host, &bytes, "cuda/%d/memory", gpu->ordinal) && bytes > memory)
			memory = bytes;
	}
	EACH_ADAPTER(host, adapter)
		checks_limits_adapter(host, adapter, memory, finding);
}
