/* SPDX-License-Identifier: BSD-3-Clause */
/* exports.c -- which addresses the dma-bufs came from that the program exported itself
 *
 * A dma-buf is known by its inode: descriptors are closed and given out again, copied and passed on, while each
 * export has an inode of its own (measured sheet cuda-driver-h200). The kernel counts inodes up, so one that
 * comes back belongs to a dma-buf made billions of exports later.
 *
 * Exports are of whole pages, and allocations need not begin on one: what is exported may begin in a neighbour, or in
 * nothing, and reach over several. So it is not known by what begins it. What is known instead is the youngest allocation
 * of the moment before the driver was asked: what is not younger, and still lives, has been at its addresses
 * throughout, so the dma-buf holds its memory and no other that was there before or has come since.
 */
#include "memory/memory.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/statistics.h"
#include "memory/table.h"

#define EXPORTS 1024u

struct export
{
	uint64_t device, inode; /* inode 0: empty */
	struct found_export made;
};

static pthread_mutex_t exports_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below; taken alone */
static struct export exports[EXPORTS];
static unsigned int next_export;

/* Whether there is one. Before that nothing is locked: a program that does not use CUDA may fork beside it. */
static _Atomic bool any;

/* The system call: fstat is a name of glibc 2.33, or goes through one of a private kind. */
static bool identify(int fd, struct export *identity)
{
	struct stat status;

	if (fd < 0 || syscall(SYS_fstat, fd, &status))
		return false;
	identity->device = status.st_dev;
	identity->inode = status.st_ino;
	return identity->inode != 0;
}

static struct export *find(const struct export *identity)
{
	for (unsigned int i = 0; i < EXPORTS; i++) {
		if (exports[i].inode == identity->inode && exports[i].device == identity->device)
			return &exports[i];
	}
	return NULL;
}

uint64_t memory_youngest(void)
{
	return table_youngest();
}

void memory_exported(int fd, uint64_t address, uint64_t size, uint64_t youngest)
{
	struct export made = { .made = { address, size, youngest } };
	struct export *place;
	int saved_errno = errno;

	statistics_count(exports);
	if (identify(fd, &made)) {
		pthread_mutex_lock(&exports_lock);
		place = find(&made);
		*(place ? place : &exports[next_export++ % EXPORTS]) = made;
		any = true;
		pthread_mutex_unlock(&exports_lock);
	}
	errno = saved_errno;
}

bool memory_find_export(int fd, struct found_export *found)
{
	struct export wanted = { 0 };
	struct export *place = NULL;
	int saved_errno = errno;

	if (any && identify(fd, &wanted)) {
		pthread_mutex_lock(&exports_lock);
		place = find(&wanted);
		if (place)
			wanted = *place;
		pthread_mutex_unlock(&exports_lock);
	}
	errno = saved_errno;
	*found = wanted.made;
	return place != NULL;
}
