/* SPDX-License-Identifier: BSD-3-Clause */
/* summary.c -- the table and the file of results, when the program exits
 *
 * The processes of a job on one host are told of in one table, by the last of them that exits. The others leave their
 * numbers in the runtime folder for it.
 */
#include "base/statistics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "base/config.h"
#include "base/emit.h"
#include "base/identity.h"
#include "base/job.h"
#include "base/kernel.h"
#include "base/log.h"
#include "base/own_file.h"
#include "base/proc_stat.h"
#include "base/process.h"
#include "base/runtime.h"
#include "base/system.h"
#include "base/text.h"

/* ---- the file of results ---- */

/* A name that is free; fails with EEXIST for any other. Some file systems (of object stores, of other systems) know no links: there
 * the name is taken by an empty file first. */
static int take_name(const char *name, const void *partial)
{
	int fd;

	if (!kernel_link(partial, name))
		return 0;
	if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
		return -1;
	fd = kernel_open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	kernel_close(fd);
	return kernel_rename(partial, name);
}

/* Two processes may want one name. */
static int give_name(const char *partial, const char *name)
{
	char numbered[4096];

	if ((size_t)system_format(numbered, sizeof(numbered), "%s", name) >= sizeof(numbered))
		return -ENAMETOOLONG;
	return own_file_number(numbered, sizeof(numbered), take_name, partial);
}

static bool ends_in(const char *name, const char *end)
{
	size_t length = text_length(name), wanted = text_length(end);

	return length >= wanted && text_equals(name + length - wanted, end);
}

static int write_to(struct output *output, const struct emit_source *source, int fd, enum emit_form form)
{
	*output = (struct output){ .take = output_to_file, .argument = (void *)(intptr_t)fd };
	emit(output, source, form);
	return output_end(output);
}

static int write_results(struct output *output, const struct emit_source *source, const char *name)
{
	bool prometheus = ends_in(name, ".prom");
	char partial[4096];
	int fd, error;

	if (identity_stream(name) >= 0)
		return write_to(output, source, identity_stream(name), EMIT_JSON);
	if (own_file_is_special(name))
		return -OWN_FILE_SPECIAL;
	/* In containers process numbers are few: one that was killed here, or that writes just now, may have had the same. */
	if ((size_t)system_format(partial, sizeof(partial), "%s.partial.%d.%llx", name, kernel_process(),
				  (unsigned long long)kernel_time()) >= sizeof(partial))
		return -ENAMETOOLONG;
	fd = kernel_open(partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	error = write_to(output, source, fd, prometheus ? EMIT_PROMETHEUS : EMIT_JSON);
	if (kernel_close(fd) && !error)
		error = -errno;
	/* A collector reads the file over and over, and wants the newest. Elsewhere a name that exists is a run's result. */
	if (!error && prometheus)
		return kernel_rename(partial, name) ? -errno : 0;
	if (!error)
		error = give_name(partial, name);
	kernel_unlink(partial);
	return error;
}

/* ---- the table ---- */

static struct segment others; /* in an exit handler there may be no room for it on the stack */

static void take_other(const struct segment *segment, void *argument)
{
	const struct segment_header *header = &segment->header;
	struct emit_source *sum = argument;
	uint64_t began = atomic_load(&header->clock_ns), ended = atomic_load(&header->ended_clock_ns);

	segment_add(&others, segment);
	sum->processes++;
	sum->used += usage_is_used(segment);
	/* That of the longest, as far as it is known. */
	if (ended > began && ended - began > sum->elapsed_ns)
		sum->elapsed_ns = ended - began;
	sum->killed += atomic_load(&header->state) == SEGMENT_RUNNING &&
		       !proc_stat_lives(header->process, header->process_start);
}

/* Makes it a source of all of the job's processes on this host, if this one is not alone. */
static void gather(struct emit_source *source)
{
	job_each_other(take_other, source);
	if (source->processes == 1)
		return;
	segment_add(&others, &statistics_segment);
	source->used += usage_is_used(&statistics_segment);
	others.header = statistics_segment.header;
	others.header.threads = 1;
	source->segment = &others;
}

/* A program that has opened no adapter has nothing to do with it, and wants to hear nothing. */
static bool is_worth_a_table(const struct segment *segment)
{
	return segment_value(&segment->counters.protection_domains) ||
	       segment_value(&segment->counters.host_requests) || segment_tallied(segment, TALLY_requests);
}

/* Whether what is printed is of all of a job's processes on this host. */
static bool is_for_a_host(void)
{
	return config_get()->summary == SUMMARY_AUTO || config_get()->summary == SUMMARY_TABLE;
}

/* Of ranks that have GPU memory and use no adapter one line is worth it: whoever runs them may think that they do. */
static void report_reason(void)
{
	static const char line[] =
		"peerpin: GPUDirect RDMA not used: no RDMA adapter was opened on this host. "
		"Run 'peerpin doctor' there.\n";

	output_to_file((void *)(intptr_t)STDERR_FILENO, line, sizeof(line) - 1);
}

static void print_table(struct output *output, const struct emit_source *own)
{
	const struct config *config = config_get();
	struct emit_source source = *own;

	if (is_for_a_host())
		gather(&source);
	if (config->summary == SUMMARY_NONE)
		return;
	if (config->summary == SUMMARY_AUTO && !is_worth_a_table(source.segment)) {
		if (source.processes > 1)
			report_reason();
		return;
	}
	write_to(output, &source, STDERR_FILENO, config->summary == SUMMARY_LINE ? EMIT_LINE : EMIT_TABLE);
}

/* What was counted stays where it is. Ranks' names differ, and their cause does not: the first one's is told. */
static void tell_unwritten(const char *name, int error)
{
	char where[RUNTIME_PATH + 64] = "";
	bool kept = statistics_keep_file(where, sizeof(where));

	log_once(LOG_WARN,
		 "PEERPIN_STATS_FILE=%.400s: no statistics written: %s. Name a file in a folder that "
		 "the program may write to.%s%s%s",
		 name, own_file_error_text(-error), kept ? " They are kept in " : "", kept ? where : "",
		 kept ? ", which peerpin report reads." : "");
}

void statistics_finish(void)
{
	static struct output output; /* too large for a small exit stack */
	struct segment_header *header = &statistics_segment.header;
	struct emit_source source = { .segment = &statistics_segment, .end = EMIT_EXITED, .processes = 1 };
	uint64_t now = statistics_clock();
	int error;
	const char *name = statistics_results(&error);

	source.elapsed_ns = now - header->clock_ns;
	atomic_store(&header->ended_clock_ns, now);
	atomic_store(&header->state, SEGMENT_ENDED);
	if (*name)
		error = write_results(&output, &source, name);
	if (error)
		tell_unwritten(*name ? name : config_get()->stats_file, error);
	/* Another one will tell of this one, too. */
	if (is_for_a_host() && !job_speaks())
		return;
	print_table(&output, &source);
	job_spoken();
	statistics_remove_file();
}
