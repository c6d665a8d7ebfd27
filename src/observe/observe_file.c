/* SPDX-License-Identifier: BSD-3-Clause */
/* observe_file.c -- writes the records as JSON, at exit (docs/observe.md) */
#include "observe/observe_tables.h"

#include <stddef.h>
#include <stdio.h>

#include "base/config.h"
#include "base/identity.h"
#include "base/kernel.h"
#include "base/log.h"
#include "base/own_file.h"
#include "base/pci.h"
#include "base/start.h"
#include "base/system.h"
#include "base/text.h"
#include "report/output.h"
#include "report/statistics.h"

#define number(value) ((unsigned long long)(value))

static const char *const file_kinds[] = {
#define KIND(kind, name) #name,
	ALLOCATION_KINDS(KIND)
#undef KIND
		"host",
};

/* "count": 1, "bytes": 2, "ns": 3 with a beginning for each key. */
static void file_add_sum(struct output *output, const char *begin, const struct observed_sum *sum)
{
	output_add(output, "\"%scount\": %llu, \"%sbytes\": %llu, \"%sns\": %llu", begin,
		   number(sum->count), begin, number(sum->bytes), begin, number(sum->ns));
}

static void file_add_text(struct output *output, const char *key, const char *text)
{
	output_add(output, "\"%s\": ", key);
	output_add_string(output, text);
	output_add(output, ", ");
}

/* ---- BAR1 ---- */

#define PCI_DEVICES "/sys/bus/pci/devices"

static void file_read_attribute(const char *function, const char *attribute, char *to, size_t size)
{
	char path[256];
	ssize_t length = -1;
	int fd;

	snprintf(path, sizeof(path), PCI_DEVICES "/%.64s/%s", function, attribute);
	fd = kernel_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0) {
		length = kernel_read(fd, to, size - 1);
		kernel_close(fd);
	}
	to[length > 0 ? length : 0] = '\0';
}

static bool file_visit_function(const char *function, void *least)
{
	uint64_t *bytes = least, bar1;
	char text[1024];

	file_read_attribute(function, "vendor", text, sizeof(text));
	if (!text_begins(text, "0x10de"))
		return true;
	file_read_attribute(function, "class", text, sizeof(text));
	if (!text_begins(text, "0x0300") && !text_begins(text, "0x0302"))
		return true;
	file_read_attribute(function, "resource", text, sizeof(text));
	bar1 = pci_resource_bar1(text);
	if (bar1 && (!*bytes || bar1 < *bytes))
		*bytes = bar1;
	return true;
}

/* The smallest BAR1 of the host's GPUs, in bytes; 0: unknown. */
static uint64_t file_bar1(void)
{
	int folder = kernel_open(PCI_DEVICES, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	uint64_t least = 0;

	if (folder < 0)
		return 0;
	kernel_walk(folder, file_visit_function, &least);
	kernel_close(folder);
	return least;
}

static void file_add_process(struct output *output, const struct observed *observed)
{
	output_add(output, "{\n  ");
	file_add_text(output, "schema", "peerpin-observe/1");
	file_add_text(output, "version", PACKAGE_VERSION);
	file_add_text(output, "program", start_program());
	file_add_text(output, "host", identity_host());
	file_add_text(output, "job", identity_job());
	output_add(output, "\"pid\": %d, \"rank\": %d,\n", kernel_process(), identity_rank());
	output_add(output, "  \"started_ns\": %llu, \"elapsed_ns\": %llu,\n",
		   number(observed->begun_ns), number(system_clock() - observed->begun_clock));
	output_add(output, "  \"bar1_bytes\": %llu,\n", number(file_bar1()));
	output_add(output,
		   "  \"memory_peak_bytes\": %llu, \"pinned_peak_bytes\": %llu, "
		   "\"contexts_ended\": %llu, \"unknown_frees\": %llu, \"lost\": %llu,\n",
		   number(observed->memory_peak), number(observed->pinned_peak),
		   number(observed->contexts_ended), number(observed->unknown_frees),
		   number(observed->lost));
}

/* ---- lists ---- */

/* Write the list of the rows up to `count` for which `add_row` returns true. */
static void file_add_list(struct output *output, const char *name, uint32_t count,
			  const struct observed *observed,
			  bool (*add_row)(struct output *output, const struct observed *observed,
					  uint32_t i, const char *begin))
{
	const char *begin = "\n    {";

	output_add(output, "  \"%s\": [", name);
	for (uint32_t i = 0; i < count; i++) {
		if (!add_row(output, observed, i, begin))
			continue;
		output_add(output, "}");
		begin = ",\n    {";
	}
	output_add(output, "],\n");
}

static bool file_add_caller(struct output *output, const struct observed *observed, uint32_t i,
			    const char *begin)
{
	const struct caller *caller = callers_at(i);

	if (!caller)
		return false;
	output_add(output, "%s", begin);
	file_add_text(output, "name", callers_name(i));
	file_add_text(output, "version", caller->version);
	output_add(output, "\"pinned_peak_bytes\": %llu, ", number(observed->pinned_by_peak[i]));
	file_add_sum(output, "exports_", &observed->exported[i]);
	return true;
}

static bool file_add_kind(struct output *output, const struct observed *observed, uint32_t i,
			  const char *begin)
{
	const struct observed_kind *kind = &observed->kinds[i];

	output_add(output, "%s", begin);
	file_add_text(output, "caller", callers_name(kind->caller));
	file_add_text(output, "adapter", kind->adapter);
	output_add(output, "\"form\": \"%s\", \"memory\": \"%s\", \"access\": %d, ",
		   kind->form == OBSERVED_DMA_BUF ? "dma-buf" : "address",
		   kind->gpu ? "gpu" : "host", kind->access);
	file_add_sum(output, "", &kind->made);
	output_add(output, ", \"failed\": %llu, \"first_second\": %llu, ", number(kind->failed),
		   number(kind->early));
	file_add_sum(output, "deregistered_", &kind->ended);
	return true;
}

static bool file_add_allocations(struct output *output, const struct observed *observed, uint32_t i,
				 const char *begin)
{
	if (!observed->allocated[i].count && !observed->freed[i].count)
		return false;
	output_add(output, "%s\"kind\": \"%s\", ", begin, file_kinds[i]);
	file_add_sum(output, "", &observed->allocated[i]);
	output_add(output, ", ");
	file_add_sum(output, "freed_", &observed->freed[i]);
	return true;
}

static bool file_add_size(struct output *output, const struct observed *observed, uint32_t i,
			  const char *begin)
{
	const struct observed_size *size = &observed->sizes[i];

	if (!size->size)
		return false;
	output_add(output, "%s\"size\": %llu, ", begin, number(size->size));
	file_add_sum(output, "", &size->allocated);
	output_add(output, ", ");
	file_add_sum(output, "freed_", &size->freed);
	output_add(output, ", ");
	file_add_sum(output, "reused_", &size->reused);
	output_add(output, ", \"sampled\": %llu, \"sampled_ns\": %llu, \"waited_ns\": %llu",
		   number(size->sampled), number(size->sampled_ns), number(size->waited_ns));
	return true;
}

/* ---- the timeline ---- */

/* One row of values, at `offset` in each sample, unless all are 0. */
static const char *file_add_row(struct output *output, const struct observed_timeline *timeline,
				const char *kind, const char *caller, size_t offset,
				const char *separator)
{
	const char *between = "";
	uint64_t any = 0;

#define VALUE(i) (*(const uint64_t *)((const char *)&timeline->samples[i] + offset))
	for (uint32_t i = 0; i < timeline->count; i++)
		any |= VALUE(i);
	if (!any)
		return separator;
	output_add(output, "%s\n    {\"kind\": \"%s\", ", separator, kind);
	file_add_text(output, "caller", caller);
	output_add(output, "\"values\": [");
	for (uint32_t i = 0; i < timeline->count; i++, between = ", ")
		output_add(output, "%s%llu", between, number(VALUE(i)));
#undef VALUE
	output_add(output, "]}");
	return ",";
}

static void file_add_timeline(struct output *output, const struct observed_timeline *timeline)
{
	const char *separator, *caller;

	output_add(output, "  \"timeline\": {\"interval_ns\": %llu, \"rows\": [",
		   number(timeline->interval));
	separator = file_add_row(output, timeline, "memory", "",
				 offsetof(struct observed_sample, memory), "");
	for (uint32_t i = 0; i < SAMPLED_CALLERS; i++) {
		caller = i < SAMPLED_CALLERS - 1 ? callers_name(i) : "others";
		separator = file_add_row(output, timeline, "pinned", caller,
					 offsetof(struct observed_sample, pinned[i]), separator);
		separator =
			file_add_row(output, timeline, "registrations", caller,
				     offsetof(struct observed_sample, registrations[i]), separator);
	}
	output_add(output, "]},\n");
}

static void file_add_saving(struct output *output, const struct observed_saving *saving)
{
	static const char begins[][20] = { "served_", "background_", "kept_", "kept_background_",
					   "first_" };
	const struct observed_sum *sums[] = { &saving->served, &saving->background, &saving->kept,
					      &saving->kept_background, &saving->first };

	output_add(output, "  \"saving\": {");
	for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++) {
		output_add(output, i ? ", " : "");
		file_add_sum(output, begins[i], sums[i]);
	}
	output_add(output, "}\n}\n");
}

static int file_write(int fd, void *argument)
{
	static struct output output; /* too large for a small exit stack */
	const struct observed *observed = argument;

	output.take = output_to_file;
	output.argument = (void *)(intptr_t)fd;
	file_add_process(&output, observed);
	file_add_list(&output, "callers", CALLERS, observed, file_add_caller);
	file_add_list(&output, "registrations", observed->kind_count, observed, file_add_kind);
	file_add_list(&output, "allocations", ALLOCATION_HOST + 1, observed, file_add_allocations);
	file_add_list(&output, "sizes", SIZES, observed, file_add_size);
	callers_write_findings(&output);
	file_add_timeline(&output, &observed->timeline);
	file_add_saving(&output, &observed->saving);
	return output_end(&output);
}

void observe_finish(void)
{
	const struct observed *observed = observe_conclude();
	static char name[4096];
	int error;

	if (!observed)
		return;
	statistics_finish_observed();
	error = own_file_name(config_get()->observe, name, sizeof(name));
	if (!error)
		error = own_file_write_whole(name, file_write, (void *)observed);
	if (error)
		log_once(LOG_WARN, "PEERPIN_OBSERVE=%.400s: no file written: %s. %s.",
			 *name ? name : config_get()->observe, own_file_error_text(-error),
			 own_file_error_fix(-error));
}
