/* SPDX-License-Identifier: BSD-3-Clause */
/* summary.c -- the table for people and the JSON for programs, when the program exits */
#include "base/statistics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/kernel.h"
#include "base/log.h"
#include "base/process.h"
#include "base/system.h"
#include "base/text.h"
#include "peerpin.h"

/* Text on its way out: filled without allocation, written in one piece so that ranks do not interleave. */
struct text {
	char bytes[8192];
	size_t used;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *text, const char *format, ...)
{
	size_t room = sizeof(text->bytes) - text->used;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text->bytes + text->used, room, format, arguments);
	va_end(arguments);
	if (length > 0)
		text->used += (size_t)length < room ? (size_t)length : room - 1;
}

static int write_all(int fd, const struct text *text)
{
	size_t done = 0;
	ssize_t now;

	while (done < text->used) {
		now = kernel_write(fd, text->bytes + done, text->used - done);
		if (now < 0 && errno == EINTR)
			continue;
		if (now < 0)
			return -errno;
		done += (size_t)now;
	}
	return 0;
}

static double mebibytes(uint64_t bytes)
{
	return (double)bytes / 1048576.0;
}

static double milliseconds(uint64_t nanoseconds)
{
	return (double)nanoseconds / 1e6;
}

static uint64_t served(void)
{
	return statistics_tallied(TALLY_hits) + statistics_get(waited) + statistics_get(taken_over) +
	       statistics_get(on_demand);
}

static const char *ways(void)
{
	if (!statistics_get(registrations_dma_buf))
		return "peer memory";
	return statistics_get(registrations_peer_memory) ? "dma-buf and peer memory" : "dma-buf";
}

/* The question that users ask first, answered in the first line of results. */
static void add_verdict(struct text *text)
{
	if (served())
		add(text, "GPUDirect RDMA   used: %s, %.1f MiB registered at peak\n", ways(),
		    mebibytes(statistics_get(pinned_bytes_peak)));
	else if (statistics_get(not_served_version))
		add(text, "GPUDirect RDMA   not used by peerpin: this libibverbs is not known to it\n");
	else if (statistics_tallied(TALLY_requests))
		add(text,
		    "GPUDirect RDMA   not used by peerpin: no request could be served (see not served)\n");
	else if (statistics_get(host_requests))
		add(text, "GPUDirect RDMA   not used: only host memory was registered\n");
	else
		add(text, "GPUDirect RDMA   not used: no registration was asked for\n");
}

static void add_reasons(struct text *text)
{
#define STATISTIC(name, meaning)                                                                             \
	if (text_begins(#name, "not_served_") && statistics_get(name))                                       \
		add(text, "  not served     %8llu %s\n", (unsigned long long)statistics_get(name), meaning);
#include "base/statistics.def"
#undef STATISTIC
}

static void add_table(struct text *text)
{
	uint64_t requests = statistics_tallied(TALLY_requests);

	add(text, "peerpin %s  %s  host %s  process %d", peerpin_version(), process_program(), process_host(),
	    kernel_process());
	if (process_rank() >= 0)
		add(text, "  rank %d", process_rank());
	add(text, "\n");
	add_verdict(text);
	add(text, "allocations      %8llu born %8llu freed %8llu unseen frees\n",
	    (unsigned long long)statistics_get(births), (unsigned long long)statistics_get(deaths),
	    (unsigned long long)statistics_get(unseen_frees));
	if (statistics_tallied(TALLY_queries_answered) || statistics_tallied(TALLY_host_answers))
		add(text, "pointer queries  %8llu answered %4llu passed to the driver\n",
		    (unsigned long long)(statistics_tallied(TALLY_queries_answered) +
					 statistics_tallied(TALLY_host_answers)),
		    (unsigned long long)statistics_tallied(TALLY_queries_passed));
	add(text, "registrations    %8llu eager %7llu on request %4llu failed\n",
	    (unsigned long long)statistics_get(registrations_eager),
	    (unsigned long long)(statistics_get(taken_over) + statistics_get(on_demand)),
	    (unsigned long long)statistics_get(registrations_failed));
	add(text,
	    "requests         %8llu hits %8llu (%.1f %%) waited %llu, on request %llu, not served %llu\n",
	    (unsigned long long)requests, (unsigned long long)statistics_tallied(TALLY_hits),
	    requests ? 100.0 * (double)statistics_tallied(TALLY_hits) / (double)requests : 0.0,
	    (unsigned long long)statistics_get(waited),
	    (unsigned long long)(statistics_get(taken_over) + statistics_get(on_demand)),
	    (unsigned long long)statistics_get(not_served));
	add_reasons(text);
	add(text,
	    "time             %.2f ms registering in the background, %.2f ms seen by the program, %.2f ms in "
	    "frees\n",
	    milliseconds(statistics_get(background_ns)), milliseconds(statistics_get(program_ns)),
	    milliseconds(statistics_get(free_ns)));
	add(text,
	    "at free          %8llu deregistered %llu never used, %llu handles revoked, %llu cancelled\n",
	    (unsigned long long)statistics_get(deregistrations),
	    (unsigned long long)statistics_get(never_used), (unsigned long long)statistics_get(revoked),
	    (unsigned long long)statistics_get(cancelled));
	if (statistics_get(internal_errors))
		add(text, "internal errors  %8llu: please report the log\n",
		    (unsigned long long)statistics_get(internal_errors));
}

static void add_string(struct text *text, const char *key, const char *value)
{
	add(text, "  \"%s\": \"", key);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			add(text, "\\%c", *value);
		else if ((unsigned char)*value < 0x20)
			add(text, "\\u%04x", (unsigned char)*value);
		else
			add(text, "%c", *value);
	}
	add(text, "\",\n");
}

static void add_json(struct text *text)
{
	const char *separator = "";

	add(text, "{\n");
	add_string(text, "schema", "peerpin-stats/1");
	add_string(text, "version", peerpin_version());
	add_string(text, "program", process_program());
	add_string(text, "host", process_host());
	add(text, "  \"complete\": true,\n  \"pid\": %d,\n", kernel_process());
	if (process_rank() >= 0)
		add(text, "  \"rank\": %d,\n", process_rank());
	else
		add(text, "  \"rank\": null,\n");
#define STATISTIC(name, meaning)                                                                             \
	add(text, "%s  \"%s\": %llu", separator, #name, (unsigned long long)statistics_get(name));           \
	separator = ",\n";
#define TALLY(name, meaning)                                                                                 \
	add(text, "%s  \"%s\": %llu", separator, #name, (unsigned long long)statistics_tallied(TALLY_##name));
#include "base/statistics.def"
#undef TALLY
#undef STATISTIC
	add(text, "\n}\n");
}

/* Two processes may want one name: the later ones get "-1", "-2", ... appended. */
static int give_name(const char *partial, const char *name)
{
	char numbered[4096];

	if (!kernel_link(partial, name))
		return 0;
	for (int i = 1; errno == EEXIST && i < 100; i++) {
		if ((size_t)system_format(numbered, sizeof(numbered), "%s-%d", name, i) >= sizeof(numbered))
			return -ENAMETOOLONG;
		if (!kernel_link(partial, numbered))
			return 0;
	}
	return -errno;
}

/* Under a temporary name until it is whole; a name that exists already is a run's result, and is kept. */
static int write_file(const char *name, const struct text *text)
{
	char partial[4096];
	int fd, error;

	if ((size_t)system_format(partial, sizeof(partial), "%s.partial.%d", name, kernel_process()) >=
	    sizeof(partial))
		return -ENAMETOOLONG;
	fd = kernel_open(partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	error = write_all(fd, text);
	if (kernel_close(fd) && !error)
		error = -errno;
	if (!error)
		error = give_name(partial, name);
	kernel_unlink(partial);
	return error;
}

void statistics_finish(void)
{
	static struct text text; /* too large for a small exit stack */
	const struct config *config = config_get();
	char name[4000];
	int error;

	if (config->summary != SUMMARY_NONE) {
		add_table(&text);
		write_all(STDERR_FILENO, &text);
		text.used = 0;
	}
	if (!config->stats)
		return;
	add_json(&text);
	error = process_file_name(config->stats, name, sizeof(name));
	if (!error)
		error = write_file(name, &text);
	if (error)
		log_write(LOG_WARN, "PEERPIN_STATS=%s: no statistics written: %s", config->stats,
			  system_error_text(-error));
}
