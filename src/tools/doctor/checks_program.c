/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_program.c -- check of a program: loads libpeerpin.so or not */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "tools/doctor/checks.h"
#include "tools/units.h"

/* False: no program is named, or it does not exist; the finding has the reason. */
static bool checks_program_is_named(struct host *host, struct finding *finding)
{
	const struct reading *path = host_read(host, "program/path");
	const char *name = host_text(host, "option/program");

	if (!path->error)
		return true;
	if (name && had_no_time(host, finding, "program/ended"))
		return false;
	if (!name)
		finding_add(finding, NOT_NEEDED,
			    "no program was named: peerpin doctor ./app examines it");
	else
		finding_problem(finding, FAIL, "give its path: peerpin doctor ./app", "%s: %s",
				name,
				path->error == ENOENT	? "no such program"
				: path->error == EACCES ? "not an executable file"
							: host_error_name(path->error));
	return false;
}

/* First line of the list that starts with `begin`; "" if none. */
static void checks_program_find_line(const char *list, const char *begin, char *to, size_t size)
{
	while (host_line(&list, to, size)) {
		if (!strncmp(to, begin, strlen(begin)))
			return;
	}
	*to = '\0';
}

/* Conditions that prevent the preload in any program. */
static void checks_program_loading(struct host *host, struct finding *finding)
{
	const char *class = host_text(host, "program/class"),
		   *machine = host_text(host, "program/machine"),
		   *own = host_text(host, "identity/machine"),
		   *privilege = host_text(host, "program/privilege"),
		   *wanted = host_text(host, "program/glibc"),
		   *glibc = host_text(host, "identity/glibc");
	const struct reading *loader = host_read(host, "program/loader");

	if (class && strcmp(class, "64"))
		finding_problem(finding, FAIL, "build it for 64 bits", "a %s-bit program", class);
	if (machine && own && strcmp(machine, own))
		finding_problem(finding, FAIL, "build it for this machine",
				"a program for %s on a machine of %s", machine, own);
	if (reading_is_refused(loader))
		finding_add(finding, UNKNOWN, "its loader cannot be read: %s",
			    host_error_name(loader->error));
	else if (loader->error)
		finding_problem(finding, FAIL, "link it dynamically (without -static)",
				"static: it loads no library, nothing can be intercepted");
	else if (strstr(loader->text, "musl"))
		finding_problem(finding, FAIL, "build it against glibc",
				"linked to musl, not glibc");
	if (privilege && strcmp(privilege, "none"))
		finding_problem(finding, FAIL,
				"use a copy without these privileges: cp ./app ./app.plain",
				"%s: the loader leaves LD_PRELOAD out", privilege);
	if (wanted && glibc && strverscmp(wanted, glibc) > 0)
		finding_problem(
			finding, FAIL,
			"build it on this machine, or run it in a container with that glibc",
			"it needs glibc %s, this machine has %s", wanted, glibc);
}

/* The launcher's own file says nothing about the program that it starts. */
static void checks_program_launcher(const char *launcher, struct finding *finding)
{
	if (!strcmp(launcher, "container"))
		finding_problem(finding, WARN,
				"use peerpin inside the container, or bind its folder into it",
				"starts a container: libpeerpin.so has to be inside it");
	else
		finding_add(finding, OK, "a launcher: name the program that it starts instead");
}

static void checks_program_libraries(struct host *host, struct finding *finding)
{
	const char *needed = host_text(host, "program/needed");
	const char *missing = host_text(host, "program/missing");
	const char *inside = host_text(host, "program/cuda_in");
	char runtime[128], driver[128], mpi[128];

	checks_program_find_line(needed, "libcudart", runtime, sizeof(runtime));
	checks_program_find_line(needed, "libcuda.so", driver, sizeof(driver));
	checks_program_find_line(needed, "libmpi", mpi, sizeof(mpi));
	if (*runtime)
		finding_add(finding, OK, "CUDA by %s", runtime);
	else if (host_has(host, "program/static_cuda"))
		finding_add(finding, OK,
			    "CUDA runtime linked statically (cuGetProcAddress occurs in it)");
	else if (inside && *inside)
		finding_add(finding, OK, "CUDA runtime linked into %.*s",
			    (int)strcspn(inside, "\n"), inside);
	else if (*driver)
		finding_add(finding, OK, "CUDA by %s", driver);
	else
		finding_add(finding, OK, "no CUDA at link time; dlopen may load it");
	if (*mpi)
		finding_add(finding, OK, "MPI by %s", mpi);
	if (missing && *missing) {
		char first[128];

		checks_program_find_line(missing, "", first, sizeof(first));
		finding_add(finding, WARN, "%s is not found", first);
		finding_fix(finding, "LD_LIBRARY_PATH, or module load, for %s", first);
	}
	if (host_has(host, "program/deepbind"))
		finding_problem(
			finding, WARN,
			"peerpin --log-level debug ./app: its log has each intercepted allocation",
			"it may load libraries with RTLD_DEEPBIND, which bypass peerpin");
}

void check_program(struct host *host, struct finding *finding)
{
	const char *kind, *line, *path, *error, *launcher = host_text(host, "program/launcher");
	bool launched = host_has(host, "program/launched");

	if (!checks_program_is_named(host, finding))
		return;
	path = host_text(host, "program/path");
	kind = host_text(host, "program/kind");
	line = host_text(host, "program/interpreter_line");
	error = host_text(host, "program/error");
	finding_add(finding, OK, "%s%s%s", text_file_name(path),
		    launched ? text_of(" (started by %s)", host_text(host, "option/program")) : "",
		    line ? text_of(" (run by %s)", line) : "");
	if (launcher && !launched) {
		checks_program_launcher(launcher, finding);
	} else if (kind && !strcmp(kind, "text")) {
		finding_problem(
			finding, WARN, "begin it with #!/bin/sh",
			"a script without #! line: shells run it with sh, launchers may refuse it");
	} else if (!kind || (strcmp(kind, "elf") && strcmp(kind, "script"))) {
		finding_add(finding, kind ? FAIL : UNKNOWN, "%s",
			    kind ? "neither a program nor a script" : "it could not be read");
		finding_fix(finding, "file %s", path);
	} else if (!host_has(host, "program/class")) {
		bool runs = !error || !host_has(host, "program/unrunnable");

		finding_problem(finding, runs ? UNKNOWN : FAIL,
				runs ? NULL : "name an installed interpreter in its first line",
				"%s", error ? error : "its interpreter could not be read");
	} else {
		checks_program_loading(host, finding);
		if (finding->result < FAIL)
			checks_program_libraries(host, finding);
	}
}
