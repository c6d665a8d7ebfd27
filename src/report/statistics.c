/* SPDX-License-Identifier: BSD-3-Clause */
/* statistics.c -- counters: rows, tallies per thread, pinned bytes, pairs of GPU and adapter */
#include "report/statistics.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#include "base/kernel.h"
#include "base/process.h"
#include "base/text.h"

struct statistics statistics;

/* ---- rows of statistics.def ---- */

enum unit { COUNT, BYTES, NS, COUNT_NOW, BYTES_NOW, NS_NOW, BYTES_PEAK };

#define ROW_KIND(unit)		       ((unit) < COUNT_NOW ? STATISTICS_COUNTER : STATISTICS_GAUGE)
#define COUNTER(name)		       offsetof(struct statistics, counters.name)
#define STATISTIC(name, unit, meaning) ROW(#name, "", meaning, ROW_KIND(unit), COUNTER(name))
#define REASONS(name, label, meaning)  ROW(#name, label, meaning, STATISTICS_COUNTER, COUNTER(name))
#define TALLY(name, unit, meaning)     ROW(#name, "", meaning, STATISTICS_TALLY, TALLY_##name)
#define HISTOGRAM(name, sum, meaning)                                                              \
	ROW(#name, "", meaning, STATISTICS_HISTOGRAM, HISTOGRAM_##name)

/* All texts in one object, in order. Pointers would be relocated at each process start. */
static const char texts[] =
#define REASON				       REASONS
#define ROW(name, label, meaning, kind, place) name "\0" label "\0" meaning "\0"
#include "report/statistics.def"
#undef ROW
	;

static const struct {
	uint8_t kind, name_size, label_size;
	uint16_t meaning_size, place;
} rows[] = {
#define REASON REASONS
#define ROW(name, label, meaning, kind, place)                                                     \
	{ kind, sizeof(name), sizeof(label), sizeof(meaning), place },
#include "report/statistics.def"
#undef ROW
#undef HISTOGRAM
#undef TALLY
#undef STATISTIC
};

bool statistics_next_row(struct statistics_row *row)
{
	unsigned int i = row->count;

	if (i == sizeof(rows) / sizeof(*rows))
		return false;
	row->name = i ? row->meaning + rows[i - 1].meaning_size : texts;
	row->label = row->name + rows[i].name_size;
	row->meaning = row->label + rows[i].label_size;
	row->kind = (enum statistics_kind)rows[i].kind;
	row->place = rows[i].place;
	row->count++;
	return true;
}

uint64_t statistics_number(const struct statistics_row *row)
{
	if (row->kind == STATISTICS_TALLY)
		return statistics_tallied((enum tally)row->place);
	return load_relaxed((const _Atomic uint64_t *)((const char *)&statistics + row->place));
}

int statistics_find(const char *name, uint64_t *value)
{
	for (struct statistics_row row = { .count = 0 }; statistics_next_row(&row);) {
		if (row.kind == STATISTICS_HISTOGRAM || !text_equals(row.name, name))
			continue;
		*value = statistics_number(&row);
		return 0;
	}
	return -ENOENT;
}

/* ---- tallies ---- */

__thread struct tallies *statistics_mine __attribute__((tls_model("initial-exec")));
#define lines (statistics.tallies)

/* Take over the line of an ended thread; the kernel reports whether the owner exists. A reused
 * thread number protects the old owner's line until the new thread ends as well. NULL: none in 64
 * tries. */
static struct tallies *statistics_inherit(int thread)
{
	static _Atomic uint32_t next;
	struct tallies *found;
	int owner;

	for (int tries = 0; tries < 64; tries++) {
		found = &lines[add_relaxed(&next, 1) % TALLIES_OWN];
		owner = load_relaxed(&found->owner);
		if (owner && kernel_has_ended(owner) &&
		    replace_seq_cst(&found->owner, &owner, thread))
			return found;
	}
	return NULL;
}

static struct tallies *statistics_join(int thread)
{
	struct tallies *own;
	uint32_t number = load_relaxed(&statistics.threads);

	if (number < TALLIES_OWN)
		number = add_relaxed(&statistics.threads, 1);
	if (number >= TALLIES_OWN)
		return statistics_inherit(thread);
	own = &lines[number];
	store_relaxed(&own->owner, thread);
	return own;
}

void statistics_tally_shared(enum tally tally)
{
	static __thread int thread __attribute__((tls_model("initial-exec")));

	if (!thread) {
		thread = kernel_thread();
		statistics_mine = statistics_join(thread);
		if (statistics_mine) {
			statistics_tally_own(statistics_mine, tally);
			return;
		}
	}
	add_relaxed(&lines[TALLIES_OWN + thread % TALLIES_SHARED].counts[tally], 1);
}

uint64_t statistics_tallied(enum tally tally)
{
	uint32_t threads = load_relaxed(&statistics.threads);
	uint64_t sum = 0;

	/* Do not touch unassigned lines: their pages may not exist yet. */
	for (uint32_t i = 0; i < threads && i < TALLIES_OWN; i++)
		sum += load_relaxed(&lines[i].counts[tally]);
	for (uint32_t i = 0; threads >= TALLIES_OWN && i < TALLIES_SHARED; i++)
		sum += load_relaxed(&lines[TALLIES_OWN + i].counts[tally]);
	return sum;
}

/* ---- GPU, adapter, method ---- */

/* Guards the allocation of slots for adapters and pairs, and a pair's reason. Last in the lock
 * order: no other lock is taken and no foreign code called under this lock. */
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;

void statistics_pinned(int64_t bytes)
{
	_Atomic uint64_t *peak = &statistics.counters.pinned_bytes_peak;
	uint64_t now =
		add_relaxed(&statistics.counters.pinned_bytes, (uint64_t)bytes) + (uint64_t)bytes;
	uint64_t most = load_relaxed(peak);

	while ((int64_t)(now - most) > 0 &&
	       !atomic_compare_exchange_weak_explicit(peak, &most, now, memory_order_relaxed,
						      memory_order_relaxed))
		;
}

int statistics_adapter(const char *name)
{
	int found = -1;

	if (!*name || text_length(name) >= STATISTICS_NAME)
		return -1;
	pthread_mutex_lock(&slots_lock);
	for (int i = 0; i < STATISTICS_ADAPTERS && found < 0; i++) {
		struct statistics_adapter *adapter = &statistics.adapters[i];

		if (!adapter->named) {
			text_copy(adapter->name, sizeof(adapter->name), name);
			store_release(&adapter->named, true);
		}
		if (text_equals(adapter->name, name))
			found = i;
	}
	pthread_mutex_unlock(&slots_lock);
	return found;
}

static bool pair_is_of(const struct statistics_pair *pair, int gpu, int adapter, const char *path)
{
	return pair->gpu == gpu && pair->adapter == adapter && text_equals(pair->path, path);
}

/* Return the pair, taking a free slot if missing; NULL: no free slot. */
static struct statistics_pair *pair_find(int gpu, int adapter, const char *path, const char *method)
{
	for (int i = 0; i < STATISTICS_PAIRS; i++) {
		struct statistics_pair *pair = &statistics.pairs[i];

		if (!pair->known) {
			pair->gpu = gpu;
			pair->adapter = adapter;
			text_copy(pair->path, sizeof(pair->path), path);
			text_copy(pair->method, sizeof(pair->method), method);
			store_release(&pair->known, true);
		}
		if (pair_is_of(pair, gpu, adapter, path) && text_equals(pair->method, method))
			return pair;
	}
	return NULL;
}

/* A GPU and an adapter have one fallback reason, the latest. */
static void pair_set_reason(struct statistics_pair *pair, const char *reason)
{
	struct statistics_pair *pairs = statistics.pairs;
	size_t at = 0;

	for (int i = 0; i < STATISTICS_PAIRS && pairs[i].known; i++) {
		if (pair_is_of(&pairs[i], pair->gpu, pair->adapter, pair->path))
			store_relaxed(&pairs[i].reason[0], '\0');
	}
	for (; at < STATISTICS_REASON - 1 && reason[at]; at++)
		store_relaxed(&pair->reason[at], reason[at]);
	store_relaxed(&pair->reason[at], '\0');
}

const char *statistics_reason(const struct statistics_pair *pair, char to[STATISTICS_REASON])
{
	for (size_t at = 0; at < STATISTICS_REASON - 1; at++)
		to[at] = load_relaxed(&pair->reason[at]);
	to[STATISTICS_REASON - 1] = '\0';
	return *to ? to : NULL;
}

_Atomic uint64_t *statistics_registered_by(int gpu, int adapter, const char *path,
					   const char *method, const char *reason)
{
	struct statistics_pair *pair;

	if (adapter < 0)
		return NULL;
	pthread_mutex_lock(&slots_lock);
	pair = pair_find(gpu, adapter, path, method);
	if (pair && reason)
		pair_set_reason(pair, reason);
	pthread_mutex_unlock(&slots_lock);
	return pair ? &pair->registrations : NULL;
}
