/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_program.c -- checks of a program: loads libpeerpin.so or not, entry points in use */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/checks.h"
#include "tools/doctor/host_internal.h"

/* False: no program is named, or it does not exist; the finding has the reason. */
static bool checks_program_is_named(struct host *host, struct finding *finding)
{
	const struct reading *path = host_read(host, "program/path");
	const char *name = host_text(host, "option/program");

	if (!path->error)
		return true;
	if (name && had_no_time(host, finding, "program/ended"))
		return false;
	if (!name) {
		finding_set(finding, VERDICT_NOT_NEEDED,
			    "no program was named: peerpin doctor ./app looks at it");
	} else {
		finding_set(finding, VERDICT_FAIL, "%s: %s", name,
			    path->error == ENOENT   ? "no such program"
			    : path->error == EACCES ? "not an executable file"
						    : host_error_name(path->error));
		finding_fix(finding, "give its path: peerpin doctor ./app");
	}
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
		   *machine = host_text(host, "program/machine");
	const char *own = host_text(host, "identity/machine"), *loader;
	const struct reading *reading = host_read(host, "program/loader");
	const char *privilege = host_text(host, "program/privilege");

	loader = reading->error ? NULL : reading->text;
	if (class && strcmp(class, "64")) {
		finding_add(finding, VERDICT_FAIL, "a program of %s bits", class);
		finding_fix(finding, "build it for 64 bits");
	}
	if (machine && own && strcmp(machine, own)) {
		finding_add(finding, VERDICT_FAIL, "a program for %s on a machine that is %s",
			    machine, own);
		finding_fix(finding, "build it for %s", own);
	}
	if (reading_is_refused(reading)) {
		finding_add(finding, VERDICT_UNKNOWN, "its loader cannot be read: %s",
			    host_error_name(reading->error));
	} else if (!loader) {
		finding_add(finding, VERDICT_FAIL,
			    "static: it loads no library, nothing can be intercepted");
		finding_fix(finding, "link it dynamically (without -static)");
	} else if (strstr(loader, "musl")) {
		finding_add(finding, VERDICT_FAIL, "of musl, not of glibc");
		finding_fix(finding, "build it against glibc");
	}
	if (privilege && strcmp(privilege, "none")) {
		finding_add(finding, VERDICT_FAIL, "%s: the loader leaves LD_PRELOAD out",
			    privilege);
		finding_fix(finding, "use a copy without these rights: cp ./app ./app.plain");
	}
}

/* FAIL if the machine's glibc is older than the program requires. */
static void checks_program_glibc(struct host *host, struct finding *finding)
{
	const char *wanted = host_text(host, "program/glibc"),
		   *here = host_text(host, "identity/glibc");

	if (!wanted || !here || strverscmp(wanted, here) <= 0)
		return;
	finding_add(finding, VERDICT_FAIL, "it needs glibc %s, this machine has %s", wanted, here);
	finding_fix(finding, "build it on this machine, or run it in a container that has glibc %s",
		    wanted);
}

/* A launcher's own checks do not apply to the program that it starts. */
static void checks_program_launcher(struct host *host, struct finding *finding)
{
	const char *launcher = host_text(host, "program/launcher");

	if (!launcher)
		return;
	if (!strcmp(launcher, "container")) {
		finding_add(finding, VERDICT_WARN,
			    "starts a container: libpeerpin.so has to be inside it");
		finding_fix(finding,
			    "use peerpin inside the container, or bind its folder into it");
	} else {
		finding_add(finding, VERDICT_OK,
			    "a launcher: name the program that it starts instead");
	}
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
		finding_add(finding, VERDICT_OK, "CUDA by %s", runtime);
	else if (host_has(host, "program/static_cuda"))
		finding_add(finding, VERDICT_OK,
			    "CUDA's runtime linked in (seen by cuGetProcAddress)");
	else if (inside && *inside)
		finding_add(finding, VERDICT_OK, "CUDA's runtime linked into %.*s",
			    (int)strcspn(inside, "\n"), inside);
	else if (*driver)
		finding_add(finding, VERDICT_OK, "CUDA by %s", driver);
	else
		finding_add(finding, VERDICT_OK, "no CUDA at link time; it may load it");
	if (*mpi)
		finding_add(finding, VERDICT_OK, "MPI by %s", mpi);
	if (missing && *missing) {
		char first[128];

		checks_program_find_line(missing, "", first, sizeof(first));
		finding_add(finding, VERDICT_WARN, "%s is not found", first);
		finding_fix(finding, "LD_LIBRARY_PATH, or module load, for %s", first);
	}
	if (host_has(host, "program/deepbind")) {
		finding_add(
			finding, VERDICT_WARN,
			"it may load libraries with RTLD_DEEPBIND, which see their own calls only");
		finding_fix(
			finding,
			"peerpin --log-level debug ./app, and look whether allocations are seen");
	}
}

void check_program(struct host *host, struct finding *finding)
{
	const char *kind, *line, *path, *error;
	char *base;

	finding_read(finding, "its ELF header, PT_INTERP, DT_NEEDED, mode, security.capability");
	if (!checks_program_is_named(host, finding))
		return;
	path = host_text(host, "program/path");
	kind = host_text(host, "program/kind");
	line = host_text(host, "program/interpreter_line");
	base = need_text("%s", strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
	finding_set(finding, VERDICT_OK, "%s", base);
	free(base);
	if (line)
		finding_append(finding, " (run by %s)", line);
	if (kind && !strcmp(kind, "text")) {
		finding_add(finding, VERDICT_WARN,
			    "a script without a first line: shells run it by sh, launchers may "
			    "refuse to");
		finding_fix(finding, "begin it with #!/bin/sh");
		return;
	}
	if (!kind || (strcmp(kind, "elf") && strcmp(kind, "script"))) {
		finding_add(finding, kind ? VERDICT_FAIL : VERDICT_UNKNOWN, "%s",
			    kind ? "neither a program nor a script" : "it could not be read");
		finding_fix(finding, "file %s", path);
		return;
	}
	if (!host_has(host, "program/class")) {
		error = host_text(host, "program/error");
		finding_add(finding, VERDICT_UNKNOWN, "%s",
			    error ? error : "what it runs could not be read");
		if (error && host_has(host, "program/unrunnable")) {
			finding->verdict = VERDICT_FAIL;
			finding_fix(finding, "name in its first line what is installed");
		}
		return;
	}
	checks_program_loading(host, finding);
	checks_program_glibc(host, finding);
	checks_program_launcher(host, finding);
	if (finding->verdict < VERDICT_FAIL)
		checks_program_libraries(host, finding);
}

/* Adds a line of program/run, with the exit in words. */
static void checks_program_report_line(struct finding *finding, const char *line)
{
	static const struct {
		const char *line, *words;
	} ends[] = {
		{ "ended exit ", "ended with status " },
		{ "ended signal ", "ended by signal " },
		{ "ended terminated", "ended by SIGTERM after its second" },
		{ "ended killed", "ended by SIGKILL after its second" },
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t length = strlen(ends[i].line);

		if (!strncmp(line, ends[i].line, length)) {
			finding_add(finding, VERDICT_OK, "%s%s", ends[i].words, line + length);
			return;
		}
	}
	finding_add(finding, VERDICT_OK, "%s", line);
}

void check_run(struct host *host, struct finding *finding)
{
	const struct reading *run;
	const char *option = host_text(host, "option/run");
	char line[200];

	finding_read(finding, "its statistics after one second (--run)");
	if (!checks_program_is_named(host, finding)) {
		if (finding->verdict == VERDICT_FAIL)
			finding_set(finding, VERDICT_UNKNOWN, "there is no program to start");
		return;
	}
	run = host_read(host, "program/run");
	if (run->error && !option) {
		finding_set(finding, VERDICT_NOT_NEEDED,
			    "not started: --run starts it for a second");
	} else if (run->error) {
		finding_set(finding, VERDICT_UNKNOWN, "it could not be started: %s%s%s",
			    host_error_name(run->error), *run->text ? " " : "", run->text);
	} else {
		bool calls = false;

		for (const char *at = run->text; host_line(&at, line, sizeof(line));) {
			calls |= strncmp(line, "ended ", 6) && strncmp(line, "processes ", 10);
			checks_program_report_line(finding, line);
		}
		if (!calls) {
			finding_add(finding, VERDICT_WARN,
				    "in its first second none of its calls was seen");
			finding_fix(finding, "peerpin --stats-file stats.json ./app, and look at "
					     "the end of a whole run");
		}
	}
}
