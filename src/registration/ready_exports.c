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
 * At most FILES descriptors, and a sixteenth of the program's limit. A dma-buf keeps freed memory
 * allocated: the end of its region closes it, before the driver frees, and a forked child at once.
 * All closes are under the lock: none is the last, because the registration refers to the dma-buf,
 * too, unless it needed another one (dma_buf_pin()).
 */
#include "registration/ready_exports.h"

#include "base/system.h"
#include "memory/captures.h"
#include "memory/driver.h"
#include "registration/objects.h"
#include "registration/session_lock.h"
#include "report/statistics.h"

#define FILES	    64u
#define FILES_SHARE 16u

/* Guarded by registration_lock, but for the fork handler, which compares the files. */
static struct ready_export {
	struct region *region; /* NULL: unused */
	uint64_t base, length; /* of the region */
	uint64_t youngest;     /* greatest allocation id before the export */
	struct held_file file;
} ready_exports[FILES];
static unsigned int files; /* entries in use at most */
static unsigned int used;  /* entries beyond are unused: an export looks at none of them */
static _Atomic bool expected;

static void ready_exports_close_in_child(void)
{
	for (unsigned int i = 0; i < FILES; i++)
		held_file_close(&ready_exports[i].file);
}

/* Threads that do this at the same time register the handler twice, which is harmless. */
void ready_exports_expect(void)
{
	struct rlimit limit = { .rlim_cur = 0 };

	if (load_relaxed(&expected))
		return;
	system_at_fork(ready_exports_close_in_child);
	kernel_limit(RLIMIT_NOFILE, &limit);
	lock_take(&registration_lock);
	files = limit.rlim_cur / FILES_SHARE < FILES ? (unsigned int)(limit.rlim_cur / FILES_SHARE)
						     : FILES;
	lock_drop(&registration_lock);
	store_relaxed(&expected, true);
}

static void ready_exports_end(struct ready_export *entry)
{
	held_file_close(&entry->file);
	entry->region->ready = NULL;
	entry->region = NULL;
	while (used && !ready_exports[used - 1].region)
		used--;
}

/* The first unused entry; without one, each entry in turn. */
static struct ready_export *ready_exports_next(void)
{
	static unsigned int next;

	for (unsigned int i = 0; i < used; i++) {
		if (!ready_exports[i].region)
			return &ready_exports[i];
	}
	return used < files ? &ready_exports[used] : &ready_exports[next++ % files];
}

/* Not for a standard stream's number: a program that has closed the stream may open it again. */
void ready_export_keep(struct region *region, struct dma_buf *source, uint64_t youngest)
{
	struct ready_export *entry;

	if (!files || !region->domain->exports || region->ended || region->state != REGION_READY ||
	    !source->length || !region->method->prepare || source->file.fd <= STDERR_FILENO)
		return;
	entry = ready_exports_next();
	if (entry->region)
		ready_exports_end(entry);
	*entry = (struct ready_export){ region, region->base, region->length, youngest,
					source->file };
	if (entry == &ready_exports[used])
		used++;
	region->ready = entry;
	source->length = 0;
}

void ready_export_end(struct region *region)
{
	session_assert();
	if (region->ready)
		ready_exports_end(region->ready);
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

/* Another descriptor of the file; negative: none. The program may have closed the first one, and
 * its number may be another file's, from before or during the call. A close of any descriptor ends
 * this process's record locks of its file: compare before, too. */
static int ready_exports_duplicate(const struct held_file *file)
{
	int fd;

	if (!held_file_is_open(file))
		return -1;
	fd = (int)kernel_call(SYS_fcntl, file->fd, F_DUPFD_CLOEXEC, 0);
	if (fd >= 0 && kernel_check_file(fd, file->device, file->inode)) {
		kernel_close(fd);
		fd = -1;
	}
	return fd;
}

/* The allocation has been live since before the export, so the dma-buf holds it. */
static bool ready_exports_fits(const struct ready_export *entry, uint64_t allocation,
			       const struct found_export *wanted)
{
	return entry->region && entry->base == wanted->address && entry->length == wanted->size &&
	       entry->youngest >= allocation &&
	       !(entry->region->domain->access & DOMAIN_PCIE) == !wanted->pcie;
}

/* As registration_export(), with a copy of the entry. */
static int ready_exports_copy(uint64_t allocation, const struct found_export *wanted,
			      struct ready_export *copied)
{
	const struct ready_export *entry = ready_exports;
	int fd = -1;

	lock_take(&registration_lock);
	for (; entry < &ready_exports[used] && fd < 0; entry++) {
		if (ready_exports_fits(entry, allocation, wanted)) {
			fd = ready_exports_duplicate(&entry->file);
			*copied = *entry;
		}
	}
	lock_drop(&registration_lock);
	return fd;
}

/* Kept memory is not found. */
int registration_export(const struct found_export *wanted)
{
	struct found_export made = *wanted;
	struct allocation allocation;
	struct ready_export copied = { .region = NULL };
	int fd;

	if (!load_relaxed(&expected) || memory_is_verified() ||
	    !memory_find(wanted->address, &allocation) ||
	    !ready_exports_may_export(allocation.device))
		return -1;
	fd = ready_exports_copy(allocation.id, wanted, &copied);
	if (fd < 0)
		return -1;
	made.youngest = copied.youngest;
	memory_exported_again(copied.file.device, copied.file.inode, &made);
	statistics_count(exports_ready);
	return fd;
}
