/* SPDX-License-Identifier: BSD-3-Clause */
/* files.c -- prints what libc's functions report of a file, a line for each: run with and without
 * the preload of the simulated adapter
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define FILES_MODE 07777

static const char *print_error(void)
{
	return errno == ENOENT ? "ENOENT" : errno == EACCES ? "EACCES" : strerror(errno);
}

static void print_status(const char *name, int result, mode_t mode, unsigned int major_number,
			 unsigned int minor_number)
{
	if (result)
		printf("%s: %s\n", name, print_error());
	else
		printf("%s: %s%o %u:%u\n", name, S_ISCHR(mode) ? "device " : "", mode & FILES_MODE,
		       major_number, minor_number);
}

static void print_stat(const char *name, int result, const struct stat *status)
{
	print_status(name, result, status->st_mode, major(status->st_rdev), minor(status->st_rdev));
}

static void print_stat64(const char *name, int result, const struct stat64 *status)
{
	print_status(name, result, status->st_mode, major(status->st_rdev), minor(status->st_rdev));
}

/* Programs cannot be linked with these any more. */
static void print_old(const char *name, const char *path)
{
	int (*function)(int, const char *, struct stat *) =
		(__typeof__(function))dlsym(RTLD_DEFAULT, name);
	struct stat status;

	print_stat(name, function ? function(1, path, &status) : 0, &status);
}

static void print_access(const char *name, int result)
{
	printf("%s: %s\n", name, result ? print_error() : "yes");
}

int main(int argc, char **argv)
{
	const char *path = argv[argc - 1];
	struct statx extended;
	struct stat64 status64;
	struct stat status;
	int result;

	print_access("access F", access(path, F_OK));
	print_access("access R", access(path, R_OK));
	print_access("access W", access(path, W_OK));
	print_access("access X", access(path, X_OK));
	print_access("eaccess R", eaccess(path, R_OK));
	print_access("euidaccess R", euidaccess(path, R_OK));
	print_access("faccessat R", faccessat(AT_FDCWD, path, R_OK, 0));
	print_stat("stat", stat(path, &status), &status);
	print_stat("lstat", lstat(path, &status), &status);
	print_stat("fstatat", fstatat(AT_FDCWD, path, &status, 0), &status);
	print_stat64("stat64", stat64(path, &status64), &status64);
	print_stat64("lstat64", lstat64(path, &status64), &status64);
	print_stat64("fstatat64", fstatat64(AT_FDCWD, path, &status64, 0), &status64);
	result = statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &extended);
	print_status("statx", result, extended.stx_mode, extended.stx_rdev_major,
		     extended.stx_rdev_minor);
	print_old("__xstat", path);
	print_old("__xstat64", path);
	print_old("__lxstat", path);
	print_old("__lxstat64", path);
	return 0;
}
