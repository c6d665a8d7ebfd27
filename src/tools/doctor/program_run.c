/* SPDX-License-Identifier: BSD-3-Clause */
/* program_run.c -- reading program/run: entry points that the program uses in its first second
 *
 * Starts the program as peerpin does, discards its output, and sends SIGTERM to its process
 * group after 1 s, SIGKILL after 1 s more. Results come from 3 sources in a temporary folder:
 * the dynamic linker's list of bindings (LD_DEBUG=bindings); statistics of processes that exited
 * (PEERPIN_STATS_FILE); statistics segments of processes that were killed (report/segment.h).
 *
 * Lines of program/run, each but the first only if N is not 0:
 *
 * 	ended exit N | signal N | terminated | killed
 * 	                  terminated, killed: by the doctor
 * 	processes N       processes with statistics
 * 	linked N          driver and verbs functions bound to libpeerpin.so by program and libraries
 * 	dlsym N           objects with dlsym bound to peerpin's: their later look-ups use it
 * 	allocations N, requests N, ...   counters of statistics.def, summed over all processes
 *
 * Error ENOENT with a message: libpeerpin.so was not found. option/library overrides the
 * library's path; option/arguments has the program's arguments, one per line; option/run_seconds
 * replaces 1 s.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/doctor/child.h"
#include "tools/doctor/host_internal.h"
#include "tools/doctor/program_statistics.h"

/* Further arguments are dropped. */
#define ARGUMENTS_MAX 500

#ifndef PKGLIBDIR
#define PKGLIBDIR "/usr/lib/peerpin"
#endif

/* ---- run ---- */

/* An installation has no config.status: its folder .libs is not peerpin's. */
static bool program_run_find_library(struct host *host, char path[PATH_MAX])
{
	static const char *const folders[] = { "../.libs", "../../lib/peerpin",
					       "../../lib64/peerpin" };
	const char *given = host_text(host, "option/library");
	char self[PATH_MAX - 100], candidate[PATH_MAX];
	ssize_t length;

	if (given)
		return realpath(given, path);
	length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[length < 0 ? 0 : length] = '\0';
	if (strrchr(self, '/'))
		*strrchr(self, '/') = '\0';
	snprintf(candidate, sizeof(candidate), "%s/../../config.status", self);
	for (size_t i = access(candidate, F_OK) != 0; i < sizeof(folders) / sizeof(*folders); i++) {
		snprintf(candidate, sizeof(candidate), "%s/%s/libpeerpin.so", self, folders[i]);
		if (realpath(candidate, path))
			return true;
	}
	return realpath(PKGLIBDIR "/libpeerpin.so", path);
}

static void program_run_set(const char *name, const char *format, const char *value,
			    const char *more)
{
	char text[2 * PATH_MAX];

	snprintf(text, sizeof(text), format, value, more);
	setenv(name, text, 1);
}

static void program_run_start(const char *path, char **arguments, const char *library,
			      const char *folder)
{
	const char *preloads = getenv("LD_PRELOAD");
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	setpgid(0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	program_run_set("LD_PRELOAD", preloads && *preloads ? "%s:%s" : "%s", library, preloads);
	program_run_set("PEERPIN_STATS_FILE", "%s/%s", folder, "%p.json");
	program_run_set("PEERPIN_SUMMARY", "%s", "none", "");
	program_run_set("XDG_RUNTIME_DIR", "%s", folder, "");
	program_run_set("LD_DEBUG", "%s", "bindings", "");
	program_run_set("LD_DEBUG_OUTPUT", "%s/%s", folder, "ld");
	/* SIGKILL to the group misses a program that leaves it to run in the background. */
	execv(path, arguments);
	_exit(127);
}

/* A program that crashes when it is stopped ends by that signal, not by the doctor's. */
static bool program_run_was_stopped(int status)
{
	return !WIFSIGNALED(status) || WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGKILL;
}

static void program_run_watch(pid_t pid, unsigned int seconds, char ended[40])
{
	const char *stopped = NULL;
	int status = 0;

	if (!child_ends_within(pid, seconds * 1000)) {
		kill(-pid, SIGTERM);
		stopped = child_ends_within(pid, 1000) ? "terminated" : "killed";
	}
	/* Kills the whole process group. */
	kill(-pid, SIGKILL);
	if (!child_ends_within(pid, 2000) || waitpid(pid, &status, WNOHANG) != pid)
		snprintf(ended, 40, "killed");
	else if (stopped && program_run_was_stopped(status))
		snprintf(ended, 40, "%s", stopped);
	else
		snprintf(ended, 40, WIFSIGNALED(status) ? "signal %d" : "exit %d",
			 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

void program_run(struct host *host)
{
	const char *path = host_text(host, "program/path"),
		   *more = host_text(host, "option/arguments");
	const char *temporary = getenv("TMPDIR");
	char library[PATH_MAX], ended[40], line[4096],
		*arguments[ARGUMENTS_MAX + 2] = { (char *)path };
	char folder[PATH_MAX - 300], *text = NULL;
	size_t length;
	FILE *to;
	int64_t seconds = 1;
	pid_t pid;

	if (!program_run_find_library(host, library)) {
		host_record_error(host, "program/run", ENOENT, "libpeerpin.so is not found");
		return;
	}
	host_number(host, &seconds, "option/run_seconds");
	for (int i = 1; i <= ARGUMENTS_MAX && host_line(&more, line, sizeof(line)); i++)
		arguments[i] = strdup(line);
	snprintf(folder, sizeof(folder), "%s/peerpin-doctor-XXXXXX",
		 temporary && *temporary ? temporary : "/tmp");
	if (!mkdtemp(folder)) {
		host_record_error(host, "program/run", errno, "%s: %s", folder, strerror(errno));
		return;
	}
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		program_run_start(path, arguments, library, folder);
	if (pid > 0) {
		setpgid(pid, pid);
		program_run_watch(pid, (unsigned int)seconds, ended);
	}
	to = need(open_memstream(&text, &length));
	fprintf(to, "ended %s", pid > 0 ? ended : "");
	program_statistics_take(folder, to);
	fclose(to);
	for (int i = 1; arguments[i]; i++)
		free(arguments[i]);
	if (pid > 0)
		host_record(host, "program/run", "%s", text);
	else
		host_record_error(host, "program/run", EAGAIN, "fork failed");
	free(text);
}
