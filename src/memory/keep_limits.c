/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_limits.c -- how much memory is kept, and its release where memory is wanted: by a call that
 * the driver refused, or by another rank of the job
 */
#include "base/config.h"
#include "base/job_file.h"
#include "base/kernel.h"
#include "base/system.h"
#include "memory/captures.h"
#include "memory/driver.h"
#include "memory/kept.h"

#define MS ((uint64_t)1000000) /* ns */

#define LIMIT_EVERY (100 * MS) /* the limit is determined anew: by a call into the driver */
#define LOOK_EVERY  (10 * MS)  /* for ranks that want memory */
#define ANSWER	    (100 * MS) /* in which other ranks release memory, and keep none */
#define ASK_EVERY   (1000 * MS) /* after an answer that was too little */
#define TRY_EVERY   (5 * MS)

/* Beside it no program lacks memory. */
#define ROOM_MIN ((uint64_t)32 << 20)

/* ---- what the program has ---- */

/* Bytes as the driver counts them; table_lock guards stores. */
static struct use {
	_Atomic uint64_t live, peak;
} uses[KEPT_LISTS];

void kept_count_live(const struct allocation *allocation, bool begins)
{
	struct use *use = &uses[kept_list_number(allocation)];
	uint64_t bytes = kept_bytes_of(allocation), live = load_relaxed(&use->live);

	if (allocation->kind != ALLOCATION_DEVICE && allocation->kind != ALLOCATION_PITCHED &&
	    allocation->kind != ALLOCATION_HOST)
		return;
	live = begins ? live + bytes : live - bytes;
	store_relaxed(&use->live, live);
	if (live > load_relaxed(&use->peak))
		store_relaxed(&use->peak, live);
}

uint64_t kept_room(unsigned int list, uint64_t ending)
{
	uint64_t live = load_relaxed(&uses[list].live), most = load_relaxed(&uses[list].peak);

	live -= ending < live ? ending : live;
	if (list == KEPT_HOST)
		return UINT64_MAX;
	most += most / 2;
	return most < live + ROOM_MIN ? ROOM_MIN : most - live;
}

uint64_t kept_trial(unsigned int list)
{
	uint64_t half = load_relaxed(&uses[list].peak) / 2;

	return half < ROOM_MIN ? ROOM_MIN : half;
}

/* ---- limits ---- */

/* Of a list; any thread stores. What two threads store at once may get lost. */
static struct limit {
	_Atomic uint64_t bytes, due; /* due: when it is determined anew */
	_Atomic uint64_t keep_after; /* another rank wants memory until then */
	_Atomic bool shared;	     /* the job's file says that this process uses the GPU */
} limits[KEPT_LISTS];

static _Atomic uint64_t seen; /* job_file_marked(); 0: no job, or no limit yet */

/* Of the GPU, in the job's file. */
static uint64_t limits_hash(int device)
{
	uint64_t words[2] = { (uint64_t)device };

	_Static_assert(sizeof(words) == sizeof(CUuuid), "a UUID has two words");
	if (driver_calls()->cuDeviceGetUuid_v2)
		driver_calls()->cuDeviceGetUuid_v2((CUuuid *)words, device);
	return (words[0] ^ words[1]) | 1;
}

/* Processes of the job on the GPU, with this one. */
static unsigned int limits_processes(int device)
{
	bool shared = exchange_relaxed(&limits[kept_list_of(device)].shared, true);
	unsigned int processes = job_file_share(limits_hash(device), !shared);

	if (!load_relaxed(&seen))
		store_relaxed(&seen, job_file_marked());
	return processes;
}

/* Free memory of the current context's GPU, if it is this one, and all of it. False: unknown. */
static bool limits_memory(int device, uint64_t *unused, uint64_t *total)
{
	const struct driver_calls *driver = driver_calls();
	CUstreamCaptureMode mode;
	size_t bytes, all;
	CUresult result;
	bool relaxed;

	if (device < 0 || kept_current_device() != device || !driver->cuMemGetInfo_v2)
		return false;
	relaxed = driver_relax_capture(&mode);
	result = driver->cuMemGetInfo_v2(&bytes, &all);
	driver_restore_capture(relaxed, &mode);
	if (result != CUDA_SUCCESS)
		return false;
	*unused = bytes;
	*total = all;
	return true;
}

/* PEERPIN_KEEP=auto: half of what is free, kept memory included, by the processes there. */
static void limits_determine(unsigned int list, uint64_t freed)
{
	uint64_t keep = config_get()->keep, unused, total;
	unsigned int processes = limits_processes((int)list);

	if (keep == CONFIG_AUTO || (keep & CONFIG_SHARE)) {
		if (!limits_memory((int)list, &unused, &total)) {
			store_relaxed(&limits[list].due, 0);
			return;
		}
		keep = keep == CONFIG_AUTO ? (unused + kept_bytes(list) + freed) / 2 / processes
					   : total / 100 * (keep & ~CONFIG_SHARE);
	}
	store_relaxed(&limits[list].bytes, keep);
}

uint64_t kept_limit(unsigned int list, uint64_t freed)
{
	uint64_t now;

	if (list == KEPT_HOST)
		return config_get()->keep_host;
	if (!config_get()->keep)
		return 0;
	now = system_clock();
	if (now >= load_relaxed(&limits[list].due)) {
		store_relaxed(&limits[list].due, now + LIMIT_EVERY);
		limits_determine(list, freed);
	}
	return load_relaxed(&limits[list].bytes);
}

/* ---- memory that is wanted ---- */

static _Atomic unsigned int refusals; /* calls that are being repeated */

bool kept_is_wanted(unsigned int list)
{
	uint64_t after = load_relaxed(&limits[list].keep_after);

	return load_seq_cst(&refusals) || (after && system_clock() < after);
}

bool keep_release(int device)
{
	unsigned int list = kept_list_of(device);

	return device == KEEP_DEVICES ? kept_release(0, KEPT_HOST, NULL)
				      : kept_release(list, list + 1, NULL);
}

/* False: nothing has come back since the call. What another thread releases meanwhile counts as
 * neither unused nor kept. */
static bool limits_give_back(const struct keep_refusal *refusal, uint64_t bytes)
{
	int device = refusal->device;
	bool trimmed = refusal->tries == 1 && kept_trim_pool(device);
	uint64_t unused, total;

	kept_await_releases(NULL);
	if (!bytes || !limits_memory(device, &unused, &total) ||
	    unused + kept_bytes(kept_list_of(device)) >= bytes)
		keep_release(device);
	kept_await_releases(NULL);
	return trimmed || load_relaxed(&keep_releases_ended) != refusal->ended;
}

/* True: the job's other ranks on that GPU release what they keep. */
static bool limits_ask(struct keep_refusal *refusal, uint64_t bytes)
{
	static _Atomic uint64_t not_before;
	uint64_t now = system_clock(), unused, total;
	int device = refusal->device;

	if (!refusal->end) {
		if (device < 0 || device >= DEVICES_MAX || now < load_relaxed(&not_before) ||
		    captures_may_be_open() || !limits_memory(device, &unused, &total) ||
		    bytes > total - load_relaxed(&uses[device].live) ||
		    limits_processes(device) < 2)
			return false;
		job_file_mark(limits_hash(device));
		store_relaxed(&seen, job_file_marked());
		refusal->end = now + ANSWER;
	}
	if (now < refusal->end) {
		kernel_sleep(TRY_EVERY);
		return true;
	}
	store_relaxed(&not_before, now + ASK_EVERY);
	return false;
}

bool keep_retry(struct keep_refusal *refusal, int device, uint64_t bytes)
{
	if (!refusal->tries++) {
		add_seq_cst(&refusals, 1);
		refusal->device = device == KEEP_CURRENT ? kept_current_device() : device;
	}
	return limits_give_back(refusal, bytes) || limits_ask(refusal, bytes);
}

void keep_end_refusal(void)
{
	subtract_seq_cst(&refusals, 1);
}

/* ---- other ranks of the job ---- */

static _Atomic uint64_t asked_until; /* the last of keep_after */

bool kept_is_asked(void)
{
	uint64_t until = load_relaxed(&asked_until);

	return until && system_clock() < until;
}

static void limits_take_mark(uint64_t mark, uint64_t now)
{
	for (int device = 0; device < DEVICES_MAX; device++) {
		if (!load_relaxed(&limits[device].shared) ||
		    ((limits_hash(device) ^ mark) & JOB_FILE_TAG))
			continue;
		store_relaxed(&limits[device].keep_after, now + ANSWER);
		store_relaxed(&limits[device].due, 0);
		store_relaxed(&asked_until, now + ANSWER);
		kept_trim_pool(device);
	}
}

void kept_look_for_ranks(void)
{
	static _Atomic uint64_t next;
	uint64_t now, mark;

	if (!load_relaxed(&seen))
		return;
	now = system_clock();
	if (now < load_relaxed(&next))
		return;
	store_relaxed(&next, now + LOOK_EVERY);
	mark = job_file_marked();
	if (mark && exchange_relaxed(&seen, mark) != mark)
		limits_take_mark(mark, now);
}
