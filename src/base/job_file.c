/* SPDX-License-Identifier: BSD-3-Clause */
/* job_file.c -- locks of the ranks of a job, hashes of printed messages, used GPUs, ranks
 *
 * A rank claims a hash by a record at the end of the file; the first record of a hash has the
 * claim. A use has a record of each rank, without a claimant; a record of hash 0 ends all uses. The
 * file is never mapped: a truncation would kill the program with SIGBUS.
 *
 * The file may outlive the job, and a later job may have an equal name. A rank that finds no other
 * rank live, and no start, claim or use for FORMER_SECONDS, replaces the file. Younger claims stay:
 * ranks may start and exit one after another. Uses of GPUs end: they may be of the batch job's
 * previous program. The exclusive lock is held for a few system calls only, and a file is removed
 * only under it: the name of a locked file is the file's own.
 */
#include "base/job_file.h"

#include <errno.h>
#include <stdio.h>

#include "base/atomics.h"
#include "base/identity.h"
#include "base/held_file.h"
#include "base/kernel.h"
#include "base/once.h"
#include "base/runtime.h"
#include "base/signal_safe_write.h"

#define FORMER_SECONDS 60

/* Waits for the exclusive lock of another process: 50 times 0.1 ms. */
#define JOB_LOCK_TRIES	 50
#define JOB_LOCK_WAIT_NS 100000

struct claim {
	uint64_t hash, claimant;
};

#define CLAIMS 1024u /* the last one for the end of uses */
static const struct claim uses_ended;

/* A rank that has started has this and its number in place of a hash. */
#define RANK_USE ((uint64_t)0x72616e6b << 32)

static once opened;
static char name[256];
static struct held_file file = { .fd = -1 }; /* no descriptor: no job, or no file */

#define OPENING (O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

/* Return a descriptor with a shared lock; -EAGAIN: try again. The time of access is the mark: reads
 * must not change it. Only the file's owner may open it so. */
static int job_file_open_at(int folder)
{
	struct stat status = { 0 };
	int fd = kernel_open_at(folder, name, OPENING | O_NOATIME, 0600);
	bool alone, former;
	int error;

	if (fd == -EPERM)
		fd = kernel_open_at(folder, name, OPENING, 0600);
	if (fd < 0)
		return fd;
	alone = !kernel_describe(fd, &status) && status.st_size && !kernel_lock(fd, F_WRLCK);
	former = alone && (uint64_t)status.st_mtime + FORMER_SECONDS <= kernel_date();
	if (alone && !former && (uint64_t)status.st_size < CLAIMS * sizeof(uses_ended))
		signal_safe_write(fd, &uses_ended, sizeof(uses_ended));
	error = former ? 0 : kernel_lock(fd, F_RDLCK);
	if (!error)
		error = kernel_describe(fd, &status);
	if (!error && !former && status.st_nlink)
		return fd;
	if (!error && former && status.st_nlink)
		kernel_unlink_at(folder, name);
	kernel_close(fd);
	return error && error != -EACCES ? error : -EAGAIN;
}

static void job_file_open(void)
{
	int folder = runtime_folder(NULL), fd = -EAGAIN;

	file.fd = -1;
	if (folder < 0)
		return;
	for (int i = 0; i < JOB_LOCK_TRIES && fd == -EAGAIN; i++) {
		if (i)
			kernel_sleep(JOB_LOCK_WAIT_NS);
		fd = job_file_open_at(folder);
	}
	file = held_file_of(fd);
	kernel_close(folder);
}

static void job_file_begin(void)
{
	char job[128];

	if (!once_begin(&opened))
		return;
	if (identity_rank() >= 0 && *identity_job()) {
		identity_make_safe(identity_job(), job, sizeof(job));
		snprintf(name, sizeof(name), RUNTIME_JOB "%s.%s" RUNTIME_LOCK, job,
			 identity_host());
		job_file_open();
	}
	once_end(&opened);
}

/* Each: UTIME_OMIT leaves it. */
static void job_file_set_times(struct timespec access, struct timespec change)
{
	const struct timespec times[] = { access, change };

	if (held_file_is_open(&file))
		kernel_call(SYS_utimensat, file.fd, NULL, times, 0);
}

/* The time of the file's last change is that of the latest start, claim or use. The time of access
 * stays: as a mark, one in 512 times would be any GPU's. */
static void job_file_touch(void)
{
	job_file_set_times((struct timespec){ .tv_nsec = UTIME_OMIT },
			   (struct timespec){ .tv_nsec = UTIME_NOW });
}

/* Call `take` for each record. Return their number. */
static unsigned int job_file_walk(void (*take)(const struct claim *claim, void *argument),
				  void *argument)
{
	struct claim claims[64];
	unsigned int count = 0;
	ssize_t length;

	while (count < CLAIMS) {
		length = kernel_read_at(file.fd, claims, sizeof(claims), count * sizeof(*claims));
		if (length < (ssize_t)sizeof(*claims))
			break;
		for (size_t i = 0; i < (size_t)length / sizeof(*claims); i++, count++)
			take(&claims[i], argument);
	}
	return count;
}

struct found {
	uint64_t hash, claimant; /* claimant 0: none */
	unsigned int uses;
};

static void job_file_find(const struct claim *claim, void *argument)
{
	struct found *found = argument;

	if (!claim->hash)
		found->uses = 0;
	if (claim->hash != found->hash)
		return;
	found->uses++;
	if (!found->claimant)
		found->claimant = claim->claimant;
}

/* `once_only`: unless there is one. */
static void job_file_add_use(uint64_t hash, bool once_only)
{
	const struct claim use = { .hash = hash };
	struct found found = { .hash = hash };
	unsigned int count = job_file_walk(job_file_find, &found);

	if (count < CLAIMS - 1 && !(once_only && found.uses) && held_file_is_open(&file))
		signal_safe_write(file.fd, &use, sizeof(use));
}

void job_file_join(void)
{
	job_file_begin();
	job_file_touch();
	if (held_file_is_open(&file))
		job_file_add_use(RANK_USE | (uint32_t)identity_rank(), true);
}

/* Process numbers do not identify a claimant: ranks may be in containers of their own. */
static uint64_t job_file_make_claimant(void)
{
	return kernel_time(CLOCK_MONOTONIC) ^ (uint64_t)kernel_thread() << 32;
}

bool job_file_claim(uint64_t hash)
{
	struct claim own = { .hash = hash };
	struct found found = { .hash = hash };

	job_file_begin();
	if (!held_file_is_open(&file))
		return true;
	if (job_file_walk(job_file_find, &found) < CLAIMS - 1 && !found.claimant &&
	    held_file_is_open(&file)) {
		own.claimant = job_file_make_claimant();
		signal_safe_write(file.fd, &own, sizeof(own));
		job_file_walk(job_file_find, &found);
	}
	return !found.claimant || found.claimant == own.claimant;
}

unsigned int job_file_share(uint64_t hash, bool first)
{
	struct found found = { .hash = hash };

	job_file_begin();
	if (!held_file_is_open(&file))
		return 1;
	if (first)
		job_file_add_use(hash, false);
	job_file_walk(job_file_find, &found);
	return found.uses ? found.uses : 1;
}

static void job_file_take_rank(const struct claim *claim, void *argument)
{
	unsigned int *ranks = argument;

	if (!claim->hash)
		*ranks = 0;
	*ranks += claim->hash >> 32 == RANK_USE >> 32;
}

unsigned int job_file_ranks(void)
{
	unsigned int ranks = 0;

	job_file_begin();
	if (held_file_is_open(&file))
		job_file_walk(job_file_take_rank, &ranks);
	return ranks ? ranks : 1;
}

void job_file_mark(uint64_t tag)
{
	uint64_t now = kernel_time(CLOCK_REALTIME);
	uint64_t fraction = now % 1000000000 & ~(uint64_t)JOB_FILE_TAG;

	job_file_set_times((struct timespec){ (time_t)(now / 1000000000),
					      (long)(fraction | (tag & JOB_FILE_TAG)) },
			   (struct timespec){ .tv_nsec = UTIME_OMIT });
}

static uint64_t job_file_time(bool of_mark)
{
	struct stat status;
	struct timespec time;

	job_file_begin();
	if (!file.inode || kernel_describe(file.fd, &status) || status.st_dev != file.device ||
	    status.st_ino != file.inode)
		return 0;
	time = of_mark ? status.st_atim : status.st_mtim;
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

uint64_t job_file_marked(void)
{
	return job_file_time(true);
}

uint64_t job_file_changed(void)
{
	return job_file_time(false);
}

int job_file_lead(void)
{
	int error;

	if (*name && !held_file_is_open(&file))
		job_file_open();
	if (file.fd < 0)
		return -ENOENT;
	kernel_lock(file.fd, F_UNLCK);
	error = kernel_lock(file.fd, F_WRLCK);
	if (error)
		return error == -EAGAIN || error == -EACCES ? 0 : error;
	/* Let ranks join while this one reports. */
	kernel_lock(file.fd, F_RDLCK);
	return 1;
}

static void job_file_find_message(const struct claim *claim, void *argument)
{
	bool *has_message = argument;

	*has_message |= claim->claimant != 0;
}

void job_file_leave(void)
{
	int folder = held_file_is_open(&file) ? runtime_folder(NULL) : -1;
	bool has_message = false;
	struct stat status;

	if (folder < 0)
		return;
	kernel_lock(file.fd, F_UNLCK);
	if (!kernel_lock(file.fd, F_WRLCK) && !kernel_describe(file.fd, &status) &&
	    status.st_nlink) {
		job_file_walk(job_file_find_message, &has_message);
		if (!has_message)
			kernel_unlink_at(folder, name);
	}
	kernel_close(folder);
	held_file_close(&file);
}
