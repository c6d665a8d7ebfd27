/* SPDX-License-Identifier: BSD-3-Clause */
/* shared_memory.c -- System V segments */
#include "base/shared_memory.h"

#include <errno.h>
#include <sys/shm.h>

#include "base/kernel.h"

/* Age of segments that are removed before room is short. */
#define LEFT_SECONDS 3600

/* Return 0 or -errno. */
static int shared_memory_describe(int id, int command, struct shmid_ds *what)
{
	long result = kernel_call(SYS_shmctl, id, command, what);

	return result < 0 ? (int)result : 0;
}

static uint64_t shared_memory_space(void)
{
	struct stat status;

	return kernel_describe_at(AT_FDCWD, "/proc/self/ns/ipc", &status, 0) ? 0 : status.st_ino;
}

static void *shared_memory_map_id(int id, int flags)
{
	long address = kernel_call(SYS_shmat, id, NULL, flags);

	return address < 0 && address > -4096 ? NULL : (void *)address;
}

static bool shared_memory_begins_with(int id, const char start[8])
{
	const char *at = shared_memory_map_id(id, SHM_RDONLY);
	bool begins = at != NULL;

	for (int i = 0; begins && i < 8; i++)
		begins = at[i] == start[i];
	if (at)
		shared_memory_unmap(at);
	return begins;
}

/* Remove what processes of this user have left that ended at least `age` seconds ago, also if a
 * file names it. */
static void shared_memory_clean(int last, size_t size, const char start[8], uint64_t age)
{
	struct shmid_ds what;
	long id;

	for (int i = 0; i <= last; i++) {
		id = kernel_call(SYS_shmctl, i, SHM_STAT, &what);
		if (id >= 0 && !what.shm_nattch && what.shm_segsz == size &&
		    (uint64_t)what.shm_dtime + age <= kernel_date() &&
		    what.shm_perm.uid == kernel_user() && what.shm_perm.cuid == kernel_user() &&
		    shared_memory_begins_with((int)id, start))
			kernel_call(SYS_shmctl, (int)id, IPC_RMID, NULL);
	}
}

/* *last: index of the last segment in use. */
static bool shared_memory_has_fewer(unsigned long segments, int *last)
{
	struct shm_info used;

	*last = (int)kernel_call(SYS_shmctl, 0, SHM_INFO, &used);
	return *last >= 0 && (unsigned long)used.used_ids < segments;
}

/* Return false while half of the host's segments are in use. Up to there the segments of a job's
 * ended ranks stay for the leader: from a quarter on, only old ones are removed. */
static bool shared_memory_has_room(size_t size, const char start[8])
{
	struct shminfo limits;
	int last;

	if (kernel_call(SYS_shmctl, 0, IPC_INFO, &limits) < 0)
		return false;
	if (shared_memory_has_fewer(limits.shmmni / 4, &last))
		return true;
	shared_memory_clean(last, size, start, LEFT_SECONDS);
	if (shared_memory_has_fewer(limits.shmmni / 2, &last))
		return true;
	shared_memory_clean(last, size, start, 0);
	return shared_memory_has_fewer(limits.shmmni / 2, &last);
}

int shared_memory_make(struct shared_memory *memory, size_t size, const char start[8], void **at)
{
	struct shmid_ds what;
	long id;

	if (!shared_memory_has_room(size, start))
		return -ENOSPC;
	id = kernel_call(SYS_shmget, IPC_PRIVATE, size, IPC_CREAT | 0600);
	if (id < 0)
		return (int)id;
	*memory = (struct shared_memory){ .magic = SHARED_MEMORY_MAGIC,
					  .id = (int32_t)id,
					  .size = size,
					  .space = shared_memory_space() };
	*at = shared_memory_map_id((int)id, 0);
	if (!*at || shared_memory_describe((int)id, IPC_STAT, &what)) {
		if (*at)
			shared_memory_unmap(*at);
		shared_memory_remove(memory);
		return -ENOMEM;
	}
	memory->made = (uint64_t)what.shm_ctime;
	return 0;
}

int shared_memory_read(int fd, struct shared_memory *memory)
{
	struct shmid_ds what;

	if (kernel_read_at(fd, memory, sizeof(*memory), 0) != sizeof(*memory))
		return -EINVAL;
	for (size_t i = 0; i < sizeof(memory->magic); i++) {
		if (memory->magic[i] != SHARED_MEMORY_MAGIC[i])
			return -EINVAL;
	}
	if (memory->space != shared_memory_space())
		return -EXDEV;
	if (shared_memory_describe(memory->id, IPC_STAT, &what) || what.shm_segsz != memory->size ||
	    (uint64_t)what.shm_ctime != memory->made)
		return -EIDRM;
	return 0;
}

bool shared_memory_is_used(const struct shared_memory *memory)
{
	struct shmid_ds what;

	return !shared_memory_describe(memory->id, IPC_STAT, &what) && what.shm_nattch;
}

void *shared_memory_map(const struct shared_memory *memory, bool writable)
{
	return shared_memory_map_id(memory->id, writable ? 0 : SHM_RDONLY);
}

void shared_memory_unmap(const void *at)
{
	kernel_call(SYS_shmdt, at);
}

void shared_memory_remove(const struct shared_memory *memory)
{
	kernel_call(SYS_shmctl, memory->id, IPC_RMID, NULL);
}
