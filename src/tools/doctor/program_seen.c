/* SPDX-License-Identifier: BSD-3-Clause */
/* program_seen.c -- what a program that ran under peerpin has left: the dynamic linker's account, statistics, segments */
#include "tools/doctor/program_seen.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/segment.h"

static const char *const counter_names[COUNTER_COUNT] = {
#define NAME(name) #name,
	COUNTERS(NAME) TALLIES(NAME)
#undef NAME
};

const char *program_counter_name(enum counter counter)
{
	return counter_names[counter];
}

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

static void take_segment(struct seen *seen, const struct segment *segment, size_t size)
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
	take_segment(seen, bytes, size);
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
	if (ends_in(name, SEGMENT_SUFFIX) && access(results, F_OK))
		take_file(seen, folder, name, take_left);
}

static void remove_file(struct seen *seen, int folder, const char *name)
{
	(void)seen;
	unlinkat(folder, name, 0);
}

void program_seen_take(struct seen *seen)
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
