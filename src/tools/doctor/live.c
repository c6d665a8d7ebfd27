/* SPDX-License-Identifier: BSD-3-Clause */
/* live.c -- reads files, folders, links, facts of the process, commands' output
 *
 * A system root of a test hides everything outside that root.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/text.h"
#include "tools/doctor/child.h"
#include "tools/doctor/host.h"
#include "tools/units.h"

#define FILE_MAX (64 << 10) /* longer files are cut */

static void live_fail(struct host *host, const char *name, int error)
{
	host_record_error(host, name, error, "%s", "");
}

static void live_read_file(struct host *host, const char *name, const char *path)
{
	char *text = zeroed(1, FILE_MAX);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t got = -1, length = 0;

	while (fd >= 0 && length < FILE_MAX &&
	       (got = read(fd, text + length, (size_t)(FILE_MAX - length))) > 0)
		length += got;
	if (fd < 0 || got < 0) {
		live_fail(host, name, errno);
	} else {
		if (length && text[length - 1] == '\n' && !memchr(text, '\0', (size_t)length))
			length--;
		host_record_bytes(host, name, 0, text, (size_t)length);
	}
	if (fd >= 0)
		close(fd);
	free(text);
}

static int live_is_entry(const struct dirent *entry)
{
	return strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
}

static void live_read_folder(struct host *host, const char *name, const char *path)
{
	struct dirent **entries;
	int count = scandir(path, &entries, live_is_entry, versionsort);
	char *text = NULL;

	if (count < 0) {
		live_fail(host, name, errno);
		return;
	}
	for (int i = 0; i < count; i++) {
		list_append(&text, "\n", entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	host_record(host, name, "%s", text ? text : "");
}

static void live_read_link(struct host *host, const char *name, const char *path)
{
	size_t root = strlen(host_root(host));
	char *end = realpath(path, NULL);
	char *base = realpath(*host_root(host) ? host_root(host) : "/", NULL);

	if (!end || !base)
		live_fail(host, name, errno);
	else
		host_record(host, name, "%s",
			    end + (root && !strncmp(end, base, strlen(base)) ? strlen(base) : 0));
	free(end);
	free(base);
}

static void live_read_status(struct host *host, const char *name, const char *path)
{
	struct stat status;
	bool reads, writes;

	if (stat(path, &status)) {
		live_fail(host, name, errno);
		return;
	}
	reads = !faccessat(AT_FDCWD, path, R_OK, AT_EACCESS);
	writes = !faccessat(AT_FDCWD, path, W_OK, AT_EACCESS);
	host_record(host, name, "%06o %u %u %c%c", status.st_mode, status.st_uid, status.st_gid,
		    reads ? 'r' : '-', writes ? 'w' : '-');
}

static void live_read_path(struct host *host, const char *name)
{
	size_t length = strlen(name);
	char last = length > 1 ? name[length - 1] : '\0';
	bool has_end = last == '/' || last == '@' || last == '?';
	char *path = text_of("%s%.*s", host_root(host), (int)(length - has_end), name);

	if (last == '/')
		live_read_folder(host, name, path);
	else if (last == '@')
		live_read_link(host, name, path);
	else if (last == '?')
		live_read_status(host, name, path);
	else
		live_read_file(host, name, path);
}

/* ---- readings without a file ---- */

/* "memlock": the soft limit, "memlock/hard": the hard one. */
static void live_read_limit(struct host *host, const char *name, const char *which)
{
	size_t length = strcspn(which, "/");
	int resource = !strncmp(which, "memlock", length)  ? RLIMIT_MEMLOCK
		       : !strncmp(which, "nofile", length) ? RLIMIT_NOFILE
							   : -1;
	struct rlimit limit;
	rlim_t value;

	if (resource < 0 || getrlimit((unsigned int)resource, &limit)) {
		live_fail(host, name, resource < 0 ? ENOENT : errno);
		return;
	}
	value = which[length] ? limit.rlim_max : limit.rlim_cur;
	if (value == RLIM_INFINITY)
		host_record(host, name, "unlimited");
	else
		host_record(host, name, "%llu", (unsigned long long)value);
}

static void live_read_identity(struct host *host, const char *name, const char *which)
{
	struct utsname system;
	const struct {
		const char *which, *text;
	} facts[] = { { "host", system.nodename },
		      { "kernel", system.release },
		      { "machine", system.machine },
		      { "glibc", gnu_get_libc_version() },
		      { "uid", text_of("%u", geteuid()) } };

	if (uname(&system)) {
		live_fail(host, name, errno);
		return;
	}
	for (size_t i = 0; i < sizeof(facts) / sizeof(*facts); i++) {
		if (!strcmp(which, facts[i].which))
			host_record(host, name, "%s", facts[i].text);
	}
}

/* Searches /proc/kallsyms or modules.dep line by line: both are too long for a reading. Records
 * the line that `is` leaves in the buffer: "1" for a symbol, the module's file for a module.
 * ENODATA: the file is missing. */
static void live_search(struct host *host, const char *name, const char *path, const char *wanted,
			bool (*is)(char *, const char *))
{
	FILE *from = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	if (!from) {
		host_record_error(host, name, errno == ENOENT ? ENODATA : errno, "%s: %s", path,
				  strerror(errno));
		return;
	}
	while (!found && getline(&line, &size, from) > 0)
		found = is(line, wanted);
	if (found)
		host_record(host, name, "%s", line);
	else
		live_fail(host, name, ENOENT);
	free(line);
	fclose(from);
}

/* Line: "0000000000000000 T NAME\t[module]". Writes "1" to the line on a match. */
static bool live_is_symbol(char *line, const char *wanted)
{
	char *name = strrchr(line, ' ');

	if (!name++)
		return false;
	name[strcspn(name, "\t\n")] = '\0';
	if (strcmp(name, wanted))
		return false;
	strcpy(line, "1");
	return true;
}

/* Line: "kernel/drivers/video/nvidia-peermem.ko.zst: ...". Matches a base name of `wanted` plus
 * a dot. Cuts the line to the path. */
static bool live_is_module(char *line, const char *wanted)
{
	char *end = strchr(line, ':');
	const char *base;

	if (!end)
		return false;
	*end = '\0';
	base = text_file_name(line);
	return !strncmp(base, wanted, strlen(wanted)) && base[strlen(wanted)] == '.';
}

static void live_read_module(struct host *host, const char *name, const char *module)
{
	const char *kernel = host_text(host, "identity/kernel");
	char *path =
		text_of("%s/lib/modules/%s/modules.dep", host_root(host), kernel ? kernel : "");

	live_search(host, name, path, module, live_is_module);
}

static void live_read_symbol(struct host *host, const char *name, const char *symbol)
{
	char *path = text_of("%s/proc/kallsyms", host_root(host));

	live_search(host, name, path, symbol, live_is_symbol);
}

/* Lines begin with the level, "<3>". The reading: the last FILE_MAX bytes of those with a word. */
static void live_read_log(struct host *host, const char *name, const char *rest)
{
	enum { READ_ALL = 3, SIZE = 10 };
	static const char *const words[] = { "nvidia-peermem ", "nvidia_peermem: ", "NVRM: Xid ",
					     "mlx5" };
	int size = klogctl(SIZE, NULL, 0), length;
	char *log = zeroed(1, (size_t)(size > 0 ? size : 0) + 1), *line, *at = log;
	char *kept = zeroed(1, (size_t)(size > 0 ? size : 0) + 1), *to = kept;

	(void)rest;
	length = klogctl(READ_ALL, log, size > 0 ? size : 0);
	if (length < 0)
		live_fail(host, name, errno);
	while (length >= 0 && (line = strsep(&at, "\n"))) {
		bool has = false;

		line += strspn(line, "<") ? strcspn(line, ">") + 1 : 0;
		for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
			has |= strstr(line, words[i]) != NULL;
		if (has)
			to += sprintf(to, "%s%s", to > kept ? "\n" : "", line);
	}
	if (length >= 0)
		host_record(host, name, "%s", to - kept > FILE_MAX ? to - FILE_MAX : kept);
	free(kept);
	free(log);
}

/* ---- external commands ---- */

#define WORDS	 16
#define TEXT_MAX (1 << 20)
#define SECONDS	 5 /* of a command */

/* Command of the next child, set before the fork. */
static char *command_words[WORDS + 1];

/* Child only: discards stderr. Exit status 127: no such command. */
static void command_exec(struct host *host)
{
	(void)host;
	dup2(STDIN_FILENO, STDERR_FILENO); /* /dev/null */
	unsetenv("LD_PRELOAD");
	if (command_words[0])
		execvp(command_words[0], command_words);
	_exit(127);
}

/* Keeps only lines with `word`; "" keeps all. */
static const char *command_keep_lines(char *text, const char *word)
{
	char *kept = NULL, *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (strstr(line, word))
			list_append(&kept, "\n", line);
	}
	return kept ? kept : "";
}

/* Runs "LINE" or "LINE | grep WORD" without a shell. Records the output, or only its lines with
 * WORD. */
static void command_read(struct host *host, const char *name, const char *line)
{
	char *command = text_of("%s", line), *pipe_sign = strstr(command, " | grep ");
	const char *word = pipe_sign ? pipe_sign + strlen(" | grep ") : "";
	struct child child = { .host = host,
			       .seconds = SECONDS,
			       .output = zeroed(1, TEXT_MAX + 1),
			       .output_size = TEXT_MAX };
	char *rest = NULL;
	int error;

	if (pipe_sign)
		*pipe_sign = '\0';
	for (unsigned int i = 0; i < WORDS; i++)
		command_words[i] = strtok_r(i ? NULL : command, " ", &rest);
	error = child_run(&child, command_exec);
	if (error) {
		host_record_error(host, name, error, "%s", child.call);
	} else if (!strncmp(child.end, "timeout", 7)) {
		host_record_error(host, name, ETIMEDOUT, "it did not end in time");
	} else if (!strcmp(child.end, "exit 127")) {
		host_record_error(host, name, ENOENT, "%s", "");
	} else if (strcmp(child.end, "ok")) {
		host_record_error(host, name, EIO, "%s", child.end);
	} else {
		host_record(host, name, "%s", command_keep_lines(child.output, word));
	}
	free(child.output);
}

/* ---- all readings ---- */

static void live_read_variable(struct host *host, const char *name, const char *variable)
{
	const char *value = getenv(variable);

	if (value)
		host_record(host, name, "%s", value);
	else
		live_fail(host, name, ENOENT);
}

static const struct {
	const char *prefix;
	void (*read)(struct host *host, const char *name, const char *rest);
	bool rooted; /* available below a system root */
} pseudo[] = {
	{ "environment/", live_read_variable, true }, { "limits/", live_read_limit, true },
	{ "identity/", live_read_identity, true },    { "kernel/symbol/", live_read_symbol, true },
	{ "kernel/module/", live_read_module, true }, { "command/", command_read, false },
	{ "kernel/log", live_read_log, false },
};

void live_read(struct host *host, const char *name)
{
	if (name[0] == '/') {
		live_read_path(host, name);
		return;
	}
	for (size_t i = 0; i < sizeof(pseudo) / sizeof(pseudo[0]); i++) {
		size_t length = strlen(pseudo[i].prefix);

		if (!strncmp(name, pseudo[i].prefix, length) &&
		    (pseudo[i].rooted || !*host_root(host)))
			pseudo[i].read(host, name, name + length);
	}
}
