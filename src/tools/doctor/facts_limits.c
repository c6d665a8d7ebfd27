/* SPDX-License-Identifier: BSD-3-Clause */
/* facts_limits.c -- values of limits that a function computes; readings job/ of an earlier run */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/doctor/facts.h"
#include "tools/records.h"
#include "tools/units.h"

#define CAP_SYS_RESOURCE 24

/* ---- limits of the process ---- */

/* True if this process has the capability in the initial user namespace: limits of the kernel
 * accept no other. */
bool facts_limits_has_capability(struct host *host, int capability)
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
int64_t facts_limits_reach(struct host *host, const char *name, int64_t wanted)
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

const char *facts_memlock_size(const struct subject *subject)
{
	int64_t bytes;

	if (!value_number(subject, "memlock", &bytes))
		return "unlimited";
	return bytes < 1 << 20 ? text_of("%lld KiB", (long long)bytes >> 10)
			       : text_of("%lld MiB", (long long)bytes >> 20);
}

const char *facts_memlock_reach(const struct subject *subject)
{
	int64_t most = facts_limits_reach(subject->host, "memlock", INT64_MAX);

	return most == INT64_MAX ? "unlimited" : NUMBER(most >> 10);
}

/* Error of registering 2 MiB of host memory: 0 with an adapter; ENOMEM with none, and refused by
 * one; ENOENT: not tried. */
int facts_limits_host_error(struct host *host)
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

const char *facts_largest_memory(const struct subject *subject)
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

int64_t facts_limits_job_mib(const struct subject *subject)
{
	int64_t bytes = facts_number(subject, "job_bytes");

	return (bytes + (1 << 20) - 1) >> 20;
}

int64_t facts_limits_free_mib(const struct subject *subject)
{
	struct bar1 bar1 = bar1_of(subject->host, subject->gpu);

	return (bar1.bytes - bar1.used) >> 20;
}
