/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_program.c -- whether a program loads libpeerpin.so, and which ways in it uses */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/checks.h"
#include "tools/doctor/host_internal.h"

/* False: no program was named, or it is not there; the finding says so. */
static bool is_named(struct host *host, struct finding *finding)
{
	const struct reading *path = host_read(host, "program/path");
	const char *asked = host_text(host, "option/program");

	if (!path->error)
		return true;
	if (asked && had_no_time(host, finding, "program/ended"))
		return false;
	if (!asked) {
		finding_set(finding, VERDICT_NOT_NEEDED,
			    "no program was named: peerpin doctor ./app looks at it");
	} else {
		finding_set(finding, VERDICT_FAIL, "%s: %s", asked,
			    path->error == ENOENT   ? "no such program"
			    : path->error == EACCES ? "not an executable file"
						    : host_error_name(path->error));
		finding_mend(finding, "give its path: peerpin doctor ./app");
	}
	return false;
}

/* The first line of a list that begins so; "" if there is none. */
static void find_line(const char *list, const char *begin, char *to, size_t size)
{
	while (host_line(&list, to, size)) {
		if (!strncmp(to, begin, strlen(begin)))
			return;
	}
	*to = '\0';
}

/* What keeps the preload out of any program. */
static void look_at_loading(struct host *host, struct finding *finding)
{
	const char *class = host_text(host, "program/class"), *machine = host_text(host, "program/machine");
	const char *own = host_text(host, "identity/machine"), *loader;
	const struct reading *asked = host_read(host, "program/loader");
	const char *privilege = host_text(host, "program/privilege");

	loader = asked->error ? NULL : asked->text;
	if (class && strcmp(class, "64")) {
		finding_add(finding, VERDICT_FAIL, "a program of %s bits", class);
		finding_mend(finding, "build it for 64 bits");
	}
	if (machine && own && strcmp(machine, own)) {
		finding_add(finding, VERDICT_FAIL, "a program for %s on a machine that is %s", machine, own);
		finding_mend(finding, "build it for %s", own);
	}
	if (reading_is_refused(asked)) {
		finding_add(finding, VERDICT_UNKNOWN, "its loader cannot be read: %s",
			    host_error_name(asked->error));
	} else if (!loader) {
		finding_add(finding, VERDICT_FAIL, "static: it loads no library, nothing can be intercepted");
		finding_mend(finding, "link it dynamically (without -static)");
	} else if (strstr(loader, "musl")) {
		finding_add(finding, VERDICT_FAIL, "of musl, not of glibc");
		finding_mend(finding, "build it against glibc");
	}
	if (privilege && strcmp(privilege, "none")) {
		finding_add(finding, VERDICT_FAIL, "%s: the loader leaves LD_PRELOAD out", privilege);
		finding_mend(finding, "use a copy without these rights: cp ./app ./app.plain");
	}
}

/* The machine's glibc is older than what the program was built against. */
static void look_at_glibc(struct host *host, struct finding *finding)
{
	const char *wanted = host_text(host, "program/glibc"), *here = host_text(host, "identity/glibc");

	if (!wanted || !here || strverscmp(wanted, here) <= 0)
		return;
	finding_add(finding, VERDICT_FAIL, "it needs glibc %s, this machine has %s", wanted, here);
	finding_mend(finding, "build it on this machine, or run it in a container that has glibc %s", wanted);
}

/* What is started through it is not what it is. */
static void look_at_launcher(struct host *host, struct finding *finding)
{
	const char *launcher = host_text(host, "program/launcher");

	if (!launcher)
		return;
	if (!strcmp(launcher, "container")) {
		finding_add(finding, VERDICT_WARN, "starts a container: libpeerpin.so has to be inside it");
		finding_mend(finding, "use peerpin inside the container, or bind its folder into it");
	} else {
		finding_add(finding, VERDICT_OK, "a launcher: name the program that it starts instead");
	}
}

static void look_at_libraries(struct host *host, struct finding *finding)
{
	const char *needed = host_text(host, "program/needed");
	const char *missing = host_text(host, "program/missing");
	const char *inside = host_text(host, "program/cuda_in");
	char runtime[128], driver[128], mpi[128];

	find_line(needed, "libcudart", runtime, sizeof(runtime));
	find_line(needed, "libcuda.so", driver, sizeof(driver));
	find_line(needed, "libmpi", mpi, sizeof(mpi));
	if (*runtime)
		finding_add(finding, VERDICT_OK, "CUDA by %s", runtime);
	else if (host_has(host, "program/static_cuda"))
		finding_add(finding, VERDICT_OK, "CUDA's runtime linked in (seen by cuGetProcAddress)");
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

		find_line(missing, "", first, sizeof(first));
		finding_add(finding, VERDICT_WARN, "%s is not found", first);
		finding_mend(finding, "LD_LIBRARY_PATH, or module load, for %s", first);
	}
	if (host_has(host, "program/deepbind")) {
		finding_add(finding, VERDICT_WARN,
			    "it may load libraries with RTLD_DEEPBIND, which see their own calls only");
		finding_mend(finding,
			     "peerpin --log-level debug ./app, and look whether allocations are seen");
	}
}

void check_program(struct host *host, struct finding *finding)
{
	const char *kind, *line, *path, *error;
	char *base;

	finding_read(finding, "its ELF header, PT_INTERP, DT_NEEDED, mode, security.capability");
	if (!is_named(host, finding))
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
			    "a script without a first line: shells run it by sh, launchers may refuse to");
		finding_mend(finding, "begin it with #!/bin/sh");
		return;
	}
	if (!kind || (strcmp(kind, "elf") && strcmp(kind, "script"))) {
		finding_add(finding, kind ? VERDICT_FAIL : VERDICT_UNKNOWN, "%s",
			    kind ? "neither a program nor a script" : "it could not be read");
		finding_mend(finding, "file %s", path);
		return;
	}
	if (!host_has(host, "program/class")) {
		error = host_text(host, "program/error");
		finding_add(finding, VERDICT_UNKNOWN, "%s", error ? error : "what it runs could not be read");
		if (error && host_has(host, "program/unrunnable")) {
			finding->verdict = VERDICT_FAIL;
			finding_mend(finding, "name in its first line what is installed");
		}
		return;
	}
	look_at_loading(host, finding);
	look_at_glibc(host, finding);
	look_at_launcher(host, finding);
	if (finding->verdict < VERDICT_FAIL)
		look_at_libraries(host, finding);
}

/* A line of what was seen; how it ended in words. */
static void say_seen(struct finding *finding, const char *line)
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
	const char *asked = host_text(host, "option/run");
	char line[200];

	finding_read(finding, "its statistics after one second (--run)");
	if (!is_named(host, finding)) {
		if (finding->verdict == VERDICT_FAIL)
			finding_set(finding, VERDICT_UNKNOWN, "there is no program to start");
		return;
	}
	run = host_read(host, "program/run");
	if (run->error && !asked) {
		finding_set(finding, VERDICT_NOT_NEEDED, "not started: --run starts it for a second");
	} else if (run->error) {
		finding_set(finding, VERDICT_UNKNOWN, "it could not be started: %s%s%s",
			    host_error_name(run->error), *run->text ? " " : "", run->text);
	} else {
		bool ways = false;

		for (const char *at = run->text; host_line(&at, line, sizeof(line));) {
			ways |= strncmp(line, "ended ", 6) && strncmp(line, "processes ", 10);
			say_seen(finding, line);
		}
		if (!ways) {
			finding_add(finding, VERDICT_WARN, "in its first second none of its calls was seen");
			finding_mend(
				finding,
				"peerpin --stats-file stats.json ./app, and look at the end of a whole run");
		}
	}
}
