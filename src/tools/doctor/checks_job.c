/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_job.c -- readings job/ from statistics of an earlier run, and the ranks that fit here */
#include <stdio.h>

#include "tools/doctor/checks.h"
#include "tools/records.h"

bool job_record(struct host *host, const char *path)
{
	struct records records = { 0 };
	int64_t bytes = 0, regions = 0;
	json_t *gpu;
	size_t i, k;

	records_read(&records, path);
	records_print_problems(&records, "peerpin doctor");
	for (i = 0; i < records.count; i++) {
		int64_t registrations = record_number(&records.list[i], "registrations");

		regions = registrations > regions ? registrations : regions;
		json_array_foreach(json_object_get(records.list[i].json, "gpus"), k, gpu) {
			int64_t peak = number_of(gpu, "pinned_bytes_peak");

			bytes = peak > bytes ? peak : bytes;
		}
	}
	host_record(host, "job/processes", "%zu", records.count);
	host_record(host, "job/bytes", "%lld", (long long)bytes);
	host_record(host, "job/regions", "%lld", (long long)regions);
	i = records.count;
	records_free(&records);
	return i > 0;
}

static void checks_job_bar1(struct host *host, const struct gpu *gpu, long long each,
			    struct finding *finding)
{
	struct bar1 bar1 = bar1_of(host, gpu);
	long long room = (bar1.bytes - bar1.used) >> 20;

	if (!bar1.bytes) {
		finding_item(finding, UNKNOWN, gpu->label, "reports no BAR1");
	} else if (room < each) {
		finding_item(finding, WARN, gpu->label,
			     "no rank fits: BAR1 has %lld MiB free, a rank registers %lld", room,
			     each);
		finding_fix(finding,
			    "PEERPIN_PIN_LIMIT=%lldM: idle regions then give way to others",
			    room > 1 ? room / 2 : 1);
	} else {
		finding_item(finding, OK, gpu->label,
			     "%lld ranks fit: BAR1 has %lld MiB free, a rank registers %lld",
			     room / each, room, each);
	}
}

/* The statistics have no peak of regions: their number in all is an upper bound. */
static void checks_job_regions(struct host *host, const struct adapter *adapter, long long each,
			       struct finding *finding)
{
	long long room = adapter_limit(host, adapter, "max_mr");

	if (room < each)
		finding_item(finding, UNKNOWN, adapter->name,
			     "has %lld registrations at a time, a rank made %lld in all", room,
			     each);
	else
		finding_item(finding, OK, adapter->name,
			     "%lld ranks or more fit: it has %lld registrations, a rank made %lld "
			     "in all",
			     room / each, room, each);
}

void check_job(struct host *host, struct finding *finding)
{
	int64_t processes = 0, bytes = 0, regions = 0;

	if (!host_number(host, &processes, "job/processes") ||
	    !host_number(host, &bytes, "job/bytes") ||
	    !host_number(host, &regions, "job/regions")) {
		finding_add(finding, UNKNOWN, "no statistics were named: --job FILE");
		return;
	}
	if (!bytes || !regions) {
		finding_add(finding, OK, "the job registered no GPU memory");
		return;
	}
	EACH_GPU(host, gpu)
		checks_job_bar1(host, gpu, (bytes + (1 << 20) - 1) >> 20, finding);
	EACH_ADAPTER(host, adapter)
		checks_job_regions(host, adapter, regions, finding);
	finding_add(finding, OK, "memlock and nofile limit each rank by itself");
	if (!machine_of(host)->gpu_count)
		finding_add(finding, UNKNOWN, NO_GPU);
}
