/* SPDX-License-Identifier: BSD-3-Clause */
/* old_glibc.c -- linked into a tarball's programs: functions that glibc 2.28 lacks;
 * with START, the start of a program */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "old_glibc.h"

#ifndef START
/* The kernel's struct is libc's on both processors. */
int stat(const char *path, struct stat *found)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, found, 0);
}

int lstat(const char *path, struct stat *found)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW);
}

int fstat(int fd, struct stat *found)
{
	return (int)syscall(SYS_fstat, fd, found);
}

/* Kernels before 5.9 have none: ENOSYS, as from a newer glibc there. */
int close_range(unsigned int first, unsigned int last, int flags);
int close_range(unsigned int first, unsigned int last, int flags)
{
	return (int)syscall(436, first, last, flags);
}

#else
typedef void initializer(int argc, char **argv, char **environment);

extern initializer *__init_array_start[] __attribute__((visibility("hidden"))),
	*__init_array_end[] __attribute__((visibility("hidden")));

/* Up to glibc 2.33 the program runs its own initializers; from 2.34 on libc does it for start files
 * without this function. */
static void initialize(int argc, char **argv, char **environment)
{
	for (initializer **each = __init_array_start; each < __init_array_end; each++)
		(*each)(argc, argv, environment);
}

typedef int main_function(int argc, char **argv, char **environment);

int old_start(main_function *program, int argc, char **argv, initializer *init, void (*fini)(void),
	      void (*rtld_fini)(void), void *stack_end);
__asm__(".symver old_start,__libc_start_main@" OLD_GLIBC);

int __wrap___libc_start_main(main_function *program, int argc, char **argv, initializer *init,
			     void (*fini)(void), void (*rtld_fini)(void), void *stack_end);
int __wrap___libc_start_main(main_function *program, int argc, char **argv, initializer *init,
			     void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
	(void)init;
	return old_start(program, argc, argv, initialize, fini, rtld_fini, stack_end);
}
#endif
