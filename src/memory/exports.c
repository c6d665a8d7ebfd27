/* SPDX-License-Identifier: BSD-3-Clause */
/* exports.c -- source addresses of the dma-bufs that the program exported
 *
 * The inode identifies a dma-buf: descriptors are closed and reused, duplicated and passed on, but
 * each export has an inode of its own (measured), except copies of a
 * region's dma-buf (registration_export()), whose range is equal. The kernel counts inodes up: a
 * repeated inode is billions of exports away.
 *
 * Exports consist of whole pages, and allocations need not begin on a page. An export may begin in
 * a neighbour or in no memory, and span several allocations, so its first allocation does not
 * identify it. The record of an export holds the youngest allocation from before the export. A live
 * allocation that is not younger has been at its addresses throughout: of all memory at these
 * addresses, the dma-buf holds only that allocation.
 *
 * So a record without such an allocation is dead: no request by its dma-buf can be served. A new
 * export reuses the record of a dead one. The table grows until it has as many dead records as live
 * ones, up to MEMORY_EXPORTS_MAX. A program that exports one allocation again and again needs the
 * limit: no event ends its dma-bufs.
 */
#include "memory/memory.h"

#include <pthread.h>
#include <string.h>

#include "base/kernel.h"
#include "base/pool.h"
#include "memory/table.h"
#include "report/statistics.h"

#define EXPORT_BUCKETS (1u << 15)

/* Records examined for each new one: grows to twice the live ones. */
#define EXPORT_STEPS 2

struct exported {
	uint64_t device, inode;
	struct found_export made;
	uint32_t next; /* in its bucket; 0: none */
} __attribute__((aligned(64)));

static pthread_mutex_t exports_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all; before table_lock */
static struct arena exports = ARENA_INITIALIZER(struct exported, MEMORY_EXPORTS_MAX + 1);
static uint32_t buckets[EXPORT_BUCKETS];
static uint32_t examined, replaced; /* the last such record */

static _Atomic bool has_exports; /* set at the first export; no lock is taken before */

/* Another thread may have been changing the table. */
void exports_renew(void)
{
	exports_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	if (!has_exports)
		return;
	memset(buckets, 0, sizeof(buckets));
	exports.used = 1;
	examined = replaced = 0;
}

/* Direct system call: the symbol fstat needs glibc 2.33, and older versions use a private one. */
static bool exports_identify(int fd, struct exported *identity)
{
	struct stat status;

	if (fd < 0 || kernel_describe(fd, &status))
		return false;
	identity->device = status.st_dev;
	identity->inode = status.st_ino;
	return identity->inode != 0;
}

static struct exported *exports_at(uint32_t index)
{
	return (struct exported *)exports.base + index;
}

/* Consecutive inodes have consecutive buckets. */
static uint32_t *exports_bucket(const struct exported *identity)
{
	return &buckets[(identity->inode + identity->device) % EXPORT_BUCKETS];
}

/* The link to the dma-buf's record; 0 is there if it has none. */
static uint32_t *exports_link(const struct exported *identity)
{
	uint32_t *link = exports_bucket(identity);

	while (*link && (exports_at(*link)->inode != identity->inode ||
			 exports_at(*link)->device != identity->device))
		link = &exports_at(*link)->next;
	return link;
}

static bool exports_is_live(const struct found_export *made)
{
	return table_holds_older(made->address, made->size, made->youngest);
}

/* The record after `last`, in a circle. */
static uint32_t exports_after(uint32_t last)
{
	return last + 1 < exports.used ? last + 1 : 1;
}

/* Unlink the record from its bucket, and return it. */
static uint32_t exports_unlinked(uint32_t index)
{
	*exports_link(exports_at(index)) = exports_at(index)->next;
	return index;
}

/* A record for one more export: of a dead one; a new one; in a full table one of the oldest. 0: no
 * memory for the first one. */
static uint32_t exports_take(void)
{
	for (int i = 0; i < EXPORT_STEPS && exports.used > 1; i++) {
		examined = exports_after(examined);
		if (!exports_is_live(&exports_at(examined)->made))
			return exports_unlinked(examined);
	}
	if (exports.used <= MEMORY_EXPORTS_MAX && !arena_grow(&exports, exports.used + 1))
		return arena_next(&exports);
	if (exports.used == 1)
		return 0;
	replaced = exports_after(replaced);
	return exports_unlinked(replaced);
}

static void exports_store(const struct exported *made)
{
	uint32_t index = *exports_link(made);

	if (index) {
		exports_at(index)->made = made->made;
		return;
	}
	index = exports_take();
	if (!index)
		return;
	*exports_at(index) = *made;
	exports_at(index)->next = *exports_bucket(made);
	*exports_bucket(made) = index;
}

static void exports_add(const struct exported *made)
{
	pthread_mutex_lock(&exports_lock);
	exports_store(made);
	has_exports = true;
	pthread_mutex_unlock(&exports_lock);
}

void memory_exported(int fd, const struct found_export *source)
{
	struct exported made = { .made = *source };

	statistics_count(exports);
	if (exports_identify(fd, &made))
		exports_add(&made);
}

void memory_exported_again(uint64_t device, uint64_t inode, const struct found_export *source)
{
	statistics_count(exports);
	exports_add(&(struct exported){ .device = device, .inode = inode, .made = *source });
}

bool memory_find_export(int fd, struct found_export *found)
{
	struct exported wanted = { .inode = 0 };
	uint32_t index = 0;

	if (has_exports && exports_identify(fd, &wanted)) {
		pthread_mutex_lock(&exports_lock);
		index = *exports_link(&wanted);
		if (index)
			wanted = *exports_at(index);
		pthread_mutex_unlock(&exports_lock);
	}
	*found = wanted.made;
	return index != 0;
}
