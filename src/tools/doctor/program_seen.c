/* SPDX-License-Identifier: BSD-3-Clause */
/* program_seen.c -- collects bindings, statistics and segments that a run under peerpin wrote */
#include "tools/doctor/program_seen.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/runtime.h"
#include "report/segment.h"

static const char *const counter_names[COUNTER_COUNT] = {
#define NAME(name) #name,
	COUNTERS(NAME) TALLIES(NAME)
#undef NAME
};

const char *program_counter_name(enum counter counter)
{
	return counter_names[counter];
}

/* ---- counters of the processes ---- */

/* Number after "NAME": anywhere in a JSON text; 0: absent. */
static unsigned long long program_seen_number(const char *json, const char *name)
{
	char key[100];
	const char *at;

	snprintf(key, sizeof(key), "\"%s\":", name);
	at = strstr(json, key);
	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static void program_seen_take_results(struct seen *seen, const char *json)
{
	seen->processes++;
	for (int i = 0; i < COUNTER_COUNT; i++)
		seen->counters[i] += program_seen_number(json, counter_names[i]);
}

static void program_seen_take_segment(struct seen *seen, const struct segment *segment, size_t size)
{
	if (segment_refused(segment, size))
		return;
	seen->processes++;
#define TAKE(name) seen->counters[COUNTER_##name] += segment_value(&segment->counters.name);
	COUNTERS(TAKE)
#undef TAKE
#define TAKE(name) seen->counters[COUNTER_##name] += segment_tallied(segment, TALLY_##name);
	TALLIES(TAKE)
#undef TAKE
}

/* ---- bindings of the dynamic linker ---- */

struct names {
	char **list;
	unsigned int count;
};

static bool program_seen_add_name(struct names *names, const char *name, size_t length)
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

static void program_seen_free_names(struct names *names)
{
	while (names->count)
		free(names->list[--names->count]);
	free(names->list);
}

/* Line, here in two parts: "  PID:	binding file FROM [0] to .../libpeerpin.so [0]:"
 * " normal symbol `cuMemAlloc_v2' [VERSION]" */
static void program_seen_take_binding(struct names *linked, struct names *with_dlsym,
				      const char *line)
{
	static const char before[] = "binding file ", to[] = " [0] to ",
			  quote[] = "normal symbol `";
	static const char own[] = "/libpeerpin.so";
	const char *from = strstr(line, before), *target = strstr(line, to),
		   *symbol = strstr(line, quote), *end;
	size_t length;

	if (!from || !target || !symbol || target < from + strlen(before) ||
	    symbol < target + strlen(to))
		return;
	from += strlen(before);
	length = (size_t)(target - from);
	target += strlen(to);
	symbol += strlen(quote);
	end = strstr(target, " [");
	if (!end || (size_t)(end - target) < strlen(own) ||
	    strncmp(end - strlen(own), own, strlen(own)) != 0)
		return;
	/* Skip libpeerpin.so's own bindings. */
	if (length == (size_t)(end - target) && strncmp(from, target, length) == 0)
		return;
	if (!strncmp(symbol, "dlsym'", 6))
		program_seen_add_name(with_dlsym, from, length);
	else if (!strncmp(symbol, "cu", 2) || !strncmp(symbol, "ibv_", 4) ||
		 !strncmp(symbol, "mlx5dv_", 7))
		program_seen_add_name(linked, symbol, strcspn(symbol, "'"));
}

static void program_seen_take_bindings(struct names *linked, struct names *with_dlsym, int fd)
{
	FILE *file = fdopen(fd, "r");
	char *line = NULL;
	size_t size = 0;

	if (!file) {
		close(fd);
		return;
	}
	while (getline(&line, &size, file) > 0)
		program_seen_take_binding(linked, with_dlsym, line);
	free(line);
	fclose(file);
}

/* ---- the folder ---- */

static void program_seen_take_file(struct seen *seen, int folder, const char *name,
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

static void program_seen_take_json(struct seen *seen, void *bytes, size_t size)
{
	char *text = strndup(bytes, size);

	if (text)
		program_seen_take_results(seen, text);
	free(text);
}

static void program_seen_take_segment_file(struct seen *seen, void *bytes, size_t size)
{
	program_seen_take_segment(seen, bytes, size);
}

static bool program_seen_ends_in(const char *name, const char *end)
{
	size_t length = strlen(name), wanted = strlen(end);

	return length > wanted && strcmp(name + length - wanted, end) == 0;
}

static void program_seen_each_file(const char *path, struct seen *seen,
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

static void program_seen_take_top(struct seen *seen, int folder, const char *name)
{
	int fd;

	if (program_seen_ends_in(name, ".json"))
		program_seen_take_file(seen, folder, name, program_seen_take_json);
	if (!strncmp(name, "ld.", 3) &&
	    (fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) >= 0)
		program_seen_take_bindings(&linked, &with_dlsym, fd);
}

/* Skips the segment of a process that wrote results: 17.stats belongs to 17.json. */
static void program_seen_take_runtime(struct seen *seen, int folder, const char *name)
{
	char results[PATH_MAX];

	snprintf(results, sizeof(results), "%s/%.*s.json", seen->folder, (int)strcspn(name, "."),
		 name);
	if (program_seen_ends_in(name, RUNTIME_STATS) && access(results, F_OK))
		program_seen_take_file(seen, folder, name, program_seen_take_segment_file);
}

static void program_seen_remove_file(struct seen *seen, int folder, const char *name)
{
	(void)seen;
	unlinkat(folder, name, 0);
}

void program_seen_take(struct seen *seen)
{
	char runtime[PATH_MAX];

	snprintf(runtime, sizeof(runtime), "%s/peerpin", seen->folder);
	program_seen_each_file(seen->folder, seen, program_seen_take_top);
	program_seen_each_file(runtime, seen, program_seen_take_runtime);
	seen->linked = linked.count;
	seen->dlsym = with_dlsym.count;
	program_seen_free_names(&linked);
	program_seen_free_names(&with_dlsym);
	program_seen_each_file(runtime, seen, program_seen_remove_file);
	rmdir(runtime);
	program_seen_each_file(seen->folder, seen, program_seen_remove_file);
	rmdir(seen->folder);
}
