/* SPDX-License-Identifier: BSD-3-Clause */
/* ready_exports.c -- dma-bufs of regions, for clients that export the same range
 *
 * A client that brings its own dma-buf exports the memory for each registration. Beside a region
 * registered ahead that export is the second one of the memory, and the driver serves the exports,
 * allocations and frees of all processes under few locks: with 16 processes on one GPU requests
 * took 3.9 times as long as without background registration, although they hit (H200, 1 MiB). So a
 * region keeps its dma-buf, and the client's export of that very range gets another descriptor of
 * it. Memory, pages and errors are those of the driver's answer: the region would have ended with
 * the memory.
 *
 * At most FILES descriptors, those of the youngest regions, and a sixteenth of the program's limit.
 * A dma-buf keeps freed memory allocated: a free closes it first, and a forked child at once.
 */
#include "registration/ready_exports.h"

#include "base/config.h"
#include "base/system.h"
#include "memory/captures.h"
#include "memory/driver.h"
#include "registration/internal.h"
#include "report/statistics.h"

#define FILES 64u
#define SHARE 16u

static struct region *holders[FILES]; /* guarded by registration_lock; NULL: none */
static unsigned int files;	      /* entries in use: FILES at most */
static unsigned int next_holder;
static _Atomic bool any_kept;

static void ready_exports_close_in_child(void)
{
	for (unsigned int i = 0; i < FILES; i++) {
		if (holders[i])
			held_file_close(&holders[i]->file);
	}
}

/* Drops the lock meanwhile. */
static void ready_exports_begin(void)
{
	struct rlimit limit = { .rlim_cur = 0 };

	lock_drop(&registration_lock);
	kernel_limit(RLIMIT_NOFILE, &limit);
	system_at_fork(ready_exports_close_in_child);
	lock_take(&registration_lock);
	files = limit.rlim_cur / SHARE < FILES ? (unsigned int)limit.rlim_cur / SHARE : FILES;
	store_relaxed(&any_kept, true);
}

static struct held_file ready_exports_replace(struct region **holder, struct region *region)
{
	struct held_file old = { .fd = -1 };

	if (*holder) {
		old = (*holder)->file;
		(*holder)->file.fd = -1;
		(*holder)->holder = NULL;
	}
	*holder = region;
	return old;
}

struct held_file ready_export_keep(struct region *region, struct held_file file)
{
	struct region **holder;

	if (!load_relaxed(&any_kept))
		ready_exports_begin();
	if (!files || region->state != REGION_READY || region->ended || region->holder)
		return file;
	holder = &holders[next_holder++ % files];
	region->file = file;
	region->holder = holder;
	return ready_exports_replace(holder, region);
}

void ready_export_leave(struct region *region)
{
	if (region->holder)
		*region->holder = NULL;
	region->holder = NULL;
}

void ready_exports_renew(void)
{
	for (unsigned int i = 0; i < FILES; i++)
		holders[i] = NULL;
}

/* ---- the client's export ---- */

/* The driver exports only while a context of the device is current (measured). */
static bool ready_exports_may_export(int device)
{
	const struct driver_calls *driver = driver_calls();
	CUdevice current;

	return driver->cuCtxGetDevice && driver->cuCtxGetDevice(&current) == CUDA_SUCCESS &&
	       current == device && !captures_may_be_open();
}

static bool ready_exports_is_of(const struct region *region, const struct allocation *allocation)
{
	const struct region_reference *reference =
		region_find_reference(region->domain, allocation->slot, allocation->id);

	while (reference && reference->region != region)
		reference = region_next_reference(reference);
	return reference;
}

/* Another descriptor of the file; negative: none. The program may have closed the first one, and
 * reused its number, even during the call. */
static int ready_exports_duplicate(const struct held_file *file)
{
	int fd = (int)kernel_call(SYS_fcntl, file->fd, F_DUPFD_CLOEXEC, 0);

	if (fd >= 0 && !kernel_is_file(fd, file->device, file->inode)) {
		kernel_close(fd);
		fd = -1;
	}
	return fd;
}

/* Range and length may also be those of a region whose memory has been freed and kept: its
 * allocation is not found. */
int registration_export(uint64_t address, uint64_t size, uint64_t *youngest)
{
	struct allocation allocation;
	int fd = -1;

	if (!load_relaxed(&any_kept) || memory_is_verified() ||
	    !memory_find(address, &allocation) || !ready_exports_may_export(allocation.device))
		return -1;
	lock_take(&registration_lock);
	for (unsigned int i = 0; i < files && fd < 0; i++) {
		if (holders[i] && holders[i]->base == address && holders[i]->length == size &&
		    ready_exports_is_of(holders[i], &allocation)) {
			fd = ready_exports_duplicate(&holders[i]->file);
			*youngest = holders[i]->youngest;
		}
	}
	lock_drop(&registration_lock);
	if (fd >= 0)
		statistics_count(exports_ready);
	return fd;
}
