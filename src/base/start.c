/* SPDX-License-Identifier: BSD-3-Clause */
/* start.c -- copies name, settings, folder and standard streams once */
#include "base/start.h"

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/loaded.h"
#include "base/once.h"
#include "base/text.h"

#define SETTINGS      128
#define SETTINGS_SIZE 32768

static struct {
	struct stat streams[2]; /* standard output and error; all 0: closed */
	char program[256];
	ssize_t folder_length; /* with its zero byte; or -errno */
} start AT_START_DATA;
static once recorded AT_START_DATA;

static char start_folder_name[4096];
static char *start_settings[SETTINGS + 1], start_texts[SETTINGS_SIZE];

static AT_START bool start_copies(const char *entry)
{
	return text_begins(entry, "PEERPIN_") || text_begins(entry, "XDG_RUNTIME_DIR");
}

/* A text beyond SETTINGS_SIZE stays the program's. */
static AT_START void start_copy_settings(void)
{
	size_t count = 0, used = 0, length;

	for (char **entry = environ; entry && *entry && count < SETTINGS; entry++) {
		if (!start_copies(*entry))
			continue;
		start_settings[count] = *entry;
		length = text_length(*entry) + 1;
		if (length <= sizeof(start_texts) - used) {
			start_settings[count] = start_texts + used;
			text_copy(start_texts + used, length, *entry);
			used += length;
		}
		count++;
	}
}

AT_START void start_record(const char *argument)
{
	char **name;

	if (once_is_done(&recorded))
		return;
	/* No look-up in the section: another thread may hold the dynamic linker's lock. */
	if (!argument) {
		name = loaded_first("program_invocation_short_name");
		argument = name && *name ? *name : "unknown";
	}
	if (!once_begin(&recorded))
		return;
	text_copy(start.program, sizeof(start.program), text_file_name(argument));
	start_copy_settings();
	start.folder_length = kernel_call(SYS_getcwd, start_folder_name, sizeof(start_folder_name));
	for (int i = 0; i < 2; i++)
		kernel_describe(STDOUT_FILENO + i, &start.streams[i]);
	once_end(&recorded);
}

const char *start_program(void)
{
	start_record(NULL);
	return start.program;
}

AT_START char *const *start_environment(void)
{
	return once_is_done(&recorded) ? start_settings : environ;
}

AT_START const char *start_variable(const char *name)
{
	char *const *entry = start_copies(name) ? start_environment() : environ;
	size_t length = text_length(name);

	for (; entry && *entry; entry++) {
		if (text_begins(*entry, name) && (*entry)[length] == '=')
			return *entry + length + 1;
	}
	return NULL;
}

ssize_t start_folder(const char *name, char *to, size_t size)
{
	start_record(NULL);
	*to = '\0';
	if (*name == '/')
		return 0;
	if (start.folder_length < 0)
		return start.folder_length;
	/* The kernel puts a word in front of a folder outside of the root. */
	if (*start_folder_name != '/')
		return -ENOENT;
	if ((size_t)start.folder_length >= size)
		return -ENAMETOOLONG;
	text_copy(to, size, start_folder_name);
	text_copy(to + start.folder_length - 1, 2, "/");
	return start.folder_length;
}

bool start_has_stream(int fd)
{
	const struct stat *first = &start.streams[fd - STDOUT_FILENO];
	struct termios settings;
	struct stat now;
	int error;

	start_record(NULL);
	error = kernel_describe(fd, &now);
	/* A seccomp profile may forbid the call: the message that names it is the only sign. */
	if (error)
		return error != -EBADF;
	if (now.st_dev == first->st_dev && now.st_ino == first->st_ino)
		return true;
	if (kernel_call(SYS_fcntl, fd, F_GETFD) & FD_CLOEXEC)
		return false;
	if (S_ISREG(now.st_mode) || S_ISSOCK(now.st_mode))
		return !kernel_check_file(STDOUT_FILENO + STDERR_FILENO - fd, now.st_dev,
					  now.st_ino);
	return S_ISFIFO(now.st_mode) ||
	       (S_ISCHR(now.st_mode) && !kernel_call(SYS_ioctl, fd, TCGETS, &settings));
}
