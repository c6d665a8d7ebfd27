/* SPDX-License-Identifier: BSD-3-Clause */
/* job_file.c -- locks of the ranks of a job, hashes of printed messages
 *
 * The file may outlive the job, and a later job may have an equal name. A rank that finds no other
 * rank live, and no claim or start for FORMER_SECONDS, replaces the file. Younger claims stay:
 * ranks may start and exit one after another. The exclusive lock is held for a few system calls
 * only, and a file is removed only under it: the name of a locked file is the file's own.
 */
#include "base/job_file.h"

#include <errno.h>

#include "base/atomics.h"
#include "base/identity.h"
#include "base/kernel.h"
#include "base/once.h"
#include "base/runtime.h"
#include "base/signal_safe_write.h"
#include "base/system.h"

#define FORMER_SECONDS 60

/* Waits for the exclusive lock of another process: 50 times 0.1 ms. */
#define TRIES	50
#define WAIT_NS 100000

#define SLOTS 512

static once opened, mapped;
static char name[256];
static int file = -1; /* -1: no job, or no file */
static dev_t device;
static ino_t inode;
static _Atomic uint64_t *hashes; /* NULL: every rank prints */

/* Return a descriptor with a shared lock; -EAGAIN: try again. */
static int job_file_open_at(int folder)
{
	struct stat status = { 0 };
	int fd = kernel_keep_clear(kernel_open_at(
		folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
	bool former;
	int error;

	if (fd < 0)
		return fd;
	former = !kernel_describe(fd, &status) && status.st_size &&
		 (uint64_t)status.st_mtime + FORMER_SECONDS <= kernel_date() &&
		 !kernel_lock(fd, F_WRLCK);
	error = former ? 0 : kernel_lock(fd, F_RDLCK);
	if (!error)
		error = kernel_describe(fd, &status);
	if (!error && !former && status.st_nlink) {
		device = status.st_dev;
		inode = status.st_ino;
		return fd;
	}
	if (!error && former && status.st_nlink)
		kernel_unlink_at(folder, name);
	kernel_close(fd);
	return error && error != -EACCES ? error : -EAGAIN;
}

static void job_file_open(void)
{
	int folder = runtime_folder(NULL);

	file = -1;
	if (folder < 0)
		return;
	for (int i = 0; i < TRIES; i++) {
		file = job_file_open_at(folder);
		if (file != -EAGAIN)
			break;
		kernel_sleep(WAIT_NS);
	}
	kernel_close(folder);
}

static bool job_file_is_open(void)
{
	return file >= 0 && kernel_is_file(file, device, inode);
}

static void job_file_begin(void)
{
	char job[128];

	if (!once_begin(&opened))
		return;
	if (process_rank() >= 0 && *process_job()) {
		identity_make_safe(process_job(), job, sizeof(job));
		system_format(name, sizeof(name), RUNTIME_JOB "%s.%s" RUNTIME_LOCK, job,
			      process_host());
		job_file_open();
	}
	once_end(&opened);
}

/* The file's time is that of the latest start or claim. */
static void job_file_touch(void)
{
	if (job_file_is_open())
		kernel_call(SYS_utimensat, file, NULL, NULL, 0);
}

void job_file_join(void)
{
	job_file_begin();
	job_file_touch();
}

static void job_file_map(void)
{
	if (job_file_is_open() && !signal_safe_allocate(file, SLOTS * sizeof(*hashes)))
		hashes = kernel_map(SLOTS * sizeof(*hashes), PROT_READ | PROT_WRITE, MAP_SHARED,
				    file);
}

bool job_file_claim(uint64_t hash)
{
	bool first = true, done;
	uint64_t seen;

	job_file_begin();
	if (once_begin(&mapped)) {
		job_file_map();
		once_end(&mapped);
	}
	done = !hashes;
	for (unsigned int i = 0; i < SLOTS && !done; i++) {
		seen = 0;
		done = replace_seq_cst(&hashes[(hash + i) % SLOTS], &seen, hash);
		if (done)
			job_file_touch();
		else if (seen == hash)
			done = !(first = false);
	}
	return first;
}

int job_file_lead(void)
{
	int error;

	if (*name && !job_file_is_open())
		job_file_open();
	if (file < 0)
		return -ENOENT;
	kernel_lock(file, F_UNLCK);
	error = kernel_lock(file, F_WRLCK);
	if (error)
		return error == -EAGAIN || error == -EACCES ? 0 : error;
	/* Let ranks join while this one reports. */
	kernel_lock(file, F_RDLCK);
	return 1;
}

void job_file_leave(void)
{
	int folder = job_file_is_open() ? runtime_folder(NULL) : -1;
	struct stat status;

	if (folder < 0)
		return;
	kernel_lock(file, F_UNLCK);
	if (!kernel_lock(file, F_WRLCK) && !kernel_describe(file, &status) && status.st_nlink &&
	    !status.st_size)
		kernel_unlink_at(folder, name);
	kernel_close(folder);
	kernel_close(file);
	file = -1;
}
