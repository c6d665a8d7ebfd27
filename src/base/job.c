/* SPDX-License-Identifier: BSD-3-Clause */
/* job.c -- who speaks for a job on this host, and what the others have left for it */
#include "base/job.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/identity.h"
#include "base/kernel.h"
#include "base/runtime.h"
#include "base/system.h"
#include "base/text.h"

static char speaker[96]; /* the file's name; "": there is no job */
static bool speaks;

static bool create(int folder)
{
	char number[16];
	int fd = kernel_open_at(folder, speaker, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int length;

	if (fd < 0)
		return false;
	length = system_format(number, sizeof(number), "%d", kernel_process());
	/* An empty one is that of a process that is gone. */
	if (kernel_write(fd, number, (size_t)length) < 0)
		errno = 0;
	kernel_close(fd);
	return true;
}

/* The process that has offered to speak; 0: none is known. */
static int read_speaker(int folder)
{
	char number[16] = "";
	int process = 0;
	int fd = kernel_open_at(folder, speaker, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	if (kernel_read(fd, number, sizeof(number) - 1) < 0)
		number[0] = '\0';
	kernel_close(fd);
	for (const char *digit = number; text_is_digit(*digit) && process < 100000000; digit++)
		process = process * 10 + (*digit - '0');
	return process;
}

static bool is_there(int folder)
{
	int fd = kernel_open_at(folder, speaker, O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0);

	if (fd >= 0)
		kernel_close(fd);
	return fd >= 0;
}

void job_begin(void)
{
	int saved_errno = errno;
	char job[64];
	int folder;

	if (process_rank() < 0 || !process_job()[0])
		return;
	folder = runtime_folder();
	if (folder < 0)
		return;
	identity_make_safe(process_job(), job, sizeof(job));
	system_format(speaker, sizeof(speaker), "%s.speaker", job);
	speaks = create(folder);
	kernel_close(folder);
	errno = saved_errno;
}

bool job_may_speak(void)
{
	int folder = speaker[0] ? runtime_folder() : -1;
	int other;

	if (folder < 0)
		return true;
	if (!speaks) {
		other = read_speaker(folder);
		/* Another one that has ended at this moment may think the same: whose new file it is, speaks. */
		if (other && kernel_is_gone(other)) {
			kernel_unlink_at(folder, speaker);
			speaks = create(folder);
		}
	}
	if (speaks)
		kernel_unlink_at(folder, speaker);
	kernel_close(folder);
	return speaks;
}

bool job_is_told(void)
{
	int folder = speaker[0] && !speaks ? runtime_folder() : -1;
	bool told;

	if (folder < 0)
		return true;
	told = !is_there(folder);
	kernel_close(folder);
	return told;
}

/* ---- the others' files ---- */

static bool is_of_job(const struct image *image)
{
	return image->header.process != kernel_process() && text_equals(image->header.job, process_job());
}

static void look(int folder, const char *name, void (*take)(const struct image *image, void *argument),
		 void *argument)
{
	struct stat status;
	struct image *image = MAP_FAILED;
	int fd = kernel_open_at(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);

	if (fd < 0)
		return;
	if (!kernel_describe(fd, &status) && S_ISREG(status.st_mode) &&
	    (size_t)status.st_size >= sizeof(*image))
		image = kernel_map_to_read(sizeof(*image), fd);
	kernel_close(fd);
	if (image == MAP_FAILED)
		return;
	if (!image_refused(image, sizeof(*image)) && is_of_job(image)) {
		take(image, argument);
		if (atomic_load(&image->header.state) == IMAGE_ENDED)
			kernel_unlink_at(folder, name);
	}
	kernel_unmap(image, sizeof(*image));
}

void job_each_other(void (*take)(const struct image *image, void *argument), void *argument)
{
	_Alignas(struct kernel_entry) char entries[4096];
	int folder = speaker[0] ? runtime_folder() : -1;
	ssize_t length;

	if (folder < 0)
		return;
	while ((length = kernel_entries(folder, entries, sizeof(entries))) > 0) {
		for (ssize_t at = 0; at < length;) {
			struct kernel_entry *entry = (struct kernel_entry *)(entries + at);

			if (runtime_process_of(entry->name))
				look(folder, entry->name, take, argument);
			at += entry->length;
		}
	}
	kernel_close(folder);
}
