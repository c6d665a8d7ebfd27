/* SPDX-License-Identifier: BSD-3-Clause */
/* program.c -- readings program/: whether the program can be reached by a preload, and what it uses
 *
 * Its files are read in a child (child.h), and none of them is run but by --run (program_run.c). Beside what host.h lists:
 *
 *   program/ended       how the child ended
 *   program/file        the ELF file that is looked at: the program, or what its script names, with no link left in it
 *   program/interpreter "python3.11": the ELF file's name without its folder, where it is an interpreter that we know
 *   program/launcher    "container", "mpi" or "job", where the program is known to start others: the library has to
 *                       exist, at the same path, where those run
 *   program/libraries   "NAME PATH" of each that is found, one a line
 *   program/uses        words for what it is linked with: libcuda libcudart libibverbs libmlx5 libmpi libucp libnccl ...,
 *                       one a line, with the file's path behind it
 *   program/cuda_in     libraries that have the CUDA runtime, or a look-up of the driver's calls, linked into them
 *   program/error       words, where the file is not what it seems to be
 *   program/unrunnable  "1": because of that error nobody can run it
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/doctor/host.h"
#include "tools/doctor/libraries.h"
#include "tools/doctor/program.h"
#include "tools/program_file.h"

#define SECONDS 20

/* Of all files together that are searched for words. */
#define SEARCH_MAX ((size_t)4 << 30)

#define TEXT_MAX ((size_t)1 << 16)

/* ---- the program and its libraries ---- */

static void add_line(char *text, const char *format, const char *first, const char *second)
{
	size_t length = strlen(text);

	if (length + strlen(first) + strlen(second) + strlen(format) < TEXT_MAX) {
		if (length)
			text[length++] = '\n';
		sprintf(text + length, format, first, second);
	}
}

/* Whether the file's name is that of the library: "libmpi" of libmpi.so.40, not of libmpi_cxx.so. */
static bool is_library(const char *name, const char *library)
{
	const char *base = strrchr(name, '/');
	size_t length = strlen(library);

	base = base ? base + 1 : name;
	return strncmp(base, library, length) == 0 && (base[length] == '.' || base[length] == '-');
}

static void say_uses(struct host *host, const struct libraries *libraries, char *text)
{
	static const char *const known[] = { "libcuda",		"libcudart", "libibverbs", "libmlx5",
					     "libmpi",		"libmpich",  "libucp",	   "libnccl",
					     "libnvshmem_host", "libfabric", "libopen-pal" };

	*text = '\0';
	for (int i = 1; i < libraries->count; i++) {
		const struct library *library = &libraries->list[i];

		for (size_t k = 0; k < sizeof(known) / sizeof(*known); k++) {
			if (is_library(library->name, known[k]))
				add_line(text, "%s %s", known[k], library->path ? library->path : "?");
		}
	}
	host_say(host, "program/uses", "%s", text);
}

/* The runtime, where it is linked in, looks for this name in the driver; so do programs that do without it. */
static void say_linked_in(struct host *host, const struct libraries *libraries, char *text)
{
	static const char *const words[] = { "cuGetProcAddress_v2", "RTLD_DEEPBIND" };
	size_t left = SEARCH_MAX;

	*text = '\0';
	for (int i = 0; i < libraries->count; i++) {
		const struct library *library = &libraries->list[i];
		unsigned int found;
		struct stat status;

		if (!library->path || is_library(library->name, "libcuda") ||
		    is_library(library->name, "libcudart") || is_library(library->name, "libpeerpin") ||
		    stat(library->path, &status) || (size_t)status.st_size > left)
			continue;
		left -= (size_t)status.st_size;
		found = elf_file_search(library->path, words, 2, (size_t)status.st_size);
		if (found & 1 && i == 0)
			host_say(host, "program/static_cuda", "1");
		else if (found & 1)
			add_line(text, "%s%s", library->name, "");
		if (found & 2 && i == 0)
			host_say(host, "program/deepbind", "1");
	}
	host_say(host, "program/cuda_in", "%s", text);
}

static void say_libraries(struct host *host, const struct libraries *libraries)
{
	char *needed = calloc(1, TEXT_MAX), *missing = calloc(1, TEXT_MAX), *found = calloc(1, TEXT_MAX);

	for (int i = 1; needed && missing && found && i < libraries->count; i++) {
		const struct library *library = &libraries->list[i];

		add_line(needed, "%s%s", library->name, "");
		if (library->path)
			add_line(found, "%s %s", library->name, library->path);
		else
			add_line(missing, "%s%s", library->name, "");
	}
	if (needed && missing && found) {
		host_say(host, "program/needed", "%s", needed);
		host_say(host, "program/missing", "%s", missing);
		host_say(host, "program/libraries", "%s", found);
		say_uses(host, libraries, found);
		say_linked_in(host, libraries, found);
	}
	free(needed);
	free(missing);
	free(found);
}

static void say_privilege(struct host *host, const char *path)
{
	struct program_rights rights;
	char text[60];

	if (!program_rights(path, &rights))
		return;
	snprintf(text, sizeof(text), "%s%s%s", rights.setuid ? " setuid" : "", rights.setgid ? " setgid" : "",
		 rights.capability ? " capability" : "");
	host_say(host, "program/privilege", "%s", *text ? text + 1 : "none");
}

static void say_interpreter(struct host *host, const char *path)
{
	static const char *const known[] = { "python", "pypy",	"perl", "ruby",	  "julia", "lua",
					     "node",   "java",	"bash", "dash",	  "sh",	   "zsh",
					     "ksh",    "tclsh", "R",	"Rscript" };
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		size_t length = strlen(known[i]);

		/* python3.11, lua5.4 */
		if (!strncmp(base, known[i], length) &&
		    !base[length + strspn(base + length, "0123456789.")]) {
			host_say(host, "program/interpreter", "%s", base);
			return;
		}
	}
}

static void say_elf(struct host *host, const char *path)
{
	struct libraries libraries;
	char real[PATH_MAX];
	int error = libraries_find(path, &libraries);
	const struct elf_file *elf;

	if (!realpath(path, real))
		snprintf(real, sizeof(real), "%s", path);
	host_say(host, "program/file", "%s", real);
	say_privilege(host, path);
	if (error) {
		host_say(host, "program/error", "%s: %s", path,
			 error == ENOEXEC
				 ? "it begins like an ELF file, and is damaged or of another byte order"
				 : strerror(error));
		return;
	}
	elf = &libraries.list[0].elf;
	host_say(host, "program/class", "%d", elf->class);
	host_say(host, "program/machine", "%s", elf_machine_name(elf->machine));
	if (*elf->interpreter)
		host_say(host, "program/loader", "%s", elf->interpreter);
	if (*elf->glibc)
		host_say(host, "program/glibc", "%s", elf->glibc);
	say_interpreter(host, real);
	say_libraries(host, &libraries);
	libraries_free(&libraries);
}

/* ---- the whole ---- */

static void say_launcher(struct host *host, const char *name)
{
	static const struct {
		const char *name, *kind;
	} launchers[] = {
		{ "apptainer", "container" },
		{ "singularity", "container" },
		{ "docker", "container" },
		{ "podman", "container" },
		{ "nerdctl", "container" },
		{ "enroot", "container" },
		{ "shifter", "container" },
		{ "ch-run", "container" },
		{ "sarus", "container" },
		{ "pcocc", "container" },
		{ "mpirun", "mpi" },
		{ "mpiexec", "mpi" },
		{ "mpiexec.hydra", "mpi" },
		{ "orterun", "mpi" },
		{ "prterun", "mpi" },
		{ "prun", "mpi" },
		{ "srun", "job" },
		{ "sbatch", "job" },
		{ "jsrun", "job" },
		{ "aprun", "job" },
		{ "flux", "job" },
		{ "torchrun", "mpi" },
	};
	const char *base = strrchr(name, '/');

	base = base ? base + 1 : name;
	for (size_t i = 0; i < sizeof(launchers) / sizeof(*launchers); i++) {
		if (strcmp(base, launchers[i].name) == 0)
			host_say(host, "program/launcher", "%s", launchers[i].kind);
	}
}

/* How many of its first bytes there are; below 0 where it cannot be read. */
static ssize_t read_beginning(const char *path, char *bytes, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t length = fd < 0 ? -1 : read(fd, bytes, size);

	if (fd >= 0)
		close(fd);
	return length;
}

static bool begins_as_elf(const char *path)
{
	char bytes[4];

	return read_beginning(path, bytes, sizeof(bytes)) == 4 && memcmp(bytes, "\177ELF", 4) == 0;
}

/* As shells tell what they may run without a first line. */
static bool is_text(const char *path)
{
	char bytes[256];
	ssize_t length = read_beginning(path, bytes, sizeof(bytes));

	return length > 0 && !memchr(bytes, '\0', (size_t)length);
}

static void ask(struct host *host)
{
	const char *name = host_text(host, "option/program");
	char path[PATH_MAX], line[256];
	int scripts = 0;

	say_launcher(host, name);
	if (!program_find(name, path)) {
		int error = access(path, F_OK) ? errno : EACCES;

		host_fail(host, "program/path", error, "%s: %s", path, strerror(error));
		return;
	}
	host_say(host, "program/path", "%s", path);
	if (access(path, R_OK)) {
		host_say(host, "program/error", "%s: %s: it may be run but not read", path, strerror(errno));
		return;
	}
	while (script_line(path, line, sizeof(line))) {
		if (!scripts++) {
			host_say(host, "program/kind", "script");
			host_say(host, "program/interpreter_line", "%s", line);
		}
		if (scripts > SCRIPTS_MAX || !script_follow(line, path)) {
			host_say(host, "program/error", "%s: the script's interpreter cannot be found", line);
			host_say(host, "program/unrunnable", "1");
			return;
		}
	}
	if (begins_as_elf(path)) {
		host_say(host, "program/kind", "elf"); /* the first one stays */
		say_elf(host, path);
	} else {
		host_say(host, "program/kind", is_text(path) ? "text" : "other");
	}
}

static void fill(struct host *host)
{
	const char *name = host_text(host, "option/program"), *run = host_text(host, "option/run");

	if (!name || !*name)
		return;
	host_ask_child(host, "program/", SECONDS, ask);
	if (run && strcmp(run, "on") == 0 && host_text(host, "program/path"))
		program_run(host);
}

void program_add(struct host *host)
{
	host_add_source(host, "program/", fill);
}
