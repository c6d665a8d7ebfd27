/* SPDX-License-Identifier: BSD-3-Clause */
/* background.c -- background registration: the queue of allocations, its processing, the worker;
 * and the allocated and freeing events
 *
 * An allocation is queued once, whatever the number of domains, so queueing costs the same for any
 * number. The worker goes through the domains; in eager mode the allocating thread does
 * for its own allocation, and the worker does the rest: no call of a client registers other memory
 * than its own. The queue holds addresses and ids, not regions: a free has nothing to remove, and a
 * dequeued allocation that is no longer live is skipped. A rescan visits all live allocations: for
 * all domains when the queue is full, for one when it, or a class of sizes there, begins.
 *
 * The queue has a lock of its own: the worker holds registration_mutex while it goes through the
 * domains, and allocating threads must not wait for that. Lock order: registration_mutex, then the
 * queue's lock. No function is called with the queue's lock held.
 */
#include "registration/background.h"

#include <limits.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/atomics.h"
#include "base/config.h"
#include "base/job_file.h"
#include "base/kernel.h"
#include "base/log.h"
#include "base/proc_stat.h"
#include "base/process.h"
#include "base/system.h"
#include "registration/adapter.h"
#include "registration/domain.h"
#include "registration/entry.h"
#include "registration/lock.h"
#include "registration/policy.h"
#include "registration/region.h"
#include "report/errors.h"
#include "report/statistics.h"

#define QUEUE_SIZE 4096u
#define BATCH	   16u

struct queued {
	uint64_t base, id;
};

/* The lock and both counts share a cache line, because the lock's holder needs the counts. Reading
 * a count without the lock gives only an estimate. */
static struct {
	pthread_mutex_t lock;
	_Atomic uint64_t queued, taken; /* totals since the start */
} __attribute__((aligned(128))) ends = { .lock = PTHREAD_MUTEX_INITIALIZER };
static struct queued queue[QUEUE_SIZE]; /* guarded by ends.lock */

/* Rescans are due: for all domains; for those that wait for one (domain.h). */
static _Atomic bool rescan_all, rescan_domains;

/* The rescan in progress. Guarded by registration_mutex. */
static uint32_t cursor;	       /* 0: none */
static struct domain *scanned; /* NULL: all */
static uint64_t scanned_number, scanned_youngest;

/* Ids of queued allocations by slot; 0: none. Any thread. */
static struct arena queued_ids = ARENA_INITIALIZER(_Atomic uint64_t, ALLOCATIONS_MAX);

/* NULL: no allocation of the slot has been queued. Acquire load of `ready`: the store of `base`
 * came before. */
static _Atomic uint64_t *background_queued_at(uint32_t slot)
{
	return slot < queued_ids.ready ? (_Atomic uint64_t *)queued_ids.base + slot : NULL;
}

bool background_is_queued(const struct allocation *allocation)
{
	_Atomic uint64_t *queued = background_queued_at(allocation->slot);

	return queued && load_relaxed(queued) == allocation->id;
}

void background_unqueue(const struct allocation *allocation)
{
	uint64_t id = allocation->id;

	/* The slot may belong to another allocation already, which is queued. */
	if (background_queued_at(allocation->slot))
		replace_seq_cst(background_queued_at(allocation->slot), &id, 0);
}

bool background_set_queued(const struct allocation *allocation)
{
	uint64_t before;
	int error = 0;

	if (!background_queued_at(allocation->slot)) {
		registration_lock();
		error = arena_grow(&queued_ids, allocation->slot + 1);
		registration_unlock();
	}
	if (error)
		return false;
	/* A later allocation, with a greater id, may have the slot already. */
	before = load_relaxed(background_queued_at(allocation->slot));
	while (before < allocation->id &&
	       !replace_seq_cst(background_queued_at(allocation->slot), &before, allocation->id))
		;
	return true;
}

static bool background_is_on(void)
{
	return config_get()->preregister != PREREGISTER_OFF && !process_is_exiting();
}

static bool background_is_eligible(const struct allocation *allocation)
{
	return background_is_on() && domain_may_reach(allocation);
}

/* A rescan takes the place of a full queue. */
static void background_push(const struct queued *queued)
{
	uint64_t position;

	pthread_mutex_lock(&ends.lock);
	position = load_relaxed(&ends.queued);
	if (position - load_relaxed(&ends.taken) == QUEUE_SIZE) {
		store_relaxed(&ends.taken, position);
		store_seq_cst(&rescan_all, true);
	}
	queue[position % QUEUE_SIZE] = *queued;
	store_relaxed(&ends.queued, position + 1);
	pthread_mutex_unlock(&ends.lock);
}

static bool background_pop(struct queued *queued)
{
	uint64_t position;
	bool any;

	pthread_mutex_lock(&ends.lock);
	position = load_relaxed(&ends.taken);
	any = position != load_relaxed(&ends.queued);
	if (any) {
		*queued = queue[position % QUEUE_SIZE];
		store_relaxed(&ends.taken, position + 1);
	}
	pthread_mutex_unlock(&ends.lock);
	return any;
}

static bool background_queue(const struct allocation *allocation)
{
	struct queued queued = { allocation->base, allocation->id };

	if (!background_is_on() || background_is_queued(allocation))
		return false;
	/* Another thread may have freed the allocation already; background_process() checks
	 * that. */
	if (!background_set_queued(allocation))
		return background_queue_all();
	background_push(&queued);
	return true;
}

/* A rescan in progress may be past some allocations already. */
bool background_queue_domain(struct domain *domain)
{
	if (!domain || !process_is_active() || !background_is_on())
		return false;
	domain->youngest = memory_youngest();
	domain_set_behind(domain);
	store_seq_cst(&rescan_domains, true);
	return true;
}

bool background_queue_all(void)
{
	if (!background_is_on())
		return false;
	store_seq_cst(&rescan_all, true);
	return true;
}

/* Registers the allocation in one domain, if selected and not registered yet. Drops the lock
 * meanwhile. */
static void background_register_in(struct domain *domain, const struct allocation *allocation,
				   struct region **ending)
{
	const struct region *region;
	uint64_t duration;

	if (domain->owner->closing || !adapter_selects(domain, allocation->device) ||
	    !domain_reaches(domain, allocation))
		return;
	region = requests_register_whole(domain, allocation, &duration, ending);
	if (!duration)
		return;
	if (own_thread_is_current())
		statistics_time(background_ns, duration, registration_background_ns);
	else
		statistics_time(program_ns, duration, registration_program_ns);
	if (region)
		statistics_count(registrations_background);
}

/* Drops the lock, if it describes any. */
static void background_describe_adapters(const struct allocation *allocation,
					 struct region **ending)
{
	if (!adapter_needs_description())
		return;
	region_flush(ending);
	adapters_describe(allocation->device);
}

static void background_register_in_all(const struct allocation *allocation, struct region **ending)
{
	struct domain *domain = NULL;
	uint64_t number = 0;

	background_describe_adapters(allocation, ending);
	/* A free is visible before registration_freeing() takes the lock. Either this check finds
	 * it, or registration_freeing() finds the flight noted below. */
	while (memory_is_live(allocation) && !process_is_exiting() &&
	       (domain = domain_after(domain, number))) {
		number = domain->number;
		background_register_in(domain, allocation, ending);
	}
}

/* For a new allocation: queues it for the worker, or in eager mode registers it in all domains. */
void registration_allocated(const struct allocation *allocation)
{
	struct region *ending = NULL;

	if (!domain_may_reach(allocation))
		return;
	if (config_get()->preregister == PREREGISTER_EAGER) {
		if (!background_is_on())
			return;
		registration_lock();
		background_register_in_all(allocation, &ending);
		registration_unlock();
		region_unpin_all(&ending);
	} else if (background_queue(allocation)) {
		worker_wake();
	}
}

static void background_process(const struct queued *queued, struct region **ending)
{
	struct allocation allocation;

	if (!memory_find_live(queued->base, queued->id, &allocation) ||
	    !background_is_queued(&allocation))
		return;
	background_register_in_all(&allocation, ending);
	background_unqueue(&allocation);
}

static void background_rescan_in_all(const struct allocation *allocation, struct region **ending)
{
	/* A mark set meanwhile belongs to a later entry of the queue. */
	bool queued = background_is_queued(allocation);

	if (!queued && !background_is_eligible(allocation))
		return;
	background_register_in_all(allocation, ending);
	if (queued)
		background_unqueue(allocation);
}

/* A later allocation is queued, or in eager mode registered before it returns: not if the worker
 * had begun. The domain may end in each of these calls, which drop the lock. */
static void background_rescan_in_one(const struct allocation *allocation, struct region **ending)
{
	if (allocation->id > scanned_youngest || !background_is_eligible(allocation))
		return;
	background_describe_adapters(allocation, ending);
	if (memory_is_live(allocation) && scanned->number == scanned_number)
		background_register_in(scanned, allocation, ending);
}

/* Works on the next batch of live allocations, and on those that a full queue has dropped. */
static void background_rescan_batch(struct region **ending)
{
	static struct allocation batch[BATCH]; /* of the worker */
	unsigned int count = memory_next(&cursor, batch, BATCH);

	for (unsigned int i = 0; i < count; i++) {
		if (scanned)
			background_rescan_in_one(&batch[i], ending);
		else
			background_rescan_in_all(&batch[i], ending);
	}
	if (!count || (scanned && scanned->number != scanned_number))
		cursor = 0;
}

/* False: none is due. */
static bool background_begin_rescan(void)
{
	scanned = NULL;
	if (exchange_seq_cst(&rescan_all, false))
		return true;
	scanned = domain_take_behind();
	if (scanned) {
		scanned_number = scanned->number;
		scanned_youngest = scanned->youngest;
	}
	store_seq_cst(&rescan_domains, scanned);
	return scanned;
}

/* True: there was work. */
static bool background_rescan_step(struct region **ending)
{
	if (!cursor && !background_begin_rescan())
		return false;
	background_rescan_batch(ending);
	return true;
}

/* Works on one queued allocation, or one batch of the rescan; with the lock held, dropped
 * meanwhile. False: no work. */
static bool background_step(struct region **ending)
{
	struct queued queued;

	if (process_is_exiting())
		return false;
	if (!background_pop(&queued))
		return background_rescan_step(ending);
	background_process(&queued, ending);
	return true;
}

bool background_has_more(void)
{
	bool any;

	pthread_mutex_lock(&ends.lock);
	any = load_relaxed(&ends.queued) != load_relaxed(&ends.taken);
	pthread_mutex_unlock(&ends.lock);
	return (any || load_seq_cst(&rescan_all) || load_seq_cst(&rescan_domains)) &&
	       !process_is_exiting();
}

/* ---- the worker ----
 *
 * The process has at most one worker, started when there is work. The worker receives no signals.
 * Exit waits until the worker has left the driver and verbs, for AWAIT_NS at most: their
 * destructors follow.
 *
 * MPI libraries bind each rank to a core, and a rank polls there. So the worker runs on all CPUs of
 * the cpuset, and only where that has more CPUs than the node has ranks of the job: elsewhere a
 * registration before its request gains nothing, takes a CPU from a rank, and delays all ranks that
 * wait for the driver's locks meanwhile.
 *
 * Waking a thread costs the allocating thread more than the rest of its work in this library. So
 * the worker polls the queue for a while after work, and allocations need not wake it. Then it
 * sleeps. A worker that has slept for IDLE_NS ends: a process whose main() has called
 * pthread_exit() ends with its last thread.
 *
 * The worker's wake-ups preempt no thread. A worker that has lost its CPU to another thread while
 * it worked rests for REST_NS: the CPUs are busy, and client requests register meanwhile.
 */

#define IDLE_NS	 1000000000
#define REST_NS	 1000000000
#define AWAIT_NS 100000000

#define TRY_EVERY 1023 /* wakes between two attempts to start the thread */

/* Futex word of the worker, which alone stores it, but for a waker's AWAKE: of a sleeping worker,
 * and of one that it starts. */
static _Atomic uint32_t rest;
enum { NONE, AWAKE, POLLING, ASLEEP };

static _Atomic unsigned int cpus; /* of the cpuset; 0: no worker has counted them */

/* Futex word: 1 while the worker may be inside the driver or verbs. */
static _Atomic uint32_t calls;

static void worker_leave_calls(void)
{
	store_seq_cst(&calls, 0);
	if (load_seq_cst(&process_page.state) & PROCESS_EXITING)
		kernel_futex_wake(&calls, INT_MAX);
}

/* False: exit has begun. Either this check finds it, or registration_await_worker() finds 1. */
static bool worker_enter_calls(void)
{
	store_seq_cst(&calls, 1);
	if (!(load_seq_cst(&process_page.state) & PROCESS_EXITING))
		return true;
	worker_leave_calls();
	return false;
}

void registration_await_worker(void)
{
	uint64_t now = kernel_time(CLOCK_MONOTONIC), end = now + AWAIT_NS;

	while (load_seq_cst(&calls) && now < end) {
		kernel_futex_wait(&calls, 1, (long)(end - now));
		now = kernel_time(CLOCK_MONOTONIC);
	}
}

/* CPUs that a thread may use, as the kernel counts them. */
#define CPU_WORDS 128
struct worker_cpus {
	uint64_t words[CPU_WORDS];
};
static const struct worker_cpus all_cpus = { { [0 ... CPU_WORDS - 1] = UINT64_MAX } };

static void worker_wait(long nanoseconds)
{
	store_seq_cst(&rest, POLLING);
	kernel_futex_wait(&rest, POLLING, nanoseconds);
	store_seq_cst(&rest, AWAKE);
}

static bool worker_is_crowded(void)
{
	return load_relaxed(&cpus) && load_relaxed(&cpus) <= job_file_ranks();
}

/* True if another thread has taken the worker's CPU since the last call. */
static bool worker_was_preempted(void)
{
	static long last;
	struct rusage usage = { .ru_nivcsw = 0 };
	bool was;

	kernel_call(SYS_getrusage, RUSAGE_THREAD, &usage);
	was = usage.ru_nivcsw != last;
	last = usage.ru_nivcsw;
	return was;
}

/* Drops the lock after each step: a rescan of a million unregistered allocations would never drop
 * it. True: there was work. Sets *lost if the worker has lost its CPU, and returns early then. */
static bool worker_work(bool *lost)
{
	struct region *ending = NULL;
	bool worked, any = false;

	worker_was_preempted();
	*lost = false;
	if (!worker_enter_calls())
		return false;
	do {
		registration_lock();
		worked = background_step(&ending);
		registration_unlock();
		region_unpin_all(&ending);
		any |= worked;
		*lost = worked && worker_was_preempted();
	} while (worked && !*lost);
	worker_leave_calls();
	return any;
}

/* Until there has been no work for some polls. */
static void worker_run(void)
{
	int polls = 0;
	bool lost;

	while (polls++ < POLICY_POLLS) {
		worker_wait(POLICY_POLL_NS);
		if (worker_work(&lost))
			polls = 0;
		if (!lost)
			continue;
		if (background_has_more())
			statistics_count(background_delays);
		worker_wait(REST_NS);
	}
}

/* False: the worker ends, and the next waker starts another. */
static bool worker_sleep(void)
{
	uint32_t asleep = ASLEEP;

	store_seq_cst(&rest, ASLEEP);
	/* An allocation queued before that store woke no thread. Check once more: that allocation
	 * must not wait for a later one. */
	if (background_has_more()) {
		store_seq_cst(&rest, AWAKE);
		return true;
	}
	kernel_futex_wait(&rest, ASLEEP, IDLE_NS);
	/* At exit, destructors of the thread's data might come after the end of their library. */
	return process_is_exiting() || !replace_seq_cst(&rest, &asleep, NONE);
}

/* The kernel cuts a full mask to the cpuset. More ranks may have started by now. */
static void worker_count_cpus(void)
{
	struct worker_cpus own = all_cpus;
	unsigned int count = 0;

	kernel_call(SYS_sched_setaffinity, 0, sizeof(own), &own);
	own = (struct worker_cpus){ 0 };
	if (kernel_call(SYS_sched_getaffinity, 0, sizeof(own), &own) <= 0)
		return;
	for (size_t i = 0; i < CPU_WORDS; i++)
		count += (unsigned int)__builtin_popcountll(own.words[i]);
	store_relaxed(&cpus, count);
}

/* Signals that the thread that started the worker blocks. */
static _Atomic uint64_t blocked_signals;

/* The last thread of a process runs its exit handlers. They, and programs that they start, need the
 * signals. Before, one of these might be pending because each thread of the program blocks it. */
static void worker_end(void)
{
	if (proc_stat_is_last_thread())
		kernel_block_signals(load_relaxed(&blocked_signals));
}

/* A scheduling policy that the program has chosen stays. */
static void worker_preempt_no_thread(void)
{
	struct sched_param priority = { .sched_priority = 0 };

	if (kernel_call(SYS_sched_getscheduler, 0) == SCHED_OTHER)
		kernel_call(SYS_sched_setscheduler, 0, SCHED_BATCH, &priority);
}

static void *worker_main(void *unused)
{
	kernel_call(SYS_prctl, PR_SET_NAME, "peerpin-worker");
	worker_preempt_no_thread();
	/* Waits end at their time, not up to 50 µs later. */
	kernel_call(SYS_prctl, PR_SET_TIMERSLACK, 1);
	own_thread_here = true;
	do {
		worker_count_cpus();
		if (worker_is_crowded() && !process_is_exiting()) {
			store_seq_cst(&rest, NONE);
			break;
		}
		worker_run();
	} while (worker_sleep());
	worker_end();
	return unused;
}

/* Block all signals but 32 and 33, which libc sends its threads: setuid() waits until each thread
 * has answered 33. */
static int worker_create(void)
{
	uint64_t before = kernel_block_signals(~((uint64_t)3 << 31));
	int error;

	store_relaxed(&blocked_signals, before);
	error = system_start_thread(worker_main, (const cpu_set_t *)&all_cpus, sizeof(all_cpus));
	kernel_block_signals(before);
	return error;
}

/* Call only after setting `rest` from NONE to AWAKE. A failure for lack of threads, or of CPUs, may
 * be temporary: skip some wakes before the next attempt, twice as many each time, up to TRY_EVERY.
 */
static __attribute__((noinline)) void worker_start(void)
{
	static unsigned int distance, left;
	static bool crowded;
	struct errors_text failure;
	char description[256];
	int error = 0;

	if (!left) {
		crowded = worker_is_crowded();
		if (!crowded)
			error = worker_create();
		if (!crowded && !error)
			return;
		distance = distance < TRY_EVERY ? distance * 2 + 1 : TRY_EVERY;
		left = distance;
	} else {
		left--;
	}
	if (crowded)
		statistics_count(background_delays);
	store_seq_cst(&rest, NONE);
	if (!error)
		return;
	failure = errors_look_up(ERRORS_THREAD, error);
	errors_describe(&failure, description, sizeof(description));
	log_once(LOG_WARN,
		 "the thread for background registration cannot start: %s. Until it starts, memory "
		 "is registered synchronously. %s",
		 description, failure.fix);
}

void worker_wake(void)
{
	uint32_t seen = load_seq_cst(&rest);

	/* The worker stores ASLEEP, then checks the queue. So the worker finds the new entry, or
	 * this load finds it asleep. */
	if (seen == ASLEEP && replace_seq_cst(&rest, &seen, AWAKE))
		kernel_futex_wake(&rest, 1);
	else if (seen == NONE && replace_seq_cst(&rest, &seen, AWAKE))
		worker_start();
}

/* ---- events ---- */

void registration_freeing(const struct allocation *allocation)
{
	uint64_t since = 0; /* start of the deregistrations that delay this free; 0: none */
	struct region *ending = NULL;

	registration_lock();
	if (background_is_queued(allocation))
		background_unqueue(allocation);
	entry_end_all(allocation, &ending, &since);
	region_end_flights(allocation);
	region_await_range(allocation->base, allocation->size, &ending, &since);
	registration_unlock();
	if (since)
		statistics_time(free_ns, system_clock() - since, free_ns);
}

bool registration_is_in_use(const struct allocation *allocation)
{
	bool in_use;

	registration_lock();
	in_use = entry_is_in_use(allocation);
	registration_unlock();
	return in_use;
}
