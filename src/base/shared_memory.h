/* SPDX-License-Identifier: BSD-3-Clause */
/* shared_memory.h -- memory that stays after its process, and is found by a file
 *
 * The memory is a System V segment (shmget(2)). Its file holds its number only: a truncation or
 * removal of the file cannot harm the process. A mapped file is no alternative: any process of the
 * user can truncate it, and that kills the process with SIGBUS. A segment's size never changes. A
 * sealed memfd is as safe, but ends with its process, and the program may close its descriptor.
 *
 * A host has a limited number of segments (4096 by default), which all programs share, and a
 * segment outlives a lost file. So no segment is made while half of that number is in use. From a
 * quarter on, segments that processes of this user have left are removed an hour after their end;
 * from half on, all of them.
 *
 * Any thread; no lock, no allocation; errno is kept.
 */
#ifndef PEERPIN_BASE_SHARED_MEMORY_H
#define PEERPIN_BASE_SHARED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARED_MEMORY_MAGIC "PEERPINM"

/* The content of the file. */
struct shared_memory {
	char magic[8];
	int32_t id;
	uint32_t unused;
	uint64_t size;	/* bytes */
	uint64_t space; /* IPC namespace: its inode; 0: unknown */
	uint64_t made;	/* seconds since 1970; ids are reused */
};

/* Make and map memory of zeros. `start`: the first bytes, by which memory that others left is
 * recognised. Return 0 or -errno. */
int shared_memory_make(struct shared_memory *memory, size_t size, const char start[8], void **at);

/* Read a file. Return 0; -EINVAL: another kind of file; -EXDEV: memory of a container; -EIDRM: the
 * memory is gone. */
int shared_memory_read(int fd, struct shared_memory *memory);

/* Return true while a process maps the memory, in whatever PID namespace. */
bool shared_memory_is_used(const struct shared_memory *memory);

/* Map memory that shared_memory_read() found; NULL: impossible. */
void *shared_memory_map(const struct shared_memory *memory, bool writable);
void shared_memory_unmap(const void *at);

/* Let the memory end with the last process that maps it. */
void shared_memory_remove(const struct shared_memory *memory);

#endif
