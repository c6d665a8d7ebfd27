/* SPDX-License-Identifier: BSD-3-Clause */
/* segment_json.c -- statistics segment of a process as the JSON object of that process
 *
 * The segment is in shared memory, which the file names, or in the file (a kept copy). The reader
 * never maps the file: concurrent truncation would raise SIGBUS. The reader checks the process
 * before its counters. In the reverse order, a process that exits in between and removes its file
 * would be reported as killed.
 */
#include "tools/records.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/proc_stat.h"
#include "base/runtime.h"
#include "base/shared_memory.h"
#include "base/system.h"
#include "report/emit.h"
#include "report/statistics.h"
#include "tools/units.h"

/* For a copy. A container has its own host name, and its process numbers are invalid here. A
 * container's file in this user's folder may be in use; a copy from another host is not. */
static bool segment_json_may_be_running(const char *path, const struct segment_header *header)
{
	char host[sizeof(header->host)] = "";
	const char *folder = NULL;

	gethostname(host, sizeof(host) - 1);
	host[strcspn(host, ".")] = '\0';
	if (!strncmp(host, header->host, sizeof(header->host)))
		return proc_stat_is_live(header->process, header->process_start);
	for (unsigned int i = 0; i <= RUNTIME_PRIVATE || folder; i++) {
		folder = records_runtime_folder(i);
		if (folder && !strncmp(path, folder, strlen(folder)) && path[strlen(folder)] == '/')
			return true;
	}
	return false;
}

/* Return the time of the last sample: the end of a killed process is unknown. */
static uint64_t segment_json_last_sample(const struct segment *segment)
{
	uint64_t last = 0, at;

	for (size_t i = 0; i < SEGMENT_SAMPLES; i++) {
		at = segment_value(&segment->timeline.samples[i].at_ns);
		if (at > last)
			last = at;
	}
	return last;
}

static struct emit_source segment_json_describe(const struct segment *segment, bool running)
{
	const struct segment_header *header = &segment->header;
	struct emit_source source = { .segment = segment, .processes = 1 };
	uint64_t end = system_clock();

	source.end = running ? EMIT_RUNNING : EMIT_KILLED;
	if (atomic_load(&header->state) != SEGMENT_RUNNING) {
		source.end = EMIT_EXITED;
		end = atomic_load(&header->ended_clock_ns);
	}
	if (source.end == EMIT_KILLED)
		source.elapsed_ns = segment_json_last_sample(segment);
	else if (end > header->clock_ns)
		source.elapsed_ns = end - header->clock_ns;
	return source;
}

static int segment_json_print(void *argument, const char *bytes, size_t length)
{
	return fwrite(bytes, 1, length, argument) == length ? 0 : -ENOMEM;
}

static json_t *segment_json_emit(const struct emit_source *source, const char **wrong)
{
	char *text = NULL;
	size_t length;
	FILE *memory = open_memstream(&text, &length);
	struct output output = { .take = segment_json_print, .argument = memory };
	json_error_t error;
	json_t *json = NULL;

	if (memory) {
		emit(&output, source, EMIT_JSON);
		if (!output_end(&output) && !fclose(memory))
			json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
	}
	free(text);
	if (!json)
		*wrong = "a statistics segment with invalid numbers";
	return json;
}

/* Copy the segment to `segment`; return its bytes, 0: *wrong is the reason. */
static size_t segment_json_read(const char *path, int fd, struct segment *segment, bool *running,
				const char **wrong)
{
	struct shared_memory memory;
	int error = shared_memory_read(fd, &memory);
	const void *mapped;
	size_t size;

	if (error == -EINVAL) {
		records_read_bytes(fd, &segment->header, sizeof(segment->header));
		*running = segment->header.process > 0 &&
			   segment_json_may_be_running(path, &segment->header);
		return records_read_bytes(fd, segment, sizeof(*segment));
	}
	/* Process numbers may be those of a container. */
	*running = !error && shared_memory_is_used(&memory);
	mapped = error ? NULL : shared_memory_map(&memory, false);
	if (!mapped) {
		*wrong = error == -EXDEV ? "its shared memory is that of a container: run the "
					   "command there"
					 : "its shared memory has been removed";
		return 0;
	}
	size = memory.size < sizeof(*segment) ? memory.size : sizeof(*segment);
	memcpy(segment, mapped, size);
	shared_memory_unmap(mapped);
	return size;
}

json_t *segment_to_json(const char *path, int fd, const char **wrong)
{
	size_t size = (sizeof(struct segment) + SEGMENT_ALIGNMENT - 1) / SEGMENT_ALIGNMENT *
		      SEGMENT_ALIGNMENT;
	struct segment *segment = aligned_alloc(SEGMENT_ALIGNMENT, size);
	struct emit_source source;
	json_t *json = NULL;
	const char *refused;
	bool running;

	if (!segment) {
		*wrong = "out of memory";
		return NULL;
	}
	memset(segment, 0, size);
	*wrong = NULL;
	refused = segment_refused(segment, segment_json_read(path, fd, segment, &running, wrong));
	if (!*wrong && refused) {
		/* The layout is of another build and unknown here. */
		*wrong = text_of("statistics segment: %s%s", refused,
				 strstr(refused, "another build")
					 ? ": use that build, or delete the file"
					 : "");
	} else if (!*wrong) {
		source = segment_json_describe(segment, running);
		json = segment_json_emit(&source, wrong);
	}
	free(segment);
	return json;
}
