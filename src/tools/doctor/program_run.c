/* SPDX-License-Identifier: BSD-3-Clause */
/* program_run.c -- reading program/run: which ways into peerpin the program uses in its first second
 *
 * The program is started as peerpin would start it, its output thrown away, and after a second it is asked to end, with
 * what it has started, and a second later killed. What there is to say is in three places, in a folder of our own:
 * the dynamic linker's account of what it bound to libpeerpin.so (LD_DEBUG=bindings); the statistics of processes that
 * ended by themselves (PEERPIN_STATS), and the images of those that did not (base/image.h).
 *
 * program/run has these lines, each but the first only where N is not 0:
 *
 *	ended exit N | signal N | terminated | killed
 *	processes N       in which anything happened
 *	linked N          calls of the driver and of verbs that are bound to libpeerpin.so, by the program and its libraries
 *	dlsym N           objects whose dlsym is peerpin's: their later look-ups pass through it
 *	births N, requests N, ...   counters of statistics.def, of all processes together
 *
 * It is an error ENOENT with words if it was not run. option/library is the library's path, if it is not to be looked for;
 * option/arguments the program's arguments, one a line; option/run_seconds how long, in place of 1.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/image.h"
#include "tools/doctor/clock.h"
#include "tools/doctor/program.h"

/* More arguments are left out. */
#define ARGUMENTS_MAX 500

#ifndef PKGLIBDIR
#define PKGLIBDIR "/usr/lib/peerpin"
#endif

/* Those that tell a way in, or what came of it. */
#define COUNTERS(COUNTER)                                                                                    \
	COUNTER(births)                                                                                      \
	COUNTER(deaths)                                                                                      \
	COUNTER(host_births)                                                                                 \
	COUNTER(protection_domains)                                                                          \
	COUNTER(host_requests)                                                                               \
	COUNTER(registrations)                                                                               \
	COUNTER(not_served)                                                                                  \
	COUNTER(escapes)
#define TALLIES(TALLY)                                                                                       \
	TALLY(requests)                                                                                      \
	TALLY(hits)                                                                                          \
	TALLY(queries_answered)                                                                              \
	TALLY(queries_passed)                                                                                \
	TALLY(look_ups)

enum counter {
#define NUMBER(name) COUNTER_##name,
	COUNTERS(NUMBER) TALLIES(NUMBER)
#undef NUMBER
		COUNTER_COUNT
};

static const char *const counter_names[COUNTER_COUNT] = {
#define NAME(name) #name,
	COUNTERS(NAME) TALLIES(NAME)
#undef NAME
};

struct seen {
	char folder[PATH_MAX - 300];
	unsigned long long counters[COUNTER_COUNT];
	unsigned int processes, linked, dlsym;
};

/* ---- what the processes have counted ---- */

/* The number behind "NAME": in a JSON text, wherever it stands. */
static unsigned long long number_of(const char *json, const char *name)
{
	char key[100];
	const char *at;

	snprintf(key, sizeof(key), "\"%s\":", name);
	at = strstr(json, key);
	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static void take_results(struct seen *seen, const char *json)
{
	seen->processes++;
	for (int i = 0; i < COUNTER_COUNT; i++)
		seen->counters[i] += number_of(json, counter_names[i]);
}

static void take_image(struct seen *seen, const struct image *image, size_t size)
{
	if (image_refused(image, size))
		return;
	seen->processes++;
#define TAKE(name) seen->counters[COUNTER_##name] += image_value(&image->counters.name);
	COUNTERS(TAKE)
#undef TAKE
#define TAKE(name) seen->counters[COUNTER_##name] += image_tallied(image, TALLY_##name);
	TALLIES(TAKE)
#undef TAKE
}

/* ---- what the dynamic linker has bound ---- */

struct names {
	char **list;
	unsigned int count;
};

static bool add_name(struct names *names, const char *name, size_t length)
{
	char **longer;

	for (unsigned int i = 0; i < names->count; i++) {
		if (!strncmp(names->list[i], name, length) && !names->list[i][length])
			return false;
	}
	longer = reallocarray(names->list, names->count + 1, sizeof(*longer));
	if (!longer)
		return false;
	names->list = longer;
	names->list[names->count] = strndup(name, length);
	names->count += names->list[names->count] != NULL;
	return true;
}

static void free_names(struct names *names)
{
	while (names->count)
		free(names->list[--names->count]);
	free(names->list);
}

/* "  PID:	binding file WHO [0] to .../libpeerpin.so [0]: normal symbol `cuMemAlloc_v2' [VERSION]" */
static void take_binding(struct names *linked, struct names *with_dlsym, const char *line)
{
	static const char before[] = "binding file ", to[] = " [0] to ", quote[] = "normal symbol `";
	static const char ours[] = "/libpeerpin.so";
	const char *who = strstr(line, before), *whom = strstr(line, to), *symbol = strstr(line, quote), *end;
	size_t length;

	if (!who || !whom || !symbol || whom < who + strlen(before) || symbol < whom + strlen(to))
		return;
	who += strlen(before);
	length = (size_t)(whom - who);
	whom += strlen(to);
	symbol += strlen(quote);
	end = strstr(whom, " [");
	if (!end || (size_t)(end - whom) < strlen(ours) ||
	    strncmp(end - strlen(ours), ours, strlen(ours)) != 0)
		return;
	/* Its own. */
	if (length == (size_t)(end - whom) && strncmp(who, whom, length) == 0)
		return;
	if (!strncmp(symbol, "dlsym'", 6))
		add_name(with_dlsym, who, length);
	else if (!strncmp(symbol, "cu", 2) || !strncmp(symbol, "ibv_", 4) || !strncmp(symbol, "mlx5dv_", 7))
		add_name(linked, symbol, strcspn(symbol, "'"));
}

static void take_bindings(struct names *linked, struct names *with_dlsym, int fd)
{
	FILE *file = fdopen(fd, "r");
	char *line = NULL;
	size_t size = 0;

	if (!file) {
		close(fd);
		return;
	}
	while (getline(&line, &size, file) > 0)
		take_binding(linked, with_dlsym, line);
	free(line);
	fclose(file);
}

/* ---- the folder ---- */

static void take_file(struct seen *seen, int folder, const char *name,
		      void (*take)(struct seen *, void *, size_t))
{
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat status;
	void *bytes = MAP_FAILED;

	if (fd >= 0 && !fstat(fd, &status) && S_ISREG(status.st_mode) && status.st_size > 0)
		bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (bytes == MAP_FAILED)
		return;
	take(seen, bytes, (size_t)status.st_size);
	munmap(bytes, (size_t)status.st_size);
}

static void take_json(struct seen *seen, void *bytes, size_t size)
{
	char *text = strndup(bytes, size);

	if (text)
		take_results(seen, text);
	free(text);
}

static void take_left(struct seen *seen, void *bytes, size_t size)
{
	take_image(seen, bytes, size);
}

static bool ends_in(const char *name, const char *end)
{
	size_t length = strlen(name), wanted = strlen(end);

	return length > wanted && strcmp(name + length - wanted, end) == 0;
}

static void each_file(const char *path, struct seen *seen,
		      void (*take)(struct seen *, int folder, const char *name))
{
	DIR *folder = opendir(path);
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		if (*entry->d_name == '.')
			continue;
		take(seen, dirfd(folder), entry->d_name);
	}
	if (folder)
		closedir(folder);
}

static struct names linked, with_dlsym;

static void take_top(struct seen *seen, int folder, const char *name)
{
	int fd;

	if (ends_in(name, ".json"))
		take_file(seen, folder, name, take_json);
	if (!strncmp(name, "ld.", 3) && (fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) >= 0)
		take_bindings(&linked, &with_dlsym, fd);
}

/* One that ended by itself has told already: 17.stats is that of 17.json. */
static void take_runtime(struct seen *seen, int folder, const char *name)
{
	char results[PATH_MAX];

	snprintf(results, sizeof(results), "%s/%.*s.json", seen->folder, (int)strcspn(name, "."), name);
	if (ends_in(name, IMAGE_SUFFIX) && access(results, F_OK))
		take_file(seen, folder, name, take_left);
}

static void remove_file(struct seen *seen, int folder, const char *name)
{
	(void)seen;
	unlinkat(folder, name, 0);
}

static void take_all(struct seen *seen)
{
	char runtime[PATH_MAX];

	snprintf(runtime, sizeof(runtime), "%s/peerpin", seen->folder);
	each_file(seen->folder, seen, take_top);
	each_file(runtime, seen, take_runtime);
	seen->linked = linked.count;
	seen->dlsym = with_dlsym.count;
	free_names(&linked);
	free_names(&with_dlsym);
	each_file(runtime, seen, remove_file);
	rmdir(runtime);
	each_file(seen->folder, seen, remove_file);
	rmdir(seen->folder);
}

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
	set("PEERPIN_STATS", "%s/%s", folder, "%p.json");
	set("PEERPIN_SUMMARY", "%s", "none", "");
	set("XDG_RUNTIME_DIR", "%s", folder, "");
	set("LD_DEBUG", "%s", "bindings", "");
	set("LD_DEBUG_OUTPUT", "%s/%s", folder, "ld");
	/* One that runs itself in the background would stay. */
	execv(path, arguments);
	_exit(127);
}

/* It stays there to be waited for: its number, which is its group's as well, is nobody else's. */
static bool ends_within(pid_t pid, double seconds)
{
	const struct timespec slice = { 0, 5000000 };
	uint64_t end = clock_ns() + (uint64_t)(seconds * 1e9);
	siginfo_t info = { .si_pid = 0 };

	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != pid) {
		if (clock_ns() > end)
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
		ADD(counter_names[i], seen->counters[i]);
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
	take_all(&seen);
	for (int i = 1; arguments[i]; i++)
		free(arguments[i]);
	if (pid > 0)
		say(host, &seen, ended);
	else
		host_fail(host, "program/run", EAGAIN, "fork failed");
}
