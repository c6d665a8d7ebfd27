/* SPDX-License-Identifier: BSD-3-Clause */
/* ready_exports.c -- dma-bufs of regions, for clients that export the same range
 *
 * A client that brings its own dma-buf exports the memory for each registration: UCX the pages
 * around an allocation. The driver serves the exports, allocations and frees of all processes under
 * few locks, so that an export beside other processes takes many times as long. So where clients
 * export, regions have that range, and keep the dma-buf by which they are registered, the worker's
 * or a client's. The next export of exactly this range gets another descriptor of it.
 *
 * A region ends with the last allocation that has a part in each of its pages. So the driver cannot
 * have replaced a page since the export, and its answer would be a dma-buf of the same pages.
 *
 * At most a share of the program's limit of descriptors, the least recently used closed first. A
 * dma-buf keeps freed memory allocated: the end of its region closes it, before the driver frees,
 * and a forked child at once. All closes are under the lock: none is the last, because the
 * registration refers to the dma-buf, too.
 */
#include "registration/ready_exports.h"

#include "base/pool.h"
#include "base/system.h"
#include "memory/memory.h"
#include "memory/driver.h"
#include "registration/lock.h"
#include "registration/methods.h"
#include "registration/region.h"
#include "report/statistics.h"

#define FILES_SHARE 16u /* of RLIMIT_NOFILE */
#define FILES_MAX   (1u << 14)
#define BUCKETS	    (1u << 12)

/* Guarded by registration_mutex, but for the fork handler, which compares the files. */
struct ready_export {
	struct region *region; /* NULL: unused */
	struct held_file file;
	struct ready_export *next; /* of equal hash; unused: in that list */
	TAILQ_ENTRY(ready_export) in_order;
};

static struct ready_export *ready_exports; /* an array; NULL: none yet */
static unsigned int files;		   /* entries in it */
static unsigned int used;		   /* entries so far */
static struct ready_export *unused, *buckets[BUCKETS];
static TAILQ_HEAD(, ready_export) order = TAILQ_HEAD_INITIALIZER(order); /* by last use */
static _Atomic bool expected;

static struct ready_export **ready_exports_bucket(uint64_t base, uint64_t length)
{
	return &buckets[(base / PAGE ^ length / PAGE << 7) * 0x9e3779b97f4a7c15u >> 52];
}

_Static_assert(BUCKETS == 1u << (64 - 52), "the hash has as many values");

static void ready_exports_close_in_child(void)
{
	for (unsigned int i = 0; i < used; i++)
		held_file_close(&ready_exports[i].file);
}

/* Threads that do this at the same time register the handler twice, which is harmless. */
void ready_exports_expect(void)
{
	struct rlimit limit = { .rlim_cur = 0 };
	struct ready_export *made;
	uint64_t most;

	if (load_relaxed(&expected))
		return;
	system_at_fork(ready_exports_close_in_child);
	kernel_limit(RLIMIT_NOFILE, &limit);
	most = limit.rlim_cur / FILES_SHARE < FILES_MAX ? limit.rlim_cur / FILES_SHARE : FILES_MAX;
	made = most ? pool_map(most * sizeof(*made)) : NULL;
	registration_lock();
	if (!ready_exports && made) {
		ready_exports = made;
		files = (unsigned int)most;
		made = NULL;
	}
	registration_unlock();
	if (made)
		kernel_unmap(made, most * sizeof(*made));
	store_relaxed(&expected, true);
}

static void ready_exports_end(struct ready_export *entry)
{
	struct ready_export **link =
		ready_exports_bucket(entry->region->base, entry->region->length);

	while (*link != entry)
		link = &(*link)->next;
	*link = entry->next;
	TAILQ_REMOVE(&order, entry, in_order);
	held_file_close(&entry->file);
	entry->region->ready = NULL;
	entry->region = NULL;
	entry->next = unused;
	unused = entry;
}

static struct ready_export *ready_exports_take(void)
{
	struct ready_export *entry;

	if (!unused && used < files)
		return &ready_exports[used++];
	if (!unused)
		ready_exports_end(TAILQ_FIRST(&order));
	entry = unused;
	unused = entry->next;
	return entry;
}

static void ready_exports_add(struct region *region, const struct held_file *file)
{
	struct ready_export **bucket = ready_exports_bucket(region->base, region->length);
	struct ready_export *entry = ready_exports_take();

	entry->region = region;
	entry->file = *file;
	entry->next = *bucket;
	*bucket = entry;
	TAILQ_INSERT_TAIL(&order, entry, in_order);
	region->ready = entry;
}

/* Not for a standard stream's number: a program that has closed the stream may open it again. */
bool ready_export_fits(const struct region *region, const struct dma_buf *source)
{
	registration_assert_held();
	return files && region->domain->exports && !region->spans && region->from_source &&
	       source->base == region->base && source->length == region->length &&
	       (!source->file.inode || source->file.fd > STDERR_FILENO);
}

void ready_export_keep(struct region *region, struct dma_buf *source)
{
	struct held_file file = source->file;

	registration_assert_held();
	if (!ready_export_fits(region, source))
		return;
	/* The client's own, which is open during the client's call. */
	if (!file.inode)
		file = held_file_of(
			(int)kernel_call(SYS_fcntl, file.fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
	if (file.fd <= STDERR_FILENO)
		return;
	ready_exports_add(region, &file);
	if (source->file.inode)
		dma_buf_kept(&file);
	source->length = 0;
}

void ready_export_end(struct region *region)
{
	registration_assert_held();
	if (region->ready)
		ready_exports_end(region->ready);
}

/* ---- the client's export ---- */

/* The driver exports only while a context of the device is current (measured). Negative: it would
 * export nothing. */
static int ready_exports_current_device(void)
{
	const struct driver_calls *driver = driver_calls();
	CUdevice current;

	return driver->cuCtxGetDevice && driver->cuCtxGetDevice(&current) == CUDA_SUCCESS &&
			       !captures_may_be_open()
		       ? current
		       : -1;
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

static bool ready_exports_fits(const struct ready_export *entry, const struct found_export *wanted,
			       int device)
{
	const struct region *region = entry->region;

	return region->base == wanted->address && region->length == wanted->size &&
	       region->device == device && !(region->domain->access & DOMAIN_PCIE) == !wanted->pcie;
}

/* As registration_export(), with the file; with the lock held. */
static int ready_exports_copy(const struct found_export *wanted, int device, struct held_file *file)
{
	struct ready_export *entry = *ready_exports_bucket(wanted->address, wanted->size);
	int fd = -1;

	for (; entry && fd < 0; entry = entry->next) {
		if (!ready_exports_fits(entry, wanted, device))
			continue;
		*file = entry->file;
		fd = ready_exports_duplicate(file);
		TAILQ_REMOVE(&order, entry, in_order);
		TAILQ_INSERT_TAIL(&order, entry, in_order);
	}
	return fd;
}

int registration_export(const struct found_export *wanted)
{
	struct found_export made = *wanted;
	struct held_file file;
	int fd, device;

	if (!load_relaxed(&expected) || memory_is_verified())
		return -1;
	device = ready_exports_current_device();
	if (device < 0)
		return -1;
	registration_lock();
	for (;;) {
		made.youngest = memory_youngest();
		fd = ready_exports_copy(wanted, device, &file);
		if (fd >= 0 ||
		    !region_any_flight(wanted->address, wanted->size, device, wanted->pcie))
			break;
		registration_sleep();
	}
	registration_unlock();
	if (fd < 0)
		return -1;
	memory_exported_again(file.device, file.inode, &made);
	statistics_count(exports_ready);
	return fd;
}
