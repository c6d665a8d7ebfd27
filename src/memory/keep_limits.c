/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_limits.c -- how much memory is kept, and its release where memory is wanted: by a call that
 * the driver refused, or by another rank of the job
 */
#include "base/config.h"
#include "base/job_file.h"
#include "base/kernel.h"
#include "base/system.h"
#include "memory/memory.h"
#include "memory/driver.h"
#include "memory/kept.h"

#define MS ((uint64_t)1000000) /* ns */

#define LIMIT_EVERY (100 * MS)	/* the limit is determined anew: by a call into the driver */
#define LOOK_EVERY  (10 * MS)	/* for ranks that want memory */
#define ANSWER	    (100 * MS)	/* in which other ranks release memory, and keep none */
#define ASK_EVERY   (1000 * MS) /* after an answer that was too little */
#define TRY_EVERY   (5 * MS)

/* No program lacks memory because so much is kept. */
#define ROOM_MIN ((uint64_t)32 << 20)

/* ---- what the program has ---- */

/* Bytes as the driver counts them; table_lock guards stores. Memory of 1 to 2 MiB may share its
 * block (measured): what the program asked for is the least that its memory takes. */
static struct use {
	_Atomic uint64_t live, peak, asked_for;
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
	store_relaxed(&use->asked_for, load_relaxed(&use->asked_for) +
					       (begins ? allocation->size : -allocation->size));
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

/* Any thread stores the limit of a list. A store may get lost beside that of another thread. */
static struct limit {
	_Atomic uint64_t bytes, due; /* due: when it is determined anew */
	_Atomic uint64_t keep_after; /* another rank wants memory until then */
	_Atomic uint64_t ask_after;  /* the other ranks have answered in vain */
	_Atomic uint64_t hash;	     /* of the GPU, in the job's file; 0: not there yet */
	_Atomic uint64_t seen;	     /* job_file_wanted() */
} limits[KEPT_LISTS];

static _Atomic bool is_in_job_file;

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
	struct limit *limit = &limits[kept_list_of(device)];

	if (!load_relaxed(&limit->hash)) {
		uint64_t hash = limits_hash(device);

		store_relaxed(&limit->seen, job_file_wanted(hash));
		store_relaxed(&limit->hash, hash);
		store_relaxed(&is_in_job_file, true);
	}
	return job_file_share(load_relaxed(&limit->hash));
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

/* PEERPIN_KEEP=auto: half of the free memory, with kept memory, divided by the processes there. */
static void limits_determine(unsigned int list, uint64_t freed)
{
	uint64_t keep = config_get()->keep, unused, total;
	bool needs_memory = keep == CONFIG_AUTO || (keep & CONFIG_SHARE);
	unsigned int processes;

	if (needs_memory && !limits_memory((int)list, &unused, &total)) {
		store_relaxed(&limits[list].due, system_clock() + LOOK_EVERY);
		return;
	}
	processes = limits_processes((int)list);
	if (needs_memory) {
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

static struct kept_part limits_part(int device)
{
	unsigned int list = kept_list_of(device);

	return device == KEEP_DEVICES ? (struct kept_part){ 0, KEPT_HOST, NULL }
				      : (struct kept_part){ list, list + 1, NULL };
}

bool keep_release(int device)
{
	const struct kept_part part = limits_part(device);

	return kept_release(&part);
}

bool keep_release_idle(void)
{
	bool releases = false;

	for (unsigned int i = 0; i < KEPT_LISTS; i++) {
		CUcontext context = kept_first_context(i);

		if (context && keep_becomes_idle(context) &&
		    kept_release(&(struct kept_part){ i, i + 1, context }))
			releases = true;
	}
	return releases;
}

/* True if the driver could have so many bytes there beside those of the program. */
static bool limits_may_fit(int device, uint64_t bytes)
{
	uint64_t unused, total;

	return !limits_memory(device, &unused, &total) ||
	       bytes <= total - load_relaxed(&uses[kept_list_of(device)].asked_for);
}

/* False: nothing has come back since the call. */
static bool limits_give_back(const struct keep_refusal *refusal, uint64_t bytes)
{
	const struct kept_part part = limits_part(refusal->device);
	bool trimmed = refusal->tries == 1 && kept_trim_pool(refusal->device);

	if (limits_may_fit(refusal->device, bytes))
		kept_release(&part);
	kept_await_releases(&part);
	return trimmed || load_relaxed(&keep_releases_ended) != refusal->ended;
}

/* True: the job's other ranks on that GPU release what they keep. */
static bool limits_ask(struct keep_refusal *refusal, uint64_t bytes)
{
	uint64_t now = system_clock(), wanted;
	int device = refusal->device;

	if (!refusal->end) {
		if (device < 0 || device >= DEVICES_MAX ||
		    now < load_relaxed(&limits[device].ask_after) || captures_may_be_open() ||
		    !limits_may_fit(device, bytes) || limits_processes(device) < 2)
			return false;
		refusal->end = now + ANSWER;
	}
	if (now >= refusal->end) {
		store_relaxed(&limits[device].ask_after, now + ASK_EVERY);
		return false;
	}
	/* Again each time: the others keep no memory until a while after the last one. */
	wanted = job_file_want(load_relaxed(&limits[device].hash));
	if (wanted)
		store_relaxed(&limits[device].seen, wanted);
	kernel_sleep(TRY_EVERY);
	return true;
}

bool keep_retry(struct keep_refusal *refusal, int device, uint64_t bytes)
{
	if (!refusal->tries++) {
		/* keep_end_refusal() ends all three. */
		refusal->held = system_hold_cancellation();
		add_seq_cst(&refusals, 1);
		refusal->device = device == KEEP_CURRENT || device == KEEP_POOL
					  ? kept_current_device()
					  : device;
	}
	if (limits_give_back(refusal, bytes))
		return true;
	return (device == KEEP_POOL && keep_release(KEEP_DEVICES)) || limits_ask(refusal, bytes);
}

void keep_end_refusal(const struct keep_refusal *refusal)
{
	subtract_seq_cst(&refusals, 1);
	system_release_cancellation(refusal->held);
}

/* ---- other ranks of the job ---- */

static _Atomic uint64_t asked_until; /* the last of keep_after */

bool kept_is_asked(void)
{
	uint64_t until = load_relaxed(&asked_until);

	return until && system_clock() < until;
}

static void limits_look(int device, uint64_t now)
{
	struct limit *limit = &limits[device];
	uint64_t hash = load_relaxed(&limit->hash), wanted = hash ? job_file_wanted(hash) : 0;

	if (!wanted || exchange_relaxed(&limit->seen, wanted) == wanted)
		return;
	store_relaxed(&limit->keep_after, now + ANSWER);
	store_relaxed(&limit->due, 0);
	store_relaxed(&asked_until, now + ANSWER);
	kept_trim_pool(device);
}

void kept_look_for_ranks(void)
{
	static _Atomic uint64_t next;
	uint64_t now;

	if (!load_relaxed(&is_in_job_file))
		return;
	now = system_clock();
	if (now < load_relaxed(&next))
		return;
	store_relaxed(&next, now + LOOK_EVERY);
	for (int device = 0; device < DEVICES_MAX; device++)
		limits_look(device, now);
}
