/* SPDX-License-Identifier: BSD-3-Clause */
/* program_statistics.c -- collects bindings, statistics and segments that a run under peerpin wrote
 */
#include "tools/doctor/program_statistics.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/records.h"

/* Statistics that show an entry point in use, or its result. */
static const char *const counters[] = {
	"allocations",	 "frees",	  "host_allocations", "protection_domains",
	"host_requests", "registrations", "bypassed",	      "bypasses",
	"requests",	 "hits",	  "queries_answered", "queries_forwarded",
	"look_ups",
};

/* ---- bindings of the dynamic linker ---- */

struct names {
	char **list;
	unsigned int count;
};

static bool program_statistics_add_name(struct names *names, const char *name, size_t length)
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

static void program_statistics_free_names(struct names *names)
{
	while (names->count)
		free(names->list[--names->count]);
	free(names->list);
}

/* Line, here in two parts: "  PID:	binding file FROM [0] to .../libpeerpin.so [0]:"
 * " normal symbol `cuMemAlloc_v2' [VERSION]" */
static void program_statistics_read_binding(struct names *linked, struct names *with_dlsym,
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
		program_statistics_add_name(with_dlsym, from, length);
	else if (!strncmp(symbol, "cu", 2) || !strncmp(symbol, "ibv_", 4) ||
		 !strncmp(symbol, "mlx5dv_", 7))
		program_statistics_add_name(linked, symbol, strcspn(symbol, "'"));
}

static void program_statistics_read_bindings(struct names *linked, struct names *with_dlsym, int fd)
{
	FILE *file = fdopen(fd, "r");
	char *line = NULL;
	size_t size = 0;

	if (!file) {
		close(fd);
		return;
	}
	while (getline(&line, &size, file) > 0)
		program_statistics_read_binding(linked, with_dlsym, line);
	free(line);
	fclose(file);
}

/* ---- the folder ---- */

static struct names linked, with_dlsym;

static void program_statistics_read_file(int folder, const char *name)
{
	int fd = strncmp(name, "ld.", 3) ? -1
					 : openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd >= 0)
		program_statistics_read_bindings(&linked, &with_dlsym, fd);
}

static void program_statistics_remove_file(int folder, const char *name)
{
	unlinkat(folder, name, 0);
}

static void program_statistics_each(const char *path, void (*take)(int folder, const char *name))
{
	DIR *folder = opendir(path);
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		if (*entry->d_name != '.')
			take(dirfd(folder), entry->d_name);
	}
	if (folder)
		closedir(folder);
}

static void program_statistics_number(FILE *to, const char *name, unsigned long long number)
{
	if (number)
		fprintf(to, "\n%s %llu", name, number);
}

void program_statistics_take(const char *folder, FILE *to)
{
	struct records records = { .count = 0 };
	char runtime[PATH_MAX];

	snprintf(runtime, sizeof(runtime), "%s/peerpin", folder);
	program_statistics_each(folder, program_statistics_read_file);
	/* A process that ended has no segment, or a copy of its results. */
	records_read(&records, folder);
	records_read(&records, runtime);
	records_drop_doubles(&records);
	program_statistics_number(to, "processes", records.count);
	program_statistics_number(to, "linked", linked.count);
	program_statistics_number(to, "dlsym", with_dlsym.count);
	for (size_t i = 0; i < sizeof(counters) / sizeof(*counters); i++) {
		unsigned long long sum = 0;

		for (size_t j = 0; j < records.count; j++)
			sum += (unsigned long long)record_number(&records.list[j], counters[i]);
		program_statistics_number(to, counters[i], sum);
	}
	records_free(&records);
	program_statistics_free_names(&linked);
	program_statistics_free_names(&with_dlsym);
	program_statistics_each(runtime, program_statistics_remove_file);
	rmdir(runtime);
	program_statistics_each(folder, program_statistics_remove_file);
	rmdir(folder);
}
