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
 * dma-buf keeps freed memory allocated: the end of its region closes it, before the driver frees.
 * All closes are under the lock: none is the last, because the registration refers to the dma-buf,
 * too.
 */
#include "registration/ready_exports.h"

#include <sys/select.h>

#include "registration/lock.h"
#include "registration/methods.h"

#define FILES_SHARE 16u /* of RLIMIT_NOFILE */
#define FILES_MOST  (DMA_BUF_DESCRIPTORS - FD_SETSIZE)
#define BUCKETS	    (1u << 12)

/* Negative: no client has brought a dma-buf. */
static _Atomic int most_files = -1;

/* Regions that keep a file. Guarded by registration_mutex. */
static struct region *buckets[BUCKETS];
static struct region_list order = TAILQ_HEAD_INITIALIZER(order); /* by last use */
static int files;

static struct region **ready_exports_bucket(uint64_t base, uint64_t length)
{
	return &buckets[(base / PAGE ^ length / PAGE << 7) * 0x9e3779b97f4a7c15u >> 52];
}

_Static_assert(BUCKETS == 1u << (64 - 52), "the hash has as many values");

bool ready_exports_are_expected(void)
{
	return load_relaxed(&most_files) > 0;
}

/* Of a kept file: select() takes no number above FD_SETSIZE, so that the program needs those
 * below. A standard stream that the program has closed may be opened again. */
static int ready_exports_lowest(void)
{
	return load_relaxed(&most_files) < (int)(2 * FD_SETSIZE / FILES_SHARE) ? STDERR_FILENO + 1
									       : FD_SETSIZE;
}

void ready_exports_expect(void)
{
	struct rlimit limit = { .rlim_cur = 0 };

	if (load_relaxed(&most_files) >= 0)
		return;
	kernel_limit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur /= FILES_SHARE;
	store_relaxed(&most_files, limit.rlim_cur < FILES_MOST ? (int)limit.rlim_cur : FILES_MOST);
}

void ready_export_end(struct region *region)
{
	struct region **link = ready_exports_bucket(region->base, region->length);

	registration_assert_held();
	if (!region->ready.inode)
		return;
	while (*link != region)
		link = &(*link)->ready_next;
	*link = region->ready_next;
	TAILQ_REMOVE(&order, region, in_ready);
	files--;
	dma_buf_close(&region->ready);
	region->ready.inode = 0;
}

static void ready_exports_add(struct region *region, const struct held_file *file)
{
	struct region **bucket = ready_exports_bucket(region->base, region->length);

	if (files == load_relaxed(&most_files))
		ready_export_end(TAILQ_FIRST(&order));
	region->ready = *file;
	region->ready_next = *bucket;
	*bucket = region;
	TAILQ_INSERT_TAIL(&order, region, in_ready);
	files++;
}

/* Another descriptor of the file, of that number at least; negative: none. The program may have
 * closed the first one, and its number may be another file's, from before or during the call. A
 * close of any descriptor ends this process's record locks of its file: compare before, too. */
static int ready_exports_duplicate(const struct held_file *file, int lowest)
{
	int fd;

	if (!held_file_is_open(file))
		return -1;
	fd = (int)kernel_call(SYS_fcntl, file->fd, F_DUPFD_CLOEXEC, lowest);
	if (fd >= 0 && kernel_check_file(fd, file->device, file->inode)) {
		kernel_close(fd);
		fd = -1;
	}
	return fd;
}

bool ready_export_fits(const struct region *region, const struct dma_buf *source)
{
	registration_assert_held();
	return ready_exports_are_expected() && region->domain->exports && !region->spans &&
	       region->from_source && source->base == region->base &&
	       source->length == region->length;
}

void ready_export_keep(struct region *region, struct dma_buf *source)
{
	int lowest = ready_exports_lowest();
	bool own = source->file.inode;
	struct held_file file;

	registration_assert_held();
	if (!ready_export_fits(region, source))
		return;
	/* The client's is open during the client's call. */
	file = dma_buf_opened(
		own ? ready_exports_duplicate(&source->file, lowest)
		    : (int)kernel_call(SYS_fcntl, source->file.fd, F_DUPFD_CLOEXEC, lowest));
	/* A forked child would not close it. */
	if (file.fd >= DMA_BUF_DESCRIPTORS)
		dma_buf_close(&file);
	if (file.fd < 0)
		return;
	ready_exports_add(region, &file);
	if (own)
		dma_buf_close(&source->file);
	source->length = 0;
}

/* ---- the client's export ---- */

static bool ready_exports_fits(const struct region *region, const struct found_export *wanted,
			       int device)
{
	return region->base == wanted->address && region->length == wanted->size &&
	       region->device == device && !(region->domain->access & DOMAIN_PCIE) == !wanted->pcie;
}

int ready_export_copy(const struct found_export *wanted, int device, struct held_file *file)
{
	struct region *region = *ready_exports_bucket(wanted->address, wanted->size);
	int fd = -1;

	registration_assert_held();
	for (; region && fd < 0; region = region->ready_next) {
		if (!ready_exports_fits(region, wanted, device))
			continue;
		*file = region->ready;
		fd = ready_exports_duplicate(file, 0);
		TAILQ_REMOVE(&order, region, in_ready);
		TAILQ_INSERT_TAIL(&order, region, in_ready);
	}
	return fd;
}
