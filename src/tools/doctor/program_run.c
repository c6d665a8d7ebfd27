/* SPDX-License-Identifier: BSD-3-Clause */
/* program_run.c -- reading program/run: which ways into peerpin the program uses in its first second
 *
 * The program is started as peerpin would start it, its output thrown away, and after a second it is asked to end, with
 * what it has started, and a second later killed. What there is to say is in three places, in a folder of our own:
 * the dynamic linker's account of what it bound to libpeerpin.so (LD_DEBUG=bindings); the statistics of processes that
 * ended by themselves (PEERPIN_STATS_FILE), and the segments of those that did not (base/segment.h).
 *
 * program/run has these lines, each but the first only where N is not 0:
 *
 *	ended exit N | signal N | terminated | killed
 *	processes N       in which anything happened
 *	linked N          calls of the driver and of verbs that are bound to libpeerpin.so, by the program and its libraries
 *	dlsym N           objects whose dlsym is peerpin's: their later look-ups pass through it
 *	allocations N, requests N, ...   counters of statistics.def, of all processes together
 *
 * It is an error ENOENT with words if it was not run. option/library is the library's path, if it is not to be looked for;
 * option/arguments the program's arguments, one a line; option/run_seconds how long, in place of 1.
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
#include <time.h>
#include <unistd.h>

#include "tools/doctor/clock.h"
#include "tools/doctor/program.h"
#include "tools/doctor/program_seen.h"

/* More arguments are left out. */
#define ARGUMENTS_MAX 500

#ifndef PKGLIBDIR
#define PKGLIBDIR "/usr/lib/peerpin"
#endif

/* ---- the run ---- */

static bool find_library(struct host *host, char path[PATH_MAX])
{
	static const char *const places[] = { "../.libs", "../../lib/peerpin", "../../lib64/peerpin" };
	const char *given = host_text(host, "option/library");
	char self[PATH_MAX - 100], place[PATH_MAX];
	ssize_t length;

	if (given)
		return realpath(given, path);
	length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[length < 0 ? 0 : length] = '\0';
	if (strrchr(self, '/'))
		*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		snprintf(place, sizeof(place), "%s/%s/libpeerpin.so", self, places[i]);
		if (realpath(place, path))
			return true;
	}
	return realpath(PKGLIBDIR "/libpeerpin.so", path);
}

static void set(const char *name, const char *format, const char *value, const char *more)
{
	char text[2 * PATH_MAX];

	snprintf(text, sizeof(text), format, value, more);
	setenv(name, text, 1);
}

static void start(const char *path, char **arguments, const char *library, const char *folder)
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
	set("LD_PRELOAD", preloads && *preloads ? "%s:%s" : "%s", library, preloads);
	set("PEERPIN_STATS_FILE", "%s/%s", folder, "%p.json");
	set("PEERPIN_SUMMARY", "%s", "none", "");
	set("XDG_RUNTIME_DIR", "%s", folder, "");
	set("LD_DEBUG", "%s", "bindings", "");
	set("LD_DEBUG_OUTPUT", "%s/%s", folder, "ld");
	/* One that runs itself in the background would stay. */
	execv(path, arguments);
	_exit(127);
}

/* It stays there to be waited for: its number, which is its group's as well, is nobody else's. The last look is after the time is
 * over, since the machine may have stood still meanwhile. */
static bool ends_within(pid_t pid, double seconds)
{
	const struct timespec slice = { 0, 5000000 };
	uint64_t now = clock_ns(), end = now + (uint64_t)(seconds * 1e9);
	siginfo_t info = { .si_pid = 0 };

	for (; waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != pid;
	     now = clock_ns()) {
		if (now > end)
			return false;
		nanosleep(&slice, NULL);
	}
	return true;
}

static void watch(pid_t pid, double seconds, char ended[40])
{
	int status = 0;

	*ended = '\0';
	if (!ends_within(pid, seconds)) {
		kill(-pid, SIGTERM);
		strcpy(ended, ends_within(pid, 1) ? "terminated" : "killed");
	}
	/* With what it has started. */
	kill(-pid, SIGKILL);
	if (!ends_within(pid, 2) || waitpid(pid, &status, WNOHANG) != pid || *ended)
		return;
	snprintf(ended, 40, WIFSIGNALED(status) ? "signal %d" : "exit %d",
		 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void say(struct host *host, const struct seen *seen, const char *ended)
{
	char text[2000];
	size_t length = (size_t)snprintf(text, sizeof(text), "ended %s", ended);

#define ADD(name, number)                                                                                    \
	(void)((number) && length < sizeof(text) &&                                                          \
	       (length += (size_t)snprintf(text + length, sizeof(text) - length, "\n%s %llu", name,          \
					   (unsigned long long)(number))))
	ADD("processes", seen->processes);
	ADD("linked", seen->linked);
	ADD("dlsym", seen->dlsym);
	for (int i = 0; i < COUNTER_COUNT; i++)
		ADD(program_counter_name((enum counter)i), seen->counters[i]);
#undef ADD
	host_say(host, "program/run", "%s", text);
}

void program_run(struct host *host)
{
	const char *path = host_text(host, "program/path"), *more = host_text(host, "option/arguments");
	const char *temporary = getenv("TMPDIR");
	char library[PATH_MAX], ended[40], line[4096], *arguments[ARGUMENTS_MAX + 2] = { (char *)path };
	struct seen seen = { .processes = 0 };
	int64_t seconds = 1;
	pid_t pid;

	if (!find_library(host, library)) {
		host_fail(host, "program/run", ENOENT, "libpeerpin.so is not found");
		return;
	}
	host_number(host, &seconds, "option/run_seconds");
	for (int i = 1; i <= ARGUMENTS_MAX && host_line(&more, line, sizeof(line)); i++)
		arguments[i] = strdup(line);
	snprintf(seen.folder, sizeof(seen.folder), "%s/peerpin-doctor-XXXXXX",
		 temporary && *temporary ? temporary : "/tmp");
	if (!mkdtemp(seen.folder)) {
		host_fail(host, "program/run", errno, "%s: %s", seen.folder, strerror(errno));
		return;
	}
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		start(path, arguments, library, seen.folder);
	if (pid > 0) {
		setpgid(pid, pid);
		watch(pid, (double)seconds, ended);
	}
	program_seen_take(&seen);
	for (int i = 1; arguments[i]; i++)
		free(arguments[i]);
	if (pid > 0)
		say(host, &seen, ended);
	else
		host_fail(host, "program/run", EAGAIN, "fork failed");
}
