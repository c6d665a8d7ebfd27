/* SPDX-License-Identifier: BSD-3-Clause */
/* exports.c -- source addresses of the dma-bufs that the program exported
 *
 * The inode identifies a dma-buf: descriptors are closed and reused, duplicated and passed on, but
 * each export has an inode of its own (measured, sheet cuda-driver-h200), except copies of a
 * region's dma-buf (registration_export()), whose range is equal. The kernel counts inodes up: a
 * repeated inode is billions of exports away.
 *
 * Exports consist of whole pages, and allocations need not begin on a page. An export may begin in
 * a neighbour or in no memory, and span several allocations, so its first allocation does not
 * identify it. The record of an export holds the youngest allocation from before the export. A live
 * allocation that is not younger has been at its addresses throughout: of all memory at these
 * addresses, the dma-buf holds only that allocation.
 */
#include "memory/memory.h"

#include <pthread.h>

#include "base/kernel.h"
#include "memory/table.h"
#include "report/statistics.h"

#define EXPORTS 1024u

struct export
{
	uint64_t device, inode; /* inode 0: empty */
	struct found_export made;
};

static pthread_mutex_t exports_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below; taken alone */
static struct export exports[EXPORTS];
static unsigned int next_export;

static _Atomic bool has_exports; /* set at the first export; no lock is taken before */

void exports_renew(void)
{
	exports_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* Direct system call: the symbol fstat needs glibc 2.33, and older versions use a private one. */
static bool exports_identify(int fd, struct export *identity)
{
	struct stat status;

	if (fd < 0 || kernel_describe(fd, &status))
		return false;
	identity->device = status.st_dev;
	identity->inode = status.st_ino;
	return identity->inode != 0;
}

/* The newest first: a client registers what it has just exported. */
static const struct export *exports_find(const struct export *identity)
{
	const struct export *export;

	for (unsigned int i = 1; i <= EXPORTS; i++) {
		export = &exports[(next_export - i) % EXPORTS];
		if (export->inode == identity->inode && export->device == identity->device)
			return export;
	}
	return NULL;
}

void memory_exported(int fd, uint64_t address, uint64_t size, uint64_t youngest)
{
	struct export made = { .made = { address, size, youngest } };

	statistics_count(exports);
	if (exports_identify(fd, &made)) {
		pthread_mutex_lock(&exports_lock);
		exports[next_export++ % EXPORTS] = made;
		has_exports = true;
		pthread_mutex_unlock(&exports_lock);
	}
}

bool memory_find_export(int fd, struct found_export *found)
{
	struct export wanted = { 0 };
	const struct export *known = NULL;

	if (has_exports && exports_identify(fd, &wanted)) {
		pthread_mutex_lock(&exports_lock);
		known = exports_find(&wanted);
		if (known)
			wanted = *known;
		pthread_mutex_unlock(&exports_lock);
	}
	*found = wanted.made;
	return known != NULL;
}
