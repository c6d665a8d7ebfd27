/* SPDX-License-Identifier: BSD-3-Clause */
/* link.c -- files of rings: made by the producer, opened and unlinked by the consumer
 *
 * Docker gives /dev/shm 64 MiB by default, which MPI libraries need, too: rings take a share
 * of the free memory at most, are smaller where it is short, and lie in /tmp where it is shorter.
 */
#include "sim/plane/link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define RING_MOST  ((uint64_t)256 << 10)
#define RING_LEAST ((uint64_t)64 << 10) /* holds a few packets of the greatest size */
#define SHARE	   16			/* of the free memory, for one link */
#define RETRY	   ((uint64_t)10000000) /* ns */

/* The start of a link's file. The rings follow on pages of their own. */
struct link_header {
	uint32_t from_incarnation, to_incarnation;
	uint64_t ring_size;
	struct ring_indices requests, responses;
};

#define DATA ((uint64_t)4096) /* offset of the rings' data */

_Static_assert(sizeof(struct link_header) <= DATA, "the rings follow the header");

struct link *link_first;
static struct link *links[SEGMENT_PROCESSES];
static uint32_t accepted; /* links_changed of the last link_accept() */

static uint64_t link_file_size(uint64_t ring_size)
{
	return DATA + 2 * ring_size;
}

/* ---- finding links ---- */

static uint32_t link_incarnation(unsigned int place)
{
	return __atomic_load_n(&segment_process(place)->incarnation, __ATOMIC_ACQUIRE);
}

static uint32_t link_self(void)
{
	return link_incarnation(segment_self());
}

static struct link *link_add(unsigned int place, uint32_t incarnation)
{
	struct link *link = calloc(1, sizeof(*link));

	if (!link)
		return NULL;
	link->place = place;
	link->incarnation = incarnation;
	link->next = link_first;
	link_first = link;
	links[place] = link;
	return link;
}

/* The present process of a place; the link to a former one is closed. */
static struct link *link_get(unsigned int place, uint32_t incarnation)
{
	struct link *link = links[place];

	if (link && link->incarnation == incarnation)
		return link;
	if (link && link->taken)
		return NULL;
	if (link)
		link_close(link);
	return link_add(place, incarnation);
}

/* ---- rings that this process produces ---- */

/* Bytes for a ring, so that the file takes its share of the free memory at most. 0: too little. */
static uint64_t link_ring_size(int descriptor)
{
	uint64_t size = RING_MOST, available;
	struct statvfs files;

	if (fstatvfs(descriptor, &files))
		return RING_LEAST;
	available = (uint64_t)files.f_bavail * files.f_frsize / SHARE;
	while (size > RING_LEAST && link_file_size(size) > available)
		size /= 2;
	return link_file_size(size) <= available ? size : 0;
}

/* A file that is too large for the folder is a link to one elsewhere. The link is first: wherever
 * the process is killed, the next one that joins finds the file. */
static int link_open_elsewhere(const char *path)
{
	char elsewhere[SEGMENT_PATH_MAX];
	int descriptor;

	snprintf(elsewhere, sizeof(elsewhere), "/tmp/peerpin-sim-link-%u.%d.%llx", segment_self(),
		 getpid(), (unsigned long long)segment_now());
	segment_unlink(path);
	if (symlink(elsewhere, path))
		return -1;
	descriptor = open(elsewhere, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (descriptor >= 0 && !posix_fallocate(descriptor, 0, (off_t)link_file_size(RING_LEAST)))
		return descriptor;
	segment_unlink(path);
	if (descriptor >= 0)
		close(descriptor);
	return -1;
}

static int link_make_file(const char *path, uint64_t *ring_size)
{
	int descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	*ring_size = 0;
	if (descriptor >= 0)
		*ring_size = link_ring_size(descriptor);
	if (*ring_size && !posix_fallocate(descriptor, 0, (off_t)link_file_size(*ring_size)))
		return descriptor;
	if (descriptor >= 0)
		close(descriptor);
	*ring_size = RING_LEAST;
	return link_open_elsewhere(path);
}

static struct link_header *link_map(int descriptor, size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, size, MADV_DONTFORK);
	return memory;
}

/* Announce to the process of `place` a link that the process of `from` has made. */
static void link_announce(unsigned int from, unsigned int place)
{
	struct segment_process *process = segment_process(place);

	__atomic_fetch_or(&process->links[from / 64], (uint64_t)1 << from % 64, __ATOMIC_RELEASE);
	__atomic_add_fetch(&process->links_changed, 1, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	segment_ring(place);
}

bool link_produce(struct link *link)
{
	char path[SEGMENT_PATH_MAX];
	struct link_header *header;
	uint64_t ring_size;
	int descriptor;

	if (link->produces)
		return true;
	if (link->retry && segment_now() < link->retry)
		return false;
	segment_link_path(segment_self(), link_self(), link->place, path);
	descriptor = link_make_file(path, &ring_size);
	if (descriptor < 0) {
		link->retry = segment_now() + RETRY;
		return false;
	}
	header = link_map(descriptor, link_file_size(ring_size));
	close(descriptor);
	if (!header) {
		unlink(path);
		return false;
	}
	*header = (struct link_header){
		.from_incarnation = link_self(),
		.to_incarnation = link->incarnation,
		.ring_size = ring_size,
	};
	ring_attach(&link->requests, &header->requests, (char *)header + DATA, ring_size);
	ring_attach(&link->responses, &header->responses, (char *)header + DATA + ring_size,
		    ring_size);
	link->produced = header;
	link->produced_size = link_file_size(ring_size);
	link->produces = true;
	link_announce(segment_self(), link->place);
	return true;
}

struct link *link_to(unsigned int place)
{
	uint32_t incarnation = link_incarnation(place);
	struct link *link = links[place];

	if (link && link->incarnation == incarnation && link->produces)
		return link;
	if (!incarnation || !segment_is_alive(place, incarnation))
		return NULL;
	link = link_get(place, incarnation);
	return link && link_produce(link) ? link : NULL;
}

/* ---- rings that this process consumes ---- */

static void link_open(unsigned int place)
{
	struct link_header *header = NULL;
	char path[SEGMENT_PATH_MAX];
	struct stat status;
	struct link *link;
	int descriptor;

	segment_link_path(place, link_incarnation(place), segment_self(), path);
	descriptor = open(path, O_RDWR | O_CLOEXEC);
	if (descriptor < 0)
		return;
	/* Now, and not at the end: a killed process leaves no file. */
	segment_unlink(path);
	if (!fstat(descriptor, &status) && (uint64_t)status.st_size >= link_file_size(RING_LEAST))
		header = link_map(descriptor, (size_t)status.st_size);
	close(descriptor);
	if (!header)
		return;
	link = header->to_incarnation == link_self() &&
			       link_file_size(header->ring_size) == (uint64_t)status.st_size
		       ? link_get(place, header->from_incarnation)
		       : NULL;
	if (!link || link->consumes) {
		munmap(header, (size_t)status.st_size);
		return;
	}
	ring_attach(&link->their_requests, &header->requests, (char *)header + DATA,
		    header->ring_size);
	ring_attach(&link->their_responses, &header->responses,
		    (char *)header + DATA + header->ring_size, header->ring_size);
	link->consumed = header;
	link->consumed_size = (size_t)status.st_size;
	link->consumes = true;
}

void link_accept(void)
{
	struct segment_process *process = segment_process(segment_self());
	uint32_t changed = __atomic_load_n(&process->links_changed, __ATOMIC_ACQUIRE);
	unsigned int place;
	uint64_t places;

	if (changed == accepted)
		return;
	accepted = changed;
	for (unsigned int i = 0; i < SEGMENT_PROCESSES / 64; i++) {
		places = __atomic_exchange_n(&process->links[i], 0, __ATOMIC_ACQ_REL);
		for (; places; places &= places - 1) {
			place = i * 64 + (unsigned int)__builtin_ctzll(places);
			if (links[place] && links[place]->taken)
				link_announce(place, segment_self()); /* the next time */
			else
				link_open(place);
		}
	}
}

/* ---- ends ---- */

void link_refer(struct link **reference, struct link *to)
{
	struct link *before = *reference;

	*reference = to;
	if (to)
		to->pairs++;
	if (before && !--before->pairs && before->closed)
		free(before);
}

/* Processes come and go: a poll looks at the links of those that live. */
static void link_remove(struct link *link)
{
	struct link **at = &link_first;

	while (*at != link)
		at = &(*at)->next;
	*at = link->next;
	if (links[link->place] == link)
		links[link->place] = NULL;
}

void link_close(struct link *link)
{
	char path[SEGMENT_PATH_MAX];

	if (link->produces) {
		segment_link_path(segment_self(), link_self(), link->place, path);
		segment_unlink(path);
		munmap(link->produced, link->produced_size);
	}
	if (link->consumes)
		munmap(link->consumed, link->consumed_size);
	link_remove(link);
	link->produces = link->consumes = false;
	link->closed = true;
	if (!link->pairs)
		free(link);
}

void link_forget_all(void)
{
	link_first = NULL;
	memset(links, 0, sizeof(links));
	accepted = 0;
}

void link_nudge(struct link *link)
{
	const struct segment_process *process = segment_process(link->place);

	if (__atomic_load_n(&process->sleeping, __ATOMIC_RELAXED) &&
	    !segment_polls(process, segment_now()))
		segment_ring(link->place);
}

void link_publish(struct link *link, struct ring *ring)
{
	ring_publish(ring);
	/* Pairs with the fence of the process that is about to sleep or to stop polling. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	link_nudge(link);
}
