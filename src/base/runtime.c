/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime.c -- makes and opens the folder, and judges it by what was opened */
#include "base/runtime.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/auxv.h>

#include "base/kernel.h"
#include "base/system.h"

#define PATH_SIZE 4096

static int judge(int folder)
{
	struct stat what;

	if (kernel_describe(folder, &what))
		return -errno;
	if (!S_ISDIR(what.st_mode) || what.st_uid != kernel_user() || (what.st_mode & 077))
		return -EPERM;
	return 0;
}

static int open_folder(const char *path)
{
	int folder, error;

	if (kernel_make_folder(path, 0700) && errno != EEXIST)
		return -errno;
	folder = kernel_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	if (folder < 0)
		return -errno;
	error = judge(folder);
	if (!error)
		return folder;
	kernel_close(folder);
	return error;
}

static int find(char *path, size_t size)
{
	const char *runtime = system_environment("XDG_RUNTIME_DIR");
	int folder;

	/* Its environment is of somebody else's making. */
	if (getauxval(AT_SECURE))
		return -EPERM;
	if (runtime && *runtime == '/' && (size_t)system_format(path, size, "%s/peerpin", runtime) < size) {
		folder = open_folder(path);
		if (folder >= 0)
			return folder;
	}
	if ((size_t)system_format(path, size, "/dev/shm/peerpin-%u", (unsigned int)kernel_user()) >= size)
		return -ENAMETOOLONG;
	return open_folder(path);
}

int runtime_folder(void)
{
	int saved_errno = errno, folder;
	char path[PATH_SIZE];

	folder = find(path, sizeof(path));
	errno = saved_errno;
	return folder;
}

int runtime_path(char *to, size_t size)
{
	int saved_errno = errno, folder = find(to, size);

	if (folder >= 0)
		kernel_close(folder);
	errno = saved_errno;
	return folder < 0 ? folder : 0;
}
