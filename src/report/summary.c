/* SPDX-License-Identifier: BSD-3-Clause */
/* summary.c -- table and file of results at exit
 *
 * The host leader prints one table for all processes of a job on its host. The other processes
 * leave their segments in the runtime folder.
 */
#include "base/atomics.h"
#include "report/statistics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>

#include "base/config.h"
#include "base/identity.h"
#include "base/job_file.h"
#include "base/kernel.h"
#include "base/log.h"
#include "base/own_file.h"
#include "base/proc_stat.h"
#include "base/process.h"
#include "base/runtime.h"
#include "base/start.h"
#include "base/system.h"
#include "base/text.h"
#include "report/emit.h"
#include "report/job.h"

/* ---- file of results ---- */

/* Take a free name; return -EEXIST if the name exists. Some file systems (object stores, foreign
 * systems) have no links: create an empty file there, and rename over that file. */
static int summary_take_name(const char *name, const void *partial)
{
	int error = kernel_link(partial, name), fd;

	if (error != -EPERM && error != -EOPNOTSUPP && error != -ENOSYS)
		return error;
	fd = kernel_open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fd;
	kernel_close(fd);
	return kernel_rename_at(AT_FDCWD, partial, name);
}

/* Number the name if taken: two processes may use one name. */
static int summary_give_name(const char *partial, const char *name)
{
	char numbered[4096];

	if ((size_t)snprintf(numbered, sizeof(numbered), "%s", name) >= sizeof(numbered))
		return -ENAMETOOLONG;
	return own_file_number(numbered, sizeof(numbered), summary_take_name, partial);
}

static bool summary_ends_in(const char *name, const char *end)
{
	size_t length = text_length(name), end_length = text_length(end);

	return length >= end_length && text_equals(name + length - end_length, end);
}

static int summary_write_to(struct output *output, const struct emit_source *source, int fd,
			    enum emit_form form)
{
	*output = (struct output){ .take = output_to_file, .argument = (void *)(intptr_t)fd };
	emit(output, source, form);
	return output_end(output);
}

static int summary_write_results(struct output *output, const struct emit_source *source,
				 const char *name)
{
	bool prometheus = summary_ends_in(name, ".prom");
	int fd = identity_stream(name), error, closed;
	char partial[4096];

	if (fd >= 0)
		return start_has_stream(fd) ? summary_write_to(output, source, fd, EMIT_JSON)
					    : -EBADF;
	if (own_file_is_special(name, prometheus ? AT_SYMLINK_NOFOLLOW : 0))
		return -OWN_FILE_SPECIAL;
	/* Add the time: containers reuse small process numbers. A killed or a concurrent process
	 * may have an equal number. */
	if ((size_t)snprintf(partial, sizeof(partial), "%s.partial.%d.%llx", name, kernel_process(),
			     (unsigned long long)kernel_time(CLOCK_REALTIME)) >= sizeof(partial))
		return -ENAMETOOLONG;
	fd = kernel_open(partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fd;
	error = summary_write_to(output, source, fd, prometheus ? EMIT_PROMETHEUS : EMIT_JSON);
	closed = kernel_close(fd);
	if (!error)
		error = closed;
	/* Replace a file for Prometheus: the collector needs the newest. Keep any other existing
	 * file: a former run's result. */
	if (!error && prometheus)
		return kernel_rename_at(AT_FDCWD, partial, name);
	if (!error)
		error = summary_give_name(partial, name);
	kernel_unlink_at(AT_FDCWD, partial);
	return error;
}

/* ---- table ---- */

static struct segment others; /* too large for a small exit stack */

static void summary_take_other(const struct segment *segment, void *argument)
{
	const struct segment_header *header = &segment->header;
	struct emit_source *sum = argument;
	uint64_t began = load_seq_cst(&header->clock_ns),
		 ended = load_seq_cst(&header->ended_clock_ns);

	segment_add(&others, segment);
	sum->processes++;
	sum->used += usage_is_used(segment);
	/* Use the longest known time of a process. */
	if (ended > began && ended - began > sum->elapsed_ns)
		sum->elapsed_ns = ended - began;
	sum->killed += load_seq_cst(&header->state) == SEGMENT_RUNNING &&
		       !proc_stat_is_live(header->process, header->process_start);
}

/* Add the job's other processes on this host to the source, if there are any. */
static void summary_gather(struct emit_source *source)
{
	job_each_other(summary_take_other, source);
	if (source->processes == 1)
		return;
	segment_add(&others, &statistics_segment);
	source->used += usage_is_used(&statistics_segment);
	others.header = statistics_segment.header;
	others.header.threads = 1;
	source->segment = &others;
}

/* Without an adapter print a table only where a setting requests an effect on GPU memory. */
static bool summary_is_worth_table(const struct segment *segment)
{
	const struct config *config = config_get();

	return config->keep || config->keep_host || config->preregister == PREREGISTER_EAGER ||
	       segment_value(&segment->counters.protection_domains) ||
	       segment_value(&segment->counters.host_requests) ||
	       segment_tallied(segment, TALLY_requests);
}

/* Return true if the summary covers all processes of a job on this host. */
static bool summary_is_for_host(void)
{
	return config_get()->summary == SUMMARY_AUTO || config_get()->summary == SUMMARY_TABLE;
}

/* Print a line for ranks with GPU memory and without an adapter: the user may expect RDMA. */
static void summary_report_no_adapter(void)
{
	static const char line[] =
		"peerpin: GPUDirect RDMA not used: no RDMA adapter was opened on this host. "
		"Run 'peerpin doctor' there.\n";

	log_take(NULL, line, sizeof(line) - 1);
}

static void summary_print_table(struct output *output, const struct emit_source *own)
{
	const struct config *config = config_get();
	struct emit_source source = *own;

	if (summary_is_for_host())
		summary_gather(&source);
	if (config->summary == SUMMARY_NONE)
		return;
	if (config->summary == SUMMARY_AUTO && !summary_is_worth_table(source.segment)) {
		if (source.processes > 1)
			summary_report_no_adapter();
		return;
	}
	*output = (struct output){ .take = log_take };
	emit(output, &source, config->summary == SUMMARY_LINE ? EMIT_LINE : EMIT_TABLE);
	output_end(output);
}

/* Keep the segment's file. Log once per host: names differ between ranks, causes do not. */
static void summary_log_unwritten(const char *name, int error)
{
	char where[RUNTIME_PATH + 64] = "";
	bool kept = statistics_keep_file(where, sizeof(where));
	bool full = error == -ENOSPC || error == -EDQUOT;

	log_once(LOG_WARN, "PEERPIN_STATS_FILE=%.400s: no statistics written: %s. %s.%s%s%s", name,
		 own_file_error_text(-error),
		 full ? "Make room, or name a file on another file system"
		      : "Name a file in a writable folder",
		 kept ? " The statistics are in " : "", kept ? where : "",
		 kept ? ": read them with peerpin report." : "");
}

void statistics_finish(void)
{
	static struct output output; /* too large for a small exit stack */
	struct segment_header *header = &statistics_segment.header;
	struct emit_source source = { .segment = &statistics_segment,
				      .end = EMIT_EXITED,
				      .processes = 1 };
	uint64_t now = system_clock();
	int error;
	const char *name = statistics_results(&error);

	source.elapsed_ns = now - header->clock_ns;
	store_seq_cst(&header->ended_clock_ns, now);
	store_seq_cst(&header->state, SEGMENT_ENDED);
	if (*name)
		error = summary_write_results(&output, &source, name);
	if (error)
		summary_log_unwritten(*name ? name : config_get()->stats_file, error);
	/* The host leader reports this process. */
	if (summary_is_for_host() && !job_leads())
		return;
	summary_print_table(&output, &source);
	job_file_leave();
	statistics_remove_file();
}
