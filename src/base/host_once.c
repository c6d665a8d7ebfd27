/* SPDX-License-Identifier: BSD-3-Clause */
/* host_once.c -- file of reported messages, created by the first rank that reports
 *
 * The file outlives the job, and a later job may have an equal name. Each rank holds a shared lock
 * on the file. A rank that gets the exclusive lock is alone: claims are a former job's if none was
 * added for FORMER_SECONDS. Younger claims stay, since ranks may start and exit one after another.
 */
#include "base/host_once.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "base/atomics.h"
#include "base/identity.h"
#include "base/kernel.h"
#include "base/once.h"
#include "base/signal_safe_write.h"
#include "base/runtime.h"
#include "base/system.h"
#include "base/text.h"

#define FORMER_SECONDS 60
#define REMOVE_SECONDS 3600

#define NAME_BEGIN "job."
#define NAME_END   ".messages"

#define SLOTS 510

struct host_once_file {
	_Atomic uint64_t form;	/* FORM; 0: new file; else a foreign file, left alone */
	_Atomic uint64_t added; /* time of the last claim, seconds since 1970 */
	_Atomic uint64_t hashes[SLOTS];
};

#define FORM 0x31736d69616c63ull /* "claims1" */

static struct host_once_file *shared; /* NULL: every rank reports */
static once opened;

uint64_t host_once_hash(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return hash ? hash : 1;
}

static void host_once_clear_former(struct host_once_file *file)
{
	uint64_t added = load_seq_cst(&file->added), now = kernel_date();

	/* No claim yet: a new file, to which another rank may be adding now. */
	if (!added || (now >= added && now - added < FORMER_SECONDS))
		return;
	for (unsigned int i = 0; i < SLOTS; i++)
		store_relaxed(&file->hashes[i], 0);
}

/* Keep the descriptor open until exit: the lock belongs to it. A program that closes the descriptor
 * drops only the lock. */
static struct host_once_file *host_once_map(int fd, bool *new)
{
	struct stat status;
	struct host_once_file *file;
	uint64_t form = 0;
	bool alone;

	if (kernel_describe(fd, &status) || !S_ISREG(status.st_mode) ||
	    status.st_uid != kernel_user())
		return NULL;
	alone = !kernel_lock(fd, LOCK_EX | LOCK_NB);
	if (signal_safe_allocate(fd, sizeof(*file)))
		return NULL;
	file = kernel_map_shared(fd, sizeof(*file));
	if (file == MAP_FAILED)
		return NULL;
	if (!replace_seq_cst(&file->form, &form, FORM) && form != FORM)
		return NULL;
	*new = !form;
	if (alone)
		host_once_clear_former(file);
	/* Do not block: the holder of the exclusive lock may be stopped. */
	kernel_lock(fd, LOCK_SH | LOCK_NB);
	return file;
}

static bool host_once_is_file_name(const char *name)
{
	size_t length = text_length(name);

	return text_begins(name, NAME_BEGIN) && length > sizeof(NAME_END) &&
	       text_equals(name + length - (sizeof(NAME_END) - 1), NAME_END);
}

/* Hazard: another rank may be opening the file. Two files then exist, and a message may come
 * twice. */
static void host_once_remove_if_old(int folder, const char *name)
{
	int fd = kernel_open_at(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
	uint64_t beginning[2] = { 0, 0 }, now = kernel_date();

	if (fd < 0)
		return;
	if (!kernel_lock(fd, LOCK_EX | LOCK_NB) &&
	    kernel_read(fd, beginning, sizeof(beginning)) == (ssize_t)sizeof(beginning) &&
	    beginning[0] == FORM && now > beginning[1] && now - beginning[1] > REMOVE_SECONDS)
		kernel_unlink_at(folder, name);
	kernel_close(fd);
}

static void host_once_remove_old(int folder)
{
	char entries[4096] __attribute__((aligned(8)));
	const struct kernel_entry *entry;
	ssize_t got;

	while ((got = kernel_entries(folder, entries, sizeof(entries))) > 0) {
		for (ssize_t at = 0; at < got; at += entry->length) {
			entry = (const struct kernel_entry *)(entries + at);
			if (host_once_is_file_name(entry->name))
				host_once_remove_if_old(folder, entry->name);
		}
	}
}

static struct host_once_file *host_once_open(void)
{
	char job[128], name[160];
	struct host_once_file *file;
	bool new = false;
	int folder, fd;

	/* Ignore the environment of a setuid program: the user who starts it controls it. */
	if (getauxval(AT_SECURE) || process_rank() < 0 || !*process_job())
		return NULL;
	identity_make_safe(process_job(), job, sizeof(job));
	system_format(name, sizeof(name), NAME_BEGIN "%s" NAME_END, job);
	folder = runtime_folder();
	if (folder < 0)
		return NULL;
	fd = kernel_keep_clear(kernel_open_at(
		folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
	file = fd >= 0 ? host_once_map(fd, &new) : NULL;
	if (fd >= 0 && !file)
		kernel_close(fd);
	if (new)
		host_once_remove_old(folder);
	kernel_close(folder);
	return file;
}

bool host_once_take(uint64_t hash)
{
	int saved_errno = errno;
	uint64_t seen;

	if (once_begin(&opened)) {
		shared = host_once_open();
		once_end(&opened);
	}
	errno = saved_errno;
	for (unsigned int i = 0; shared && i < SLOTS; i++) {
		_Atomic uint64_t *slot = &shared->hashes[(hash + i) % SLOTS];

		seen = 0;
		if (replace_seq_cst(slot, &seen, hash)) {
			store_seq_cst(&shared->added, kernel_date());
			return true;
		}
		if (seen == hash)
			return false;
	}
	return true;
}
