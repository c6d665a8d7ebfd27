/* SPDX-License-Identifier: BSD-3-Clause */
/* job.c -- chooses the host leader; reports and removes the files of other processes */
#include "report/job.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/atomics.h"
#include "base/identity.h"
#include "base/kernel.h"
#include "base/proc_stat.h"
#include "base/runtime.h"
#include "base/system.h"
#include "base/text.h"
#include "report/statistics.h"

static char leader_file[96]; /* name of the leader file while this process holds it; else "" */

/* ---- files of other processes ---- */

static bool job_has_ended(const struct segment *segment)
{
	return load_seq_cst(&segment->header.state) != SEGMENT_RUNNING;
}

static bool job_is_live(const struct segment *segment)
{
	return !job_has_ended(segment) &&
	       proc_stat_lives(segment->header.process, segment->header.process_start);
}

/* Job names are reused. An ended process is of another job if it ended 60 s or more before this one
 * started; a killed process, if the two starts are 60 s or more apart. */
#define TOGETHER_NS 60000000000u

static bool job_was_concurrent(const struct segment_header *header)
{
	uint64_t own_start = statistics_segment.header.started_ns, other_start = header->started_ns;

	if (load_seq_cst(&header->state) == SEGMENT_ENDED)
		return other_start + (load_seq_cst(&header->ended_clock_ns) - header->clock_ns) +
			       TOGETHER_NS >
		       own_start;
	return (own_start > other_start ? own_start - other_start : other_start - own_start) <
	       TOGETHER_NS;
}

/* Compare hosts: several hosts may share the folder, and process numbers are local to a host. */
static bool job_includes(const struct segment *segment)
{
	const struct segment_header *header = &segment->header;

	if (header->process == kernel_process() || !text_equals(header->job, process_job()) ||
	    !text_equals(header->host, statistics_segment.header.host) ||
	    load_seq_cst(&header->state) == SEGMENT_TOLD)
		return false;
	return job_is_live(segment) || job_was_concurrent(header);
}

/* Map the segment of a file read-only. NULL: no valid segment, or not of this job. The caller
 * unmaps. */
static struct segment *job_open_other(int folder, const char *name)
{
	struct segment *segment = MAP_FAILED;
	struct stat status;
	int fd = kernel_open_at(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);

	if (fd < 0)
		return NULL;
	if (!kernel_describe(fd, &status) && S_ISREG(status.st_mode) &&
	    (size_t)status.st_size >= sizeof(*segment))
		segment = kernel_map_to_read(sizeof(*segment), fd);
	kernel_close(fd);
	if (segment == MAP_FAILED)
		return NULL;
	if (!segment_refused(segment, sizeof(*segment)) && job_includes(segment))
		return segment;
	kernel_unmap(segment, sizeof(*segment));
	return NULL;
}

/* Call `look` for each other process of the job until `look` returns false. */
static void job_walk_others(int folder,
			    bool (*look)(int folder, const char *name,
					 const struct segment *segment, void *argument),
			    void *argument)
{
	_Alignas(struct kernel_entry) char entries[4096];
	bool more = true;
	ssize_t length;

	while (more && (length = kernel_entries(folder, entries, sizeof(entries))) > 0) {
		for (ssize_t at = 0; more && at < length;) {
			struct kernel_entry *entry = (struct kernel_entry *)(entries + at);
			struct segment *segment = runtime_process_of(entry->name)
							  ? job_open_other(folder, entry->name)
							  : NULL;

			if (segment) {
				more = look(folder, entry->name, segment, argument);
				kernel_unmap(segment, sizeof(*segment));
			}
			at += entry->length;
		}
	}
}

static bool job_note_live(int folder, const char *name, const struct segment *segment,
			  void *argument)
{
	bool *live = argument;

	(void)folder;
	(void)name;
	*live = job_is_live(segment);
	return !*live;
}

/* ---- host leader ---- */

static bool job_create_leader_file(int folder)
{
	char text[40];
	int fd = kernel_open_at(folder, leader_file,
				O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int length;

	if (fd < 0)
		return false;
	length = system_format(text, sizeof(text), "%d %llu", kernel_process(),
			       (unsigned long long)statistics_segment.header.process_start);
	/* An empty file counts as a live leader's (job_leader_was_killed()). */
	if (kernel_write(fd, text, (size_t)length) < 0)
		errno = 0;
	kernel_close(fd);
	return true;
}

/* Return true if the creator of the leader file was killed while reporting; false if unknown. */
static bool job_leader_was_killed(int folder)
{
	char text[40] = "";
	const char *at = text;
	uint64_t process;
	int fd = kernel_open_at(folder, leader_file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);

	if (fd < 0)
		return false;
	if (kernel_read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	kernel_close(fd);
	process = text_number(&at);
	at += *at == ' ';
	return process && process < 100000000 && !proc_stat_lives((int)process, text_number(&at));
}

static bool job_claim_leader(int folder)
{
	char job[64];

	identity_make_safe(process_job(), job, sizeof(job));
	system_format(leader_file, sizeof(leader_file), "%s" RUNTIME_LEADER, job);
	if (job_create_leader_file(folder))
		return true;
	if (!job_leader_was_killed(folder))
		return false;
	kernel_unlink_at(folder, leader_file);
	return job_create_leader_file(folder);
}

bool job_speaks(void)
{
	bool other_is_live = false, leads;
	int folder;

	if (process_rank() < 0 || !process_job()[0])
		return true;
	folder = statistics_folder();
	/* No file: a leader has reported this process, or a third party cleaned the folder. */
	if (folder < 0)
		return load_seq_cst(&statistics_segment.header.state) != SEGMENT_TOLD;
	job_walk_others(folder, job_note_live, &other_is_live);
	leads = !other_is_live && job_claim_leader(folder);
	/* A leader reported this process during the walk. */
	if (leads && !statistics_has_file(folder)) {
		kernel_unlink_at(folder, leader_file);
		leads = false;
	}
	if (!leads)
		leader_file[0] = '\0';
	kernel_close(folder);
	return leads;
}

void job_spoken(void)
{
	int folder = leader_file[0] ? runtime_folder() : -1;

	if (folder < 0)
		return;
	kernel_unlink_at(folder, leader_file);
	kernel_close(folder);
	leader_file[0] = '\0';
}

/* ---- report of the other processes ---- */

struct report {
	void (*take)(const struct segment *segment, void *argument);
	void *argument;
};

/* Mark the segment before its file is removed. A process that looks for its file later finds none,
 * but finds the mark in its own memory. */
static void job_mark_reported(int folder, const char *name)
{
	const uint32_t reported = SEGMENT_TOLD;
	int fd = kernel_open_at(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);

	if (fd < 0)
		return;
	if (kernel_write_at(fd, &reported, sizeof(reported),
			    offsetof(struct segment, header.state)) < 0)
		errno = 0;
	kernel_close(fd);
}

static bool job_report_other(int folder, const char *name, const struct segment *segment,
			     void *argument)
{
	const struct report *report = argument;

	report->take(segment, report->argument);
	if (job_has_ended(segment)) {
		job_mark_reported(folder, name);
		kernel_unlink_at(folder, name);
	}
	return true;
}

void job_each_other(void (*take)(const struct segment *segment, void *argument), void *argument)
{
	struct report report = { take, argument };
	int folder = leader_file[0] ? runtime_folder() : -1;

	if (folder < 0)
		return;
	job_walk_others(folder, job_report_other, &report);
	kernel_close(folder);
}
