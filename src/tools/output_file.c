/* SPDX-License-Identifier: BSD-3-Clause */
/* output_file.c -- writes a new file, or replaces a regular one at once */
#include "tools/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/units.h"

static bool output_file_fail(struct output_file *file, const char *path, const char *problem)
{
	char *plain = clean_text(path);

	fprintf(stderr, "peerpin %s: %s%s\n", file->tool, plain, problem);
	free(plain);
	free(file->partial);
	return false;
}

static bool output_file_fail_by(struct output_file *file, const char *path, int error)
{
	char problem[256];

	snprintf(problem, sizeof(problem), ": %s", strerror(error));
	return output_file_fail(file, path, problem);
}

bool output_file_open(struct output_file *file, bool replace, mode_t mode)
{
	struct stat status;
	int fd;

	*file = (struct output_file){ .tool = file->tool, .path = file->path };
	if (!lstat(file->path, &status)) {
		if (!S_ISREG(status.st_mode))
			return output_file_fail(file, file->path,
						" is no regular file: name a new or a regular one");
		if (!replace)
			return output_file_fail(file, file->path, " exists (--force replaces it)");
	}
	if (asprintf(&file->partial, "%s%s", file->path, replace ? ".new" : "") < 0)
		return output_file_fail_by(file, file->path, ENOMEM);
	fd = open(file->partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	file->to = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file->to)
		return output_file_fail_by(file, file->partial, errno);
	errno = 0;
	return true;
}

bool output_file_close(struct output_file *file)
{
	int error = 0;

	if (fflush(file->to) || ferror(file->to))
		error = errno ? errno : EIO;
	if (fclose(file->to) && !error)
		error = errno;
	if (!error && strcmp(file->partial, file->path) && rename(file->partial, file->path))
		error = errno;
	if (error) {
		unlink(file->partial);
		return output_file_fail_by(file, file->path, error);
	}
	free(file->partial);
	return true;
}
