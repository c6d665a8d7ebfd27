/* SPDX-License-Identifier: BSD-3-Clause */
/* segment_file.c -- moves this process's segment into memory that stays after the process
 *
 * The segment is a static object on pages of its own. Every thread can count from the first
 * instruction on, at an address that never changes. At activation shared memory
 * (base/shared_memory.h) takes the place of the object's pages, and a file of the runtime folder
 * names it. Hazard: counts are lost if made in the few microseconds between copy and move. Threads
 * that allocate wait meanwhile (process_activate()): only requests for host memory and the like are
 * affected.
 */
#include "base/atomics.h"
#include "report/statistics.h"

#include <errno.h>
#include <sys/auxv.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config_reader.h"
#include "base/identity.h"
#include "base/job_file.h"
#include "base/kernel.h"
#include "base/loaded.h"
#include "base/log.h"
#include "base/own_file.h"
#include "base/proc_stat.h"
#include "base/process.h"
#include "base/runtime.h"
#include "base/shared_memory.h"
#include "base/signal_safe_write.h"
#include "base/start.h"
#include "base/system.h"
#include "base/text.h"
#include "peerpin.h"

static char file_name[48];	    /* name in the runtime folder; "": no file */
static struct shared_memory memory; /* of that file */
static bool mapped;		    /* the segment is shared memory, with or without a file */
static int refused;		    /* 0, or -errno: reason for no file */

static char results[4096]; /* absolute name from PEERPIN_STATS_FILE */
static int results_error;  /* 0, or -errno: reason for no name */

static void segment_file_describe(struct segment_header *header)
{
	const struct config *config = config_get();

	header->layout = segment_layout();
	header->size = sizeof(statistics_segment);
	header->process = kernel_process();
	header->rank = identity_rank();
	header->local_rank = identity_local_rank();
	proc_stat_parent(0, &header->process_start);
	header->started_ns = kernel_time(CLOCK_REALTIME);
	header->clock_ns = system_clock();
	text_copy(header->version, sizeof(header->version), peerpin_version());
	text_copy(header->host, sizeof(header->host), identity_host());
	text_copy(header->program, sizeof(header->program), start_program());
	text_copy(header->job, sizeof(header->job), identity_job());
	config_text_changed(config, '\n', header->settings, sizeof(header->settings));
	for (size_t i = 0; i < sizeof(header->magic); i++)
		header->magic[i] = SEGMENT_MAGIC[i];
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

/* Threads may count meanwhile. */
static void segment_file_copy(_Atomic uint64_t *to)
{
	const _Atomic uint64_t *from = (const void *)&statistics_segment;
	size_t words = segment_file_used_bytes() / sizeof(*from);

	for (size_t i = 0; i < words; i++)
		store_relaxed(&to[i], load_relaxed(&from[i]));
}

static int segment_file_map(void)
{
	size_t page = loaded_auxiliary(AT_PAGESZ);
	void *pages;
	int error;

	/* Check the alignment: dynamic linkers before glibc 2.35 ignore alignments above the page
	 * size. */
	if (!page || (uintptr_t)&statistics_segment % page || sizeof(statistics_segment) % page)
		return -EINVAL;
	error = shared_memory_make(&memory, sizeof(statistics_segment), SEGMENT_MAGIC, &pages);
	if (error)
		return error;
	segment_file_copy(pages);
	error = kernel_move(pages, sizeof(statistics_segment), &statistics_segment);
	if (error) {
		shared_memory_unmap(pages);
		shared_memory_remove(&memory);
	}
	mapped = !error;
	return error;
}

/* Names of one process number, in as many PID namespaces that share the folder. */
#define SEGMENT_FILE_NAMES 1000

/* Replace the file of an ended process with an equal number, not that of a live one in another PID
 * namespace. */
static int segment_file_take_name(int folder, const char *partial)
{
	int error = -EEXIST;
	char number[16] = "";

	for (int i = 0; i < SEGMENT_FILE_NAMES && error == -EEXIST; i++) {
		if (i)
			snprintf(number, sizeof(number), "-%d", i);
		snprintf(file_name, sizeof(file_name), "%d%s" RUNTIME_STATS, kernel_process(),
			 number);
		error = kernel_link_at(folder, partial, file_name);
		if (error != -EEXIST || runtime_is_used(folder, file_name))
			continue;
		error = runtime_remove(folder, file_name);
		if (!error)
			error = kernel_link_at(folder, partial, file_name);
	}
	return error;
}

static int segment_file_begin(int folder)
{
	char partial[64];
	int fd, error;

	if (!runtime_has_room(folder, sizeof(memory)))
		return -ENOSPC;
	snprintf(partial, sizeof(partial), "%d.%llx.new", kernel_process(),
		 (unsigned long long)kernel_time(CLOCK_MONOTONIC));
	fd = kernel_open_at(folder, partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0600);
	if (fd < 0)
		return fd;
	error = segment_file_map();
	/* Suppress SIGXFSZ: a small limit on file sizes would kill the program. */
	if (!error)
		error = signal_safe_write(fd, &memory, sizeof(memory));
	kernel_close(fd);
	if (!error)
		error = segment_file_take_name(folder, partial);
	if (error && mapped)
		shared_memory_remove(&memory);
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

static void segment_file_log_refused_folder(void)
{
	char refused_path[RUNTIME_PATH], path[RUNTIME_PATH];
	int folder = -1;

	if (runtime_is_refused(refused_path))
		folder = runtime_folder(path);
	if (folder < 0)
		return;
	kernel_close(folder);
	log_once(LOG_WARN,
		 "%s is not used: others can reach it, or it is another user's. The statistics are "
		 "in %s. Remove it, or set XDG_RUNTIME_DIR to a folder of your own.",
		 refused_path, path);
}

void statistics_begun(void)
{
	if (refused)
		log_message(
			LOG_INFO,
			"no file for the statistics (%s): they are lost if the program is killed",
			strerror(-refused));
	segment_file_log_refused_folder();
}

bool statistics_has_file(void)
{
	int folder = file_name[0] ? runtime_folder(NULL) : -1;
	bool there;

	if (folder < 0)
		return false;
	there = runtime_is_used(folder, file_name);
	kernel_close(folder);
	return there;
}

static int segment_file_write_copy(const char *name, const void *unused)
{
	int fd = kernel_open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int error;

	(void)unused;
	if (fd < 0)
		return fd;
	error = signal_safe_write(fd, &statistics_segment, sizeof(statistics_segment));
	kernel_close(fd);
	if (error)
		kernel_unlink_at(AT_FDCWD, name);
	return error;
}

bool statistics_keep_file(char *where, size_t size)
{
	char path[RUNTIME_PATH];
	int folder = file_name[0] ? runtime_folder(path) : -1;

	if (folder < 0)
		return false;
	kernel_close(folder);
	return (size_t)snprintf(where, size, "%s/%d" RUNTIME_KEPT RUNTIME_STATS, path,
				kernel_process()) < size &&
	       own_file_number(where, size, segment_file_write_copy, NULL) >= 0;
}

void statistics_remove_file(void)
{
	int folder = file_name[0] ? runtime_folder(NULL) : -1;

	if (!file_name[0])
		return;
	/* Its file may be gone or damaged. */
	shared_memory_remove(&memory);
	if (folder < 0)
		return;
	kernel_unlink_at(folder, file_name);
	kernel_close(folder);
	file_name[0] = '\0';
}
