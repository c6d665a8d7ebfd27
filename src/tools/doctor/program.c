/* SPDX-License-Identifier: BSD-3-Clause */
/* program.c -- readings program/: files of the program, and the libraries that it links
 *
 * A child reads the files (child.h). No file is executed.
 * Readings beside those of host.h:
 *
 *   program/ended       end of the child
 *   program/launcher    "container", "mpi" or "job": the program is known to start others.
 *                       libpeerpin.so must exist there, at an identical path
 *   program/launched    word of the program that an "mpi" or "job" launcher starts: all further
 *                       readings of program/ then describe that program
 *   program/cuda_in     libraries that contain the CUDA runtime, or a look-up of driver functions
 *   program/error       message: the file is malformed or unreadable
 *   program/unrunnable  "1": that error prevents execution
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "tools/doctor/host.h"
#include "tools/doctor/libraries.h"
#include "tools/program_file.h"
#include "tools/units.h"

#define SECONDS 20

/* Limit for the bytes of all files searched. */
#define SEARCH_MAX ((size_t)4 << 30)

/* ---- program and libraries ---- */

/* True if the base name is the library's: "libmpi" matches libmpi.so.40, not libmpi_cxx.so. */
static bool program_is_library(const char *name, const char *library)
{
	const char *base = text_file_name(name);
	size_t length = strlen(library);

	return strncmp(base, library, length) == 0 && (base[length] == '.' || base[length] == '-');
}

/* A statically linked CUDA runtime looks up this name in the driver, as do programs without the
 * runtime. */
static void program_record_linked_in(struct host *host, const struct libraries *libraries)
{
	static const char *const words[] = { "cuGetProcAddress_v2", "RTLD_DEEPBIND" };
	size_t left = SEARCH_MAX;
	char *inside = NULL;

	for (int i = 0; i < libraries->count; i++) {
		const struct library *library = &libraries->list[i];
		unsigned int found;
		struct stat status;

		if (!library->path || program_is_library(library->name, "libcuda") ||
		    program_is_library(library->name, "libcudart") ||
		    program_is_library(library->name, "libpeerpin") ||
		    stat(library->path, &status) || (size_t)status.st_size > left)
			continue;
		left -= (size_t)status.st_size;
		found = elf_file_search(library->path, words, 2, (size_t)status.st_size);
		if (found & 1 && i == 0)
			host_record(host, "program/static_cuda", "1");
		else if (found & 1)
			list_append(&inside, "\n", library->name);
		if (found & 2 && i == 0)
			host_record(host, "program/deepbind", "1");
	}
	host_record(host, "program/cuda_in", "%s", inside ? inside : "");
}

static void program_record_libraries(struct host *host, const struct libraries *libraries)
{
	char *needed = NULL, *missing = NULL;

	for (int i = 1; i < libraries->count; i++) {
		const struct library *library = &libraries->list[i];

		list_append(&needed, "\n", library->name);
		if (!library->path)
			list_append(&missing, "\n", library->name);
	}
	host_record(host, "program/needed", "%s", needed ? needed : "");
	host_record(host, "program/missing", "%s", missing ? missing : "");
	program_record_linked_in(host, libraries);
}

static void program_record_privilege(struct host *host, const char *path)
{
	struct program_privileges privileges;
	char text[60];

	if (!program_privileges(path, &privileges))
		return;
	snprintf(text, sizeof(text), "%s%s%s", privileges.setuid ? " setuid" : "",
		 privileges.setgid ? " setgid" : "", privileges.capability ? " capability" : "");
	host_record(host, "program/privilege", "%s", *text ? text + 1 : "none");
}

static void program_record_elf(struct host *host, const char *path)
{
	struct libraries libraries;
	int error = libraries_find(path, &libraries);
	const struct elf_file *elf;

	program_record_privilege(host, path);
	if (error) {
		host_record(host, "program/error", "%s: %s", path,
			    error == ENOEXEC ? "it begins like an ELF file, and is damaged or of "
					       "another byte order"
					     : strerror(error));
		return;
	}
	elf = &libraries.list[0].elf;
	host_record(host, "program/class", "%d", elf->class);
	host_record(host, "program/machine", "%s", elf_machine_name(elf->machine));
	if (*elf->interpreter)
		host_record(host, "program/loader", "%s", elf->interpreter);
	if (*elf->glibc)
		host_record(host, "program/glibc", "%s", elf->glibc);
	program_record_libraries(host, &libraries);
	libraries_free(&libraries);
}

/* ---- source ---- */

/* False: no argument names a program, or one starts a container. */
static bool program_find_launched(struct host *host, char word[PATH_MAX], char path[PATH_MAX])
{
	const char *words = host_text(host, "option/arguments");
	int found = 0;

	while (!found && host_line(&words, word, PATH_MAX))
		found = launcher_argument(word, path);
	return found > 0;
}

static const char *program_kind(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char bytes[256];
	ssize_t length = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));

	if (fd >= 0)
		close(fd);
	if (length >= 4 && !memcmp(bytes, "\177ELF", 4))
		return "elf";
	/* Shells use this rule for scripts without a #! line: no NUL in the first bytes. */
	return length > 0 && !memchr(bytes, '\0', (size_t)length) ? "text" : "other";
}

static void program_query(struct host *host)
{
	const char *name = host_text(host, "option/program");
	const char *launcher = launcher_kind(name), *kind;
	char path[PATH_MAX], line[256], launched[PATH_MAX];
	int scripts = 0;

	if (launcher)
		host_record(host, "program/launcher", "%s", launcher);
	if (launcher && strcmp(launcher, "container") != 0 &&
	    program_find_launched(host, launched, path)) {
		host_record(host, "program/launched", "%s", launched);
	} else if (!program_find(name, path)) {
		int error = access(path, F_OK) ? errno : EACCES;

		host_record_error(host, "program/path", error, "%s: %s", path, strerror(error));
		return;
	}
	host_record(host, "program/path", "%s", path);
	if (access(path, R_OK)) {
		host_record(host, "program/error", "%s: %s: it may be run but not read", path,
			    strerror(errno));
		return;
	}
	while (script_line(path, line, sizeof(line))) {
		if (!scripts++) {
			host_record(host, "program/kind", "script");
			host_record(host, "program/interpreter_line", "%s", line);
		}
		if (scripts > SCRIPTS_MAX || !script_follow(line, path)) {
			host_record(host, "program/error",
				    "%s: the script's interpreter cannot be found", line);
			host_record(host, "program/unrunnable", "1");
			return;
		}
	}
	kind = program_kind(path);
	host_record(host, "program/kind", "%s", kind); /* the first record stays: "script" */
	if (!strcmp(kind, "elf"))
		program_record_elf(host, path);
}

void program_fill(struct host *host)
{
	const char *name = host_text(host, "option/program");

	if (name && *name)
		host_run_child(host, "program/", SECONDS, program_query);
}
