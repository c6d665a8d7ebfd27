/* SPDX-License-Identifier: BSD-3-Clause */
/* job.c -- chooses the host leader; reports and removes the files of other processes */
#include "report/job.h"

#include "base/atomics.h"
#include "base/identity.h"
#include "base/job_file.h"
#include "base/kernel.h"
#include "base/runtime.h"
#include "base/shared_memory.h"
#include "base/text.h"
#include "report/statistics.h"

static bool leads_others;

bool job_leads(void)
{
	int last = job_file_lead();
	bool has_file = statistics_has_file();

	/* The leader may be done, or report this process now. Its mark precedes the removal of the
	 * file: check the mark last. */
	if (load_seq_cst(&statistics_segment.header.state) == SEGMENT_REPORTED)
		return false;
	leads_others = last > 0;
	/* No leader can report a process without a file. */
	return last || !has_file;
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

/* Compare hosts: containers with host names of their own may share the folder. Process numbers are
 * local to a container: compare the start, too. */
static bool job_includes(const struct segment_header *header)
{
	const struct segment_header *own = &statistics_segment.header;

	return (header->process != own->process || header->started_ns != own->started_ns) &&
	       text_equals(header->job, identity_job()) && text_equals(header->host, own->host) &&
	       load_seq_cst(&header->state) != SEGMENT_REPORTED && job_was_concurrent(header);
}

struct report {
	int folder;
	void (*take)(const struct segment *segment, void *argument);
	void *argument;
};

static void job_report_segment(const struct report *report, const char *name,
			       struct segment *segment)
{
	if (segment_refused(segment, sizeof(*segment)) || !job_includes(&segment->header))
		return;
	report->take(segment, report->argument);
	if (load_seq_cst(&segment->header.state) != SEGMENT_ENDED)
		return;
	/* The process sees the mark in its own memory. Mark it before its file is removed. */
	store_seq_cst(&segment->header.state, SEGMENT_REPORTED);
	runtime_remove(report->folder, name);
}

static bool job_report_file(const char *name, void *argument)
{
	const struct report *report = argument;
	struct shared_memory memory;
	struct segment *segment;
	int fd = -1;

	if (runtime_process_of(name))
		fd = kernel_open_at(report->folder, name,
				    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
	if (fd < 0)
		return true;
	if (!shared_memory_read(fd, &memory) && memory.size == sizeof(*segment)) {
		segment = shared_memory_map(&memory, true);
		if (segment)
			job_report_segment(report, name, segment);
		if (segment)
			shared_memory_unmap(segment);
	}
	kernel_close(fd);
	return true;
}

void job_each_other(void (*take)(const struct segment *segment, void *argument), void *argument)
{
	struct report report = { leads_others ? runtime_folder(NULL) : -1, take, argument };

	if (report.folder < 0)
		return;
	kernel_walk(report.folder, job_report_file, &report);
	kernel_close(report.folder);
}
