/* SPDX-License-Identifier: BSD-3-Clause */
/* kept_limit.c -- limits of kept allocations */
#include "memory/kept.h"

#include "base/atomics.h"
#include "base/config.h"
#include "base/job_file.h"
#include "base/system.h"
#include "memory/captures.h"
#include "memory/driver.h"
#include "report/statistics.h"

/* Beyond the room, memory goes once the program has allocated so many times its size: buffers of
 * which one is live at a time are reused, though only one of them counts as used. */
#define UNUSED 2

/* Memory of the device in bytes, which does not change; 0: unknown. */
static uint64_t kept_total(int device)
{
	static _Atomic uint64_t totals[DEVICES_MAX];
	size_t total;

	if (device < 0 || device >= DEVICES_MAX)
		return 0;
	if (!load_relaxed(&totals[device]) && driver_calls()->cuDeviceTotalMem_v2 &&
	    driver_calls()->cuDeviceTotalMem_v2(&total, device) == CUDA_SUCCESS)
		store_relaxed(&totals[device], total);
	return load_relaxed(&totals[device]);
}

/* PEERPIN_KEEP=auto: half of the free memory of GPUs, the processes that share it, and when both
 * were determined: by a call into the driver, which is dear. They stand until the process has an
 * eighth of the limit more; or the program has allocated as much, if memory exceeds them. */
static struct {
	_Atomic uint64_t half, processes, until, since;
} autos[DEVICES_MAX];

static _Atomic uint64_t seen; /* job_file_marked(); 0: no job, or nothing was kept */

/* Of the GPU, in the job's file. */
static uint64_t kept_hash(int device)
{
	uint64_t words[2] = { (uint64_t)device };

	_Static_assert(sizeof(words) == sizeof(CUuuid), "a UUID has two words");
	if (driver_calls()->cuDeviceGetUuid_v2)
		driver_calls()->cuDeviceGetUuid_v2((CUuuid *)words, device);
	return (words[0] ^ words[1]) | 1;
}

/* Processes of the job on the GPU. */
static unsigned int kept_processes(int device, bool first)
{
	return job_file_share(kept_hash(device), first);
}

static uint64_t kept_shared(int device)
{
	uint64_t processes = load_relaxed(&autos[device].processes);

	return processes ? load_relaxed(&autos[device].half) / processes : 0;
}

/* Free memory of the current context's GPU, if it is this one. False: unknown. */
static bool kept_unused(int device, uint64_t *bytes)
{
	const struct driver_calls *driver = driver_calls();
	size_t unused, total;
	CUdevice current;

	if (!driver->cuCtxGetDevice || !driver->cuMemGetInfo_v2 ||
	    driver->cuCtxGetDevice(&current) != CUDA_SUCCESS || current != device ||
	    driver->cuMemGetInfo_v2(&unused, &total) != CUDA_SUCCESS)
		return false;
	*bytes = unused;
	return true;
}

static uint64_t kept_auto(int device, uint64_t freed)
{
	uint64_t kept = kept_block_bytes(device), had = kept + kept_live(kept_list_of(device));
	uint64_t clock = kept_allocated(kept_list_of(device)), limit, since, unused;

	if (device < 0 || device >= DEVICES_MAX)
		return 0;
	limit = kept_shared(device);
	since = load_relaxed(&autos[device].since);
	if (had < load_relaxed(&autos[device].until) &&
	    (freed <= limit || clock - since < limit / 8))
		return limit;
	if (!kept_unused(device, &unused))
		return limit;
	store_relaxed(&autos[device].half, (unused + kept + freed) / 2);
	since = exchange_relaxed(&autos[device].since, clock | 1);
	store_relaxed(&autos[device].processes, kept_processes(device, !since));
	if (!load_relaxed(&seen))
		store_relaxed(&seen, job_file_marked());
	limit = kept_shared(device);
	store_relaxed(&autos[device].until, had + limit / 8 + 1);
	return limit;
}

uint64_t kept_device_limit(int device, uint64_t freed)
{
	uint64_t keep = config_get()->keep;

	if (keep == CONFIG_AUTO)
		return kept_auto(device, freed);
	return keep & CONFIG_SHARE ? kept_total(device) / 100 * (keep & ~CONFIG_SHARE) : keep;
}

uint64_t kept_later_limit(int device)
{
	if (config_get()->keep != CONFIG_AUTO || device < 0 || device >= DEVICES_MAX ||
	    !load_relaxed(&autos[device].since))
		return UINT64_MAX;
	store_relaxed(&autos[device].processes, kept_processes(device, false));
	return kept_shared(device);
}

uint64_t kept_limit(const struct allocation *allocation)
{
	return allocation->kind == ALLOCATION_HOST
		       ? config_get()->keep_host
		       : kept_device_limit(allocation->device, kept_bytes_of(allocation));
}

bool kept_is_within_limit(const struct allocation *allocation)
{
	return kept_bytes_of(allocation) <= kept_limit(allocation);
}

void kept_apply_limit(const struct allocation *allocation)
{
	unsigned int list = kept_list_number(allocation);
	uint64_t limit = kept_limit(allocation);

	kept_release_above(list, limit, 0);
	kept_release_above(list, kept_room(list, 0), UNUSED);
	kept_count_peaks(list, limit);
}

void kept_make_room(int device, uint64_t bytes)
{
	unsigned int list = kept_list_of(device);

	kept_release_above(list, kept_room(list, bytes), UNUSED);
}

/* ---- other ranks of the job ---- */

#define LOOK_EVERY_NS 1000000
#define ANSWER_NS     (20 * LOOK_EVERY_NS)
#define ANSWERS_NS    (10 * ANSWER_NS)
#define ASK_EVERY_NS  1000000000

/* False: all that was released is too little. */
static bool kept_await_answers(int device, uint64_t bytes, uint64_t *unused)
{
	uint64_t start = system_clock(), now = start, last = start, seen_unused;

	while (now - last < ANSWER_NS && now - start < ANSWERS_NS) {
		kernel_sleep(LOOK_EVERY_NS);
		now = system_clock();
		if (kept_unused(device, &seen_unused) && seen_unused > *unused) {
			*unused = seen_unused;
			last = now;
		}
		if (*unused >= bytes)
			return true;
	}
	return false;
}

bool kept_ask_ranks(int device, uint64_t bytes)
{
	static _Atomic uint64_t not_before;
	uint64_t before, unused, never = 0;

	if (config_get()->keep != CONFIG_AUTO || system_clock() < load_relaxed(&not_before) ||
	    captures_may_be_open() || device >= DEVICES_MAX || bytes > kept_total(device))
		return false;
	/* Ranks release memory for processes that have recorded their use of the GPU. */
	if (!kept_unused(device, &before) ||
	    kept_processes(device, replace_seq_cst(&autos[device].since, &never, 1)) < 2)
		return false;
	unused = before;
	job_file_mark(kept_hash(device));
	store_relaxed(&seen, job_file_marked());
	if (!kept_await_answers(device, (before > bytes ? before : bytes) + BLOCK, &unused))
		store_relaxed(&not_before, system_clock() + ASK_EVERY_NS);
	return unused > before;
}

void kept_answer_ranks(void)
{
	static _Atomic uint64_t next;
	uint64_t now, mark;

	if (!load_relaxed(&seen))
		return;
	now = system_clock();
	if (now < load_relaxed(&next))
		return;
	store_relaxed(&next, now + LOOK_EVERY_NS);
	mark = job_file_marked();
	if (!mark || exchange_relaxed(&seen, mark) == mark)
		return;
	for (int device = 0; device < DEVICES_MAX; device++) {
		if (!load_relaxed(&autos[device].since) ||
		    ((kept_hash(device) ^ mark) & JOB_FILE_TAG))
			continue;
		store_relaxed(&autos[device].until, 0);
		kept_release(device, statistics_get(kept_bytes));
		kept_trim_pools(device);
	}
}
