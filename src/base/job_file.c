/* SPDX-License-Identifier: BSD-3-Clause */
/* job_file.c -- numbers, printed messages and byte locks of the ranks of a job
 *
 * The file is never mapped: a truncation would kill the program with SIGBUS. It may outlive its
 * job, and a later one may have an equal name: a rank that opens it while no other rank has it open
 * empties it. It is removed under a lock of the whole file.
 */
#include "base/job_file.h"

#include <errno.h>
#include <stdio.h>

#include "base/atomics.h"
#include "base/held_file.h"
#include "base/identity.h"
#include "base/once.h"
#include "base/runtime.h"
#include "base/signal_safe_write.h"

/* Tries while another process holds the lock of the whole file: 50 times 0.1 ms. */
#define JOB_LOCK_TRIES	 50
#define JOB_LOCK_WAIT_NS 100000

#define GPUS	 64u   /* by hash */
#define MESSAGES 512u  /* by hash */
#define RANKS	 1024u /* bytes of a GPU */

/* The content: a word of each GPU and of each message. Then bytes that are locked, never written.
 */
enum {
	NUMBERS = 0,
	PRINTED = GPUS * sizeof(uint64_t),
	OPEN = 1 << 16, /* the byte of each rank that has the file open */
	USES = 1 << 17, /* of a GPU: the byte of each rank there */
};

static once opened;
static char name[256];
static struct held_file file = { .fd = -1 }; /* no descriptor: no job, or no file */

/* `command`: F_SETLK, which does not wait, or F_GETLK, which finds a lock of another process. */
static int job_file_control(int fd, int command, struct flock *lock, short type, off_t at,
			    off_t length)
{
	*lock = (struct flock){
		.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = length
	};
	return (int)kernel_call(SYS_fcntl, fd, command, lock);
}

static int job_file_lock(int fd, short type, off_t at)
{
	struct flock lock;

	return job_file_control(fd, F_SETLK, &lock, type, at, 1);
}

static bool job_file_is_taken(int error)
{
	return error == -EAGAIN || error == -EACCES;
}

/* Lock a byte of this process alone, of RANKS from `first` on. Ranks in containers may have equal
 * process numbers, and launches of one batch job equal ranks. Call once for each `first`. */
static int job_file_lock_own(int fd, off_t first)
{
	int error = -EAGAIN;

	for (int i = 0; i < JOB_LOCK_TRIES && job_file_is_taken(error); i++)
		error = job_file_lock(fd, F_WRLCK, first + (kernel_process() + i) % (off_t)RANKS);
	return error;
}

/* Return a descriptor; -EAGAIN: try again. */
static int job_file_open_at(int folder)
{
	struct stat status = { 0 };
	struct flock lock;
	int fd = kernel_open_at(folder, name,
				O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	int error;

	if (fd < 0)
		return fd;
	if (!job_file_control(fd, F_SETLK, &lock, F_WRLCK, OPEN, RANKS)) {
		kernel_call(SYS_ftruncate, fd, 0);
		job_file_control(fd, F_SETLK, &lock, F_UNLCK, OPEN, RANKS);
	}
	error = job_file_lock_own(fd, OPEN);
	if (!error)
		error = kernel_describe(fd, &status);
	if (!error && status.st_nlink) {
		/* A clean-up by this process must not open it: each close drops all locks. */
		kernel_call(SYS_utimensat, fd, NULL, NULL, 0);
		return fd;
	}
	kernel_close(fd);
	return error && !job_file_is_taken(error) ? error : -EAGAIN;
}

static void job_file_open(void)
{
	int folder = runtime_folder(NULL), fd = -EAGAIN;

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

/* Return true if this process has the file open. */
static bool job_file_begin(void)
{
	char job[128];

	if (once_begin(&opened)) {
		if (identity_rank() >= 0 && *identity_job()) {
			identity_make_safe(identity_job(), job, sizeof(job));
			snprintf(name, sizeof(name), RUNTIME_JOB "%s.%s" RUNTIME_LOCK, job,
				 identity_host());
			job_file_open();
		}
		once_end(&opened);
	}
	return held_file_is_open(&file);
}

/* Call `take` for each locked byte of other processes. The kernel finds any lock of a range, not
 * the first one: look on both sides of it. */
static void job_file_walk(off_t from, off_t end, void (*take)(off_t byte, void *argument),
			  void *argument)
{
	struct flock lock;

	while (from < end &&
	       !job_file_control(file.fd, F_GETLK, &lock, F_WRLCK, from, end - from) &&
	       lock.l_type != F_UNLCK) {
		off_t last = lock.l_len ? lock.l_start + lock.l_len : end;

		if (lock.l_start > from)
			job_file_walk(from, lock.l_start, take, argument);
		for (off_t byte = lock.l_start; byte < last; byte++) {
			if (byte >= from && byte < end)
				take(byte, argument);
		}
		from = last;
	}
}

static uint64_t job_file_read(off_t at)
{
	uint64_t word = 0;

	kernel_read_at(file.fd, &word, sizeof(word), (size_t)at);
	return word;
}

static int job_file_write(off_t at, uint64_t word)
{
	if (!held_file_is_open(&file))
		return -EBADF;
	return signal_safe_write_at(file.fd, &word, sizeof(word), at);
}

void job_file_join(void)
{
	job_file_begin();
}

/* ---- messages ---- */

/* A message with an equal place takes it: the former one may be printed again. */
bool job_file_claim(uint64_t hash)
{
	off_t at = PRINTED + (off_t)(hash % MESSAGES * sizeof(hash));
	bool first;

	if (!job_file_begin())
		return true;
	if (job_file_read(at) == hash || job_file_is_taken(job_file_lock(file.fd, F_WRLCK, at)))
		return false;
	first = job_file_read(at) != hash;
	if (first)
		job_file_write(at, hash);
	job_file_lock(file.fd, F_UNLCK, at);
	return first;
}

/* ---- ranks and GPUs ---- */

static void job_file_count(off_t byte, void *argument)
{
	(void)byte;
	++*(unsigned int *)argument;
}

unsigned int job_file_share(uint64_t gpu)
{
	static _Atomic uint64_t used;

	off_t first = USES + (off_t)(gpu % GPUS * RANKS);
	uint64_t bit = (uint64_t)1 << gpu % GPUS;
	unsigned int processes = 1;

	if (job_file_begin()) {
		if (!(or_seq_cst(&used, bit) & bit))
			job_file_lock_own(file.fd, first);
		job_file_walk(first, first + RANKS, job_file_count, &processes);
	}
	return processes;
}

unsigned int job_file_ranks(void)
{
	unsigned int ranks = 1;

	if (identity_local_size() > 0)
		return (unsigned int)identity_local_size();
	if (job_file_begin())
		job_file_walk(OPEN, OPEN + RANKS, job_file_count, &ranks);
	return ranks;
}

static off_t job_file_number_of(uint64_t gpu)
{
	return NUMBERS + (off_t)(gpu % GPUS * sizeof(uint64_t));
}

uint64_t job_file_wanted(uint64_t gpu)
{
	return job_file_begin() ? job_file_read(job_file_number_of(gpu)) : 0;
}

/* Of two ranks that raise it at once one may be lost: the number differs from the former one. */
uint64_t job_file_want(uint64_t gpu)
{
	uint64_t number = job_file_wanted(gpu) + 1;

	return job_file_write(job_file_number_of(gpu), number) ? 0 : number;
}

/* ---- exit ---- */

void job_file_leave(void)
{
	int folder = held_file_is_open(&file) ? runtime_folder(NULL) : -1;
	struct stat status;

	if (folder < 0)
		return;
	if (!kernel_lock(file.fd, F_WRLCK) && !kernel_describe(file.fd, &status) && status.st_nlink)
		kernel_unlink_at(folder, name);
	kernel_close(folder);
	held_file_close(&file);
}
