/* SPDX-License-Identifier: BSD-3-Clause */
/* summary.c -- the numbers' way out of the process: snapshots, PEERPIN_STATS_FILE, table at exit
 *
 * One rank of a host prints a table, the one whose launcher says local rank 0. A process without
 * that variable may be one of many: it prints a line.
 */
#include "report/statistics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/config_reader.h"
#include "base/identity.h"
#include "base/job_file.h"
#include "base/kernel.h"
#include "base/log.h"
#include "base/own_file.h"
#include "base/proc_stat.h"
#include "base/runtime.h"
#include "base/start.h"
#include "base/system.h"
#include "base/text.h"
#include "report/output.h"

static uint64_t summary_elapsed(void)
{
	return system_clock() - statistics.process.clock_ns;
}

static int summary_write_to(struct output *output, int fd, bool ended)
{
	*output = (struct output){ .take = output_to_file, .argument = (void *)(intptr_t)fd };
	json_write(output, ended, summary_elapsed());
	return output_end(output);
}

/* ---- snapshots ---- */

/* Pauses between snapshots: doubled from the first to the longest, so that a short run that is
 * killed leaves numbers, too. */
#define SNAPSHOT_FIRST	 10000000u	    /* ns */
#define SNAPSHOT_LONGEST 500000000u	    /* ns */
#define SNAPSHOT_BYTES	 ((size_t)16 << 10) /* at most, for the room in the folder */
#define SNAPSHOT_END_TRY 100		    /* times 1 ms, for the thread that writes one */

static char snapshot[RUNTIME_PATH + RUNTIME_NAME]; /* absolute name; "": no file */
static int snapshot_refused;			   /* 0, or -errno: the reason for no file */
static _Atomic uint64_t snapshot_due;		   /* by system_coarse_clock(); 0: none */
static atomic_flag snapshot_is_written = ATOMIC_FLAG_INIT; /* by one thread */

/* A rename is atomic: a reader finds the last snapshot or this one, and a failed write leaves the
 * last one. No descriptor stays open, which the program could close and reuse. */
static int snapshot_write(struct output *output, bool ended)
{
	char partial[sizeof(snapshot) + sizeof(RUNTIME_PARTIAL)];
	int fd, error;

	snprintf(partial, sizeof(partial), "%s" RUNTIME_PARTIAL, snapshot);
	fd = kernel_open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fd;
	error = summary_write_to(output, fd, ended);
	kernel_close(fd);
	if (!error)
		error = kernel_rename_at(AT_FDCWD, partial, snapshot);
	if (error)
		kernel_unlink_at(AT_FDCWD, partial);
	return error;
}

static int snapshot_write_next(void)
{
	static struct output output; /* too large for a thread's stack */
	static uint64_t pause = SNAPSHOT_FIRST;

	store_relaxed(&snapshot_due, system_coarse_clock() + pause);
	pause = 2 * pause < SNAPSHOT_LONGEST ? 2 * pause : SNAPSHOT_LONGEST;
	return snapshot_write(&output, false);
}

void statistics_snapshot(void)
{
	uint64_t due = load_relaxed(&snapshot_due);

	if (!due || system_coarse_clock() < due || atomic_flag_test_and_set(&snapshot_is_written))
		return;
	if (load_relaxed(&snapshot_due) == due)
		snapshot_write_next();
	atomic_flag_clear(&snapshot_is_written);
}

static int snapshot_begin(void)
{
	char path[RUNTIME_PATH];
	int folder = runtime_folder(path), error = 0;

	if (folder < 0)
		return folder;
	runtime_clean(folder);
	if (!runtime_has_room(folder, SNAPSHOT_BYTES))
		error = -ENOSPC;
	kernel_close(folder);
	if (error)
		return error;
	runtime_name_file(path, snapshot);
	error = snapshot_write_next();
	if (error) {
		store_relaxed(&snapshot_due, 0);
		snapshot[0] = '\0';
	}
	return error;
}

/* Write the last snapshot, or remove the file. A thread that was stopped while it wrote one leaves
 * the mark: the exit goes on without it. */
static void snapshot_end(bool stays)
{
	static struct output output;

	if (!snapshot[0])
		return;
	store_relaxed(&snapshot_due, 0);
	for (int i = 0; i < SNAPSHOT_END_TRY && atomic_flag_test_and_set(&snapshot_is_written); i++)
		kernel_sleep(1000000);
	if (!stays)
		kernel_unlink_at(AT_FDCWD, snapshot);
	else
		snapshot_write(&output, true);
}

/* ---- file of results ---- */

static char results[4096]; /* absolute name from PEERPIN_STATS_FILE; "": none */
static int results_error;  /* 0, or -errno: the reason for no name */

/* Error: the name asks for Prometheus' text. */
#define RESULTS_PROMETHEUS 4002

static bool results_end_in(const char *name, const char *end)
{
	size_t length = text_length(name), end_length = text_length(end);

	return length >= end_length && text_equals(name + length - end_length, end);
}

/* The name is fixed at activation: the program may change its folder. */
static void results_begin(void)
{
	const char *pattern = config_get()->stats_file;

	if (pattern)
		results_error = own_file_name(pattern, results, sizeof(results));
	if (!results_error && results_end_in(results, ".prom"))
		results_error = -RESULTS_PROMETHEUS;
	if (results_error)
		results[0] = '\0';
}

static int results_write_to(int fd, void *output)
{
	return summary_write_to(output, fd, true);
}

/* Log once per host: names differ between ranks, causes do not. */
static void results_log_unwritten(int error)
{
	bool kept = snapshot[0];

	if (error == -RESULTS_PROMETHEUS) {
		log_once(LOG_WARN,
			 "PEERPIN_STATS_FILE=%.400s: no statistics written: the library writes "
			 "JSON. "
			 "Name a .json file, and let 'peerpin report --prometheus' make this one.",
			 config_get()->stats_file);
		return;
	}
	log_once(LOG_WARN, "PEERPIN_STATS_FILE=%.400s: no statistics written: %s. %s.%s%s%s",
		 *results ? results : config_get()->stats_file, own_file_error_text(-error),
		 own_file_error_fix(-error), kept ? " The statistics are in " : "", snapshot,
		 kept ? ": read them with peerpin report." : "");
}

/* ---- table ---- */

/* Without an adapter there is a table only where a setting requests an effect on GPU memory. */
static bool summary_is_worth_it(void)
{
	const struct config *config = config_get();

	return config->keep || config->keep_host || config->preregister == PREREGISTER_EAGER ||
	       statistics_get(protection_domains) || statistics_get(host_requests) ||
	       statistics_tallied(TALLY_requests);
}

/* A line for ranks with GPU memory and without an adapter: the user may expect RDMA. */
static void summary_report_no_adapter(void)
{
	static const char line[] =
		"peerpin: GPUDirect RDMA not used: no RDMA adapter was opened by local rank 0. "
		"Run 'peerpin doctor' on its host.\n";

	log_take(NULL, line, sizeof(line) - 1);
}

static enum summary_mode summary_choose(bool worth_it)
{
	enum summary_mode mode = config_get()->summary;
	int local_rank = identity_local_rank();

	if (mode == SUMMARY_NONE || mode == SUMMARY_LINE)
		return mode;
	if (local_rank > 0 || (mode == SUMMARY_AUTO && !worth_it))
		return SUMMARY_NONE;
	return mode == SUMMARY_TABLE || !local_rank ? SUMMARY_TABLE : SUMMARY_LINE;
}

static void summary_print(struct output *output, bool worth_it)
{
	*output = (struct output){ .take = log_take };
	switch (summary_choose(worth_it)) {
	case SUMMARY_TABLE:
		table_write(output, summary_elapsed());
		break;
	case SUMMARY_LINE:
		table_write_line(output);
		break;
	default:
		if (config_get()->summary == SUMMARY_AUTO && !identity_local_rank() &&
		    identity_local_size() != 1)
			summary_report_no_adapter();
	}
	output_end(output);
}

/* ---- begin and end ---- */

static void summary_describe(struct statistics_process *process)
{
	struct stat status;

	process->number = kernel_process();
	process->rank = identity_rank();
	process->local_rank = identity_local_rank();
	process->local_size = identity_local_size();
	if (!kernel_describe_at(AT_FDCWD, "/proc/self/ns/pid", &status, 0))
		process->name_space = status.st_ino;
	process->start = proc_stat_start();
	process->started_ns = kernel_time(CLOCK_REALTIME);
	process->clock_ns = system_clock();
	text_copy(process->version, sizeof(process->version), PACKAGE_VERSION);
	text_copy(process->host, sizeof(process->host), identity_host());
	text_copy(process->program, sizeof(process->program), start_program());
	text_copy(process->job, sizeof(process->job), identity_job());
	config_text_changed(config_get(), '\n', process->settings, sizeof(process->settings));
}

void statistics_begin(void)
{
	results_begin();
	summary_describe(&statistics.process);
	job_file_join();
	snapshot_refused = snapshot_begin();
}

void statistics_begin_observed(void)
{
	summary_describe(&statistics.process);
	snapshot_begin();
}

void statistics_finish_observed(void)
{
	snapshot_end(false);
}

void statistics_renew_observed(void)
{
	store_relaxed(&snapshot_due, 0);
	snapshot[0] = '\0';
	atomic_flag_clear(&snapshot_is_written);
}

void statistics_begun(void)
{
	char path[RUNTIME_PATH];

	if (snapshot_refused)
		log_message(
			LOG_INFO,
			"no file for the statistics (%s): they are lost if the program is killed",
			strerror(-snapshot_refused));
	if (runtime_is_refused(path))
		log_once(LOG_WARN,
			 "%s is not used: others can reach it, or it is another user's. The "
			 "statistics are in %s. Remove it, or set XDG_RUNTIME_DIR to a folder of "
			 "your own.",
			 path, snapshot[0] ? snapshot : "memory alone");
}

void statistics_finish(void)
{
	static struct output output; /* too large for a small exit stack */
	bool worth_it = summary_is_worth_it();
	int error = results_error;

	if (*results)
		error = own_file_write_whole(results, results_write_to, &output);
	snapshot_end(error || (worth_it && !*results));
	if (error)
		results_log_unwritten(error);
	summary_print(&output, worth_it);
	job_file_leave();
}
