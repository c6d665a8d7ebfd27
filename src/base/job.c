/* SPDX-License-Identifier: BSD-3-Clause */
/* job.c -- who speaks for a job on this host, and what the others have left */
#include "base/job.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/identity.h"
#include "base/kernel.h"
#include "base/proc_stat.h"
#include "base/runtime.h"
#include "base/statistics.h"
#include "base/system.h"
#include "base/text.h"

static char speaker[96]; /* the file's name, once it has been made */

/* ---- the others' files ---- */

static bool has_ended(const struct segment *segment)
{
	return atomic_load(&segment->header.state) != SEGMENT_RUNNING;
}

static bool lives(const struct segment *segment)
{
	return !has_ended(segment) && proc_stat_lives(segment->header.process, segment->header.process_start);
}

/* Names of jobs come back. Who had ended long before this one began, or was killed and had begun long before or long after,
 * was of another one. */
#define TOGETHER_NS 60000000000u

static bool was_there_with_us(const struct segment_header *header)
{
	uint64_t ours = statistics_segment.header.started_ns, theirs = header->started_ns;

	if (atomic_load(&header->state) == SEGMENT_ENDED)
		return theirs + (atomic_load(&header->ended_clock_ns) - header->clock_ns) + TOGETHER_NS >
		       ours;
	return (ours > theirs ? ours - theirs : theirs - ours) < TOGETHER_NS;
}

/* Several hosts may share the folder, and none knows the other one's processes. */
static bool is_of_job(const struct segment *segment)
{
	const struct segment_header *header = &segment->header;

	if (header->process == kernel_process() || !text_equals(header->job, process_job()) ||
	    !text_equals(header->host, statistics_segment.header.host) ||
	    atomic_load(&header->state) == SEGMENT_TOLD)
		return false;
	return lives(segment) || was_there_with_us(header);
}

/* The segment in the file, to be read; NULL: there is none, or it is not of this job. The caller unmaps it. */
static struct segment *open_other(int folder, const char *name)
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
	if (!segment_refused(segment, sizeof(*segment)) && is_of_job(segment))
		return segment;
	kernel_unmap(segment, sizeof(*segment));
	return NULL;
}

/* Calls `look` for each until it returns false. */
static void each_other(int folder,
		       bool (*look)(int folder, const char *name, const struct segment *segment,
				    void *argument),
		       void *argument)
{
	_Alignas(struct kernel_entry) char entries[4096];
	bool goes_on = true;
	ssize_t length;

	while (goes_on && (length = kernel_entries(folder, entries, sizeof(entries))) > 0) {
		for (ssize_t at = 0; goes_on && at < length;) {
			struct kernel_entry *entry = (struct kernel_entry *)(entries + at);
			struct segment *segment =
				runtime_process_of(entry->name) ? open_other(folder, entry->name) : NULL;

			if (segment) {
				goes_on = look(folder, entry->name, segment, argument);
				kernel_unmap(segment, sizeof(*segment));
			}
			at += entry->length;
		}
	}
}

static bool look_for_life(int folder, const char *name, const struct segment *segment, void *argument)
{
	bool *life = argument;

	(void)folder;
	(void)name;
	*life = lives(segment);
	return !*life;
}

/* ---- who speaks ---- */

static bool create(int folder)
{
	char text[40];
	int fd = kernel_open_at(folder, speaker, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int length;

	if (fd < 0)
		return false;
	length = system_format(text, sizeof(text), "%d %llu", kernel_process(),
			       (unsigned long long)statistics_segment.header.process_start);
	/* An empty one is that of a process that is gone. */
	if (kernel_write(fd, text, (size_t)length) < 0)
		errno = 0;
	kernel_close(fd);
	return true;
}

/* Whether who made the file has been killed while it spoke. False, too, where nothing is known of it. */
static bool has_fallen_silent(int folder)
{
	char text[40] = "";
	const char *at = text;
	uint64_t process;
	int fd = kernel_open_at(folder, speaker, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);

	if (fd < 0)
		return false;
	if (kernel_read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	kernel_close(fd);
	process = text_number(&at);
	at += *at == ' ';
	return process && process < 100000000 && !proc_stat_lives((int)process, text_number(&at));
}

static bool claim(int folder)
{
	char job[64];

	identity_make_safe(process_job(), job, sizeof(job));
	system_format(speaker, sizeof(speaker), "%s" RUNTIME_SPEAKER, job);
	if (create(folder))
		return true;
	if (!has_fallen_silent(folder))
		return false;
	kernel_unlink_at(folder, speaker);
	return create(folder);
}

bool job_speaks(void)
{
	bool others_live = false, speaks;
	int folder;

	if (process_rank() < 0 || !process_job()[0])
		return true;
	folder = statistics_folder();
	/* It was told of, unless the folder was tidied by somebody else. */
	if (folder < 0)
		return atomic_load(&statistics_segment.header.state) != SEGMENT_TOLD;
	each_other(folder, look_for_life, &others_live);
	speaks = !others_live && claim(folder);
	/* Told of while this one looked. */
	if (speaks && !statistics_has_file(folder)) {
		kernel_unlink_at(folder, speaker);
		speaks = false;
	}
	if (!speaks)
		speaker[0] = '\0';
	kernel_close(folder);
	return speaks;
}

void job_spoken(void)
{
	int folder = speaker[0] ? runtime_folder() : -1;

	if (folder < 0)
		return;
	kernel_unlink_at(folder, speaker);
	kernel_close(folder);
	speaker[0] = '\0';
}

/* ---- what is told ---- */

struct telling {
	void (*take)(const struct segment *segment, void *argument);
	void *argument;
};

/* It may only now come to look whether it speaks itself, and would then find no file: so it is told in its own memory. */
static void mark_told(int folder, const char *name)
{
	const uint32_t told = SEGMENT_TOLD;
	int fd = kernel_open_at(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);

	if (fd < 0)
		return;
	if (kernel_write_at(fd, &told, sizeof(told), offsetof(struct segment, header.state)) < 0)
		errno = 0;
	kernel_close(fd);
}

static bool tell(int folder, const char *name, const struct segment *segment, void *argument)
{
	const struct telling *telling = argument;

	telling->take(segment, telling->argument);
	if (has_ended(segment)) {
		mark_told(folder, name);
		kernel_unlink_at(folder, name);
	}
	return true;
}

void job_each_other(void (*take)(const struct segment *segment, void *argument), void *argument)
{
	struct telling telling = { take, argument };
	int folder = speaker[0] ? runtime_folder() : -1;

	if (folder < 0)
		return;
	each_other(folder, tell, &telling);
	kernel_close(folder);
}
