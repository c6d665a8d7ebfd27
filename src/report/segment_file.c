/* SPDX-License-Identifier: BSD-3-Clause */
/* segment_file.c -- maps this process's segment into a file of the runtime folder
 *
 * The segment is a static object on pages of its own. Every thread can count from the first
 * instruction on, at an address that never changes. At activation the pages of a file are mapped
 * over the object. Hazard: counts are lost if made in the few microseconds between copy and
 * mapping. Threads that allocate wait meanwhile (process_activate()): only requests for host memory
 * and the like are affected.
 *
 * All memory of the file is allocated before the mapping. A runtime folder without room then fails
 * at once, instead of killing the program with SIGBUS later.
 */
#include "base/atomics.h"
#include "report/statistics.h"

#include <errno.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/config_reader.h"
#include "base/identity.h"
#include "base/job_file.h"
#include "base/kernel.h"
#include "base/log.h"
#include "base/own_file.h"
#include "base/proc_stat.h"
#include "base/process.h"
#include "base/runtime.h"
#include "base/signal_safe_write.h"
#include "base/system.h"
#include "base/text.h"
#include "peerpin.h"

static char file_name[32]; /* name in the runtime folder; "": no file */
static bool mapped;	   /* pages of a file are mapped, named or unlinked */
static int refused;	   /* 0, or -errno: reason for no file */

static char results[4096]; /* absolute name from PEERPIN_STATS_FILE */
static int results_error;  /* 0, or -errno: reason for no name */

static void segment_file_describe(struct segment_header *header)
{
	const struct config *config = config_get();

	header->layout = segment_layout();
	header->size = sizeof(statistics_segment);
	header->process = kernel_process();
	header->rank = process_rank();
	header->local_rank = process_local_rank();
	proc_stat_parent(0, &header->process_start);
	header->started_ns = kernel_time(CLOCK_REALTIME);
	header->clock_ns = system_clock();
	text_copy(header->version, sizeof(header->version), peerpin_version());
	text_copy(header->host, sizeof(header->host), process_host());
	text_copy(header->program, sizeof(header->program), system_program());
	text_copy(header->job, sizeof(header->job), process_job());
	config_text_changed(config, '\n', header->settings, sizeof(header->settings));
	for (size_t i = 0; i < sizeof(header->magic); i++)
		header->magic[i] = SEGMENT_MAGIC[i];
}

static int segment_file_write_at(int fd, const void *from, size_t size, size_t offset)
{
	const char *bytes = from;
	ssize_t now;

	for (size_t done = 0; done < size; done += (size_t)now) {
		now = kernel_write_at(fd, bytes + done, size - done, offset + done);
		if (now <= 0)
			return now ? (int)now : -EIO;
	}
	return 0;
}

/* Return the length of the part of the segment that may differ from 0. */
static size_t segment_file_used_bytes(void)
{
	uint32_t threads = load_seq_cst(&statistics_segment.header.threads);

	/* The shared lines at the end are in use once all own lines are assigned. */
	return threads < TALLIES_OWN
		       ? offsetof(struct segment, tallies) + threads * sizeof(struct tallies)
		       : sizeof(statistics_segment);
}

static int segment_file_copy(int fd)
{
	return segment_file_write_at(fd, &statistics_segment, segment_file_used_bytes(), 0);
}

static int segment_file_map(int fd)
{
	size_t page = getauxval(AT_PAGESZ);
	int error;

	/* Check the alignment: dynamic linkers before glibc 2.35 ignore alignments above the page
	 * size. */
	if (!page || (uintptr_t)&statistics_segment % page || sizeof(statistics_segment) % page)
		return -EINVAL;
	/* Suppress SIGXFSZ: a small limit on file sizes would kill the program. */
	error = signal_safe_allocate(fd, sizeof(statistics_segment));
	if (!error)
		error = segment_file_copy(fd);
	if (!error)
		error = kernel_map_over(&statistics_segment, sizeof(statistics_segment), fd);
	mapped = !error;
	return error;
}

static int segment_file_begin(int folder)
{
	char partial[sizeof(file_name) + 8];
	int fd, error;

	if (!runtime_has_room(folder, sizeof(statistics_segment)))
		return -ENOSPC;
	system_format(file_name, sizeof(file_name), "%d" RUNTIME_STATS, kernel_process());
	system_format(partial, sizeof(partial), "%s.new", file_name);
	kernel_unlink_at(folder, partial);
	fd = kernel_open_at(folder, partial, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0600);
	if (fd < 0)
		return fd;
	error = segment_file_map(fd);
	kernel_close(fd);
	/* Replace the file of an earlier process with an equal number. */
	if (!error)
		error = kernel_rename_at(folder, partial, file_name);
	if (error)
		kernel_unlink_at(folder, partial);
	return error;
}

static void segment_file_name_results(void)
{
	if (config_get()->stats_file)
		results_error = own_file_name(config_get()->stats_file, results, sizeof(results));
	if (results_error)
		results[0] = '\0';
}

const char *statistics_results(int *error)
{
	*error = results_error;
	return results;
}

void statistics_begin(void)
{
	int folder;

	segment_file_name_results();
	segment_file_describe(&statistics_segment.header);
	job_file_join();
	folder = runtime_folder(NULL);
	if (folder >= 0)
		runtime_clean(folder);
	refused = folder < 0 ? folder : segment_file_begin(folder);
	if (refused)
		file_name[0] = '\0';
	if (folder >= 0)
		kernel_close(folder);
}

void statistics_begun(void)
{
	if (refused)
		log_message(
			LOG_INFO,
			"no file for the statistics (%s): they are lost if the program is killed",
			system_error_text(-refused));
}

void statistics_leave(void)
{
	size_t used = segment_file_used_bytes();
	char *copy;

	file_name[0] = '\0';
	if (!mapped)
		return;
	mapped = false;
	/* The mapped pages belong to the parent. If the copy fails, the child's few counts stay in
	 * them. */
	copy = kernel_map_memory(sizeof(statistics_segment));
	if (!copy)
		return;
	for (size_t i = 0; i < used; i++)
		copy[i] = ((const volatile char *)&statistics_segment)[i];
	kernel_move(copy, sizeof(statistics_segment), &statistics_segment);
}

bool statistics_has_file(void)
{
	int folder = file_name[0] ? runtime_folder(NULL) : -1;
	struct stat status;
	bool there;

	if (folder < 0)
		return false;
	there = !kernel_describe_at(folder, file_name, &status, AT_SYMLINK_NOFOLLOW);
	kernel_close(folder);
	return there;
}

static int segment_file_take_name(const char *name, const void *own)
{
	return kernel_link(own, name);
}

bool statistics_keep_file(char *where, size_t size)
{
	char path[RUNTIME_PATH], own[RUNTIME_PATH + sizeof(file_name)];
	int folder = file_name[0] ? runtime_folder(path) : -1;

	if (folder < 0)
		return false;
	kernel_close(folder);
	system_format(own, sizeof(own), "%s/%s", path, file_name);
	return (size_t)system_format(where, size, "%s/%d" RUNTIME_KEPT RUNTIME_STATS, path,
				     kernel_process()) < size &&
	       own_file_number(where, size, segment_file_take_name, own) >= 0;
}

void statistics_remove_file(void)
{
	int folder = file_name[0] ? runtime_folder(NULL) : -1;

	if (folder < 0)
		return;
	kernel_unlink_at(folder, file_name);
	kernel_close(folder);
	file_name[0] = '\0';
}
