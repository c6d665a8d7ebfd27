/* SPDX-License-Identifier: BSD-3-Clause */
/* libraries.c -- resolves all libraries that a program links, from ELF files */
#include "tools/doctor/libraries.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIBRARIES_MAX 1000
#define CACHE_MAX     ((size_t)64 << 20)

#ifdef __aarch64__
#define MULTIARCH "aarch64-linux-gnu"
#else
#define MULTIARCH "x86_64-linux-gnu"
#endif

static const char own_folders[] =
	"/lib/" MULTIARCH ":/usr/lib/" MULTIARCH ":/lib64:/usr/lib64:/lib:/usr/lib";

/* ---- /etc/ld.so.cache ---- */

/* The new cache format only; loaders have written it for 20 years. */
struct cache_header {
	char magic[20]; /* "glibc-ld.so.cache1.1" */
	uint32_t count, strings;
	uint32_t more[5];
};

struct cache_entry {
	int32_t flags;
	uint32_t name, path; /* offsets from the start of the file */
	uint32_t version;
	uint64_t hardware;
};

static char *cache;
static size_t cache_size;

static void libraries_read_cache(void)
{
	int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
	struct stat status;
	ssize_t length = -1;

	if (fd < 0)
		return;
	if (!fstat(fd, &status) && status.st_size > 0 && (size_t)status.st_size <= CACHE_MAX)
		cache = malloc((size_t)status.st_size + 1);
	if (cache)
		length = read(fd, cache, (size_t)status.st_size);
	close(fd);
	if (length < (ssize_t)sizeof(struct cache_header) ||
	    memcmp(cache, "glibc-ld.so.cache1.1", 20) != 0) {
		free(cache);
		cache = NULL;
		return;
	}
	cache_size = (size_t)length;
	cache[cache_size] = '\0';
}

/* Path of entry `number` if its name matches, else NULL. */
static const char *libraries_cache_path(uint32_t number, const char *name)
{
	size_t offset = sizeof(struct cache_header) + number * sizeof(struct cache_entry);
	struct cache_entry entry;

	if (offset + sizeof(entry) > cache_size)
		return NULL;
	memcpy(&entry, cache + offset, sizeof(entry));
	if (entry.name >= cache_size || entry.path >= cache_size ||
	    strcmp(cache + entry.name, name) != 0)
		return NULL;
	return cache + entry.path;
}

/* ---- one library ---- */

static bool libraries_is_usable(const char *path, const struct elf_file *like, struct elf_file *elf)
{
	if (elf_file_read(path, elf))
		return false;
	if (elf->class == like->class && elf->machine == like->machine)
		return true;
	elf_file_free(elf);
	return false;
}

/* Expands $ORIGIN and $LIB, with or without braces. False: the result is too long, or another
 * variable occurs. */
static bool libraries_expand(const char *folder, size_t length, const char *origin, char *to)
{
	static const char *const names[] = { "$ORIGIN", "${ORIGIN}", "$LIB", "${LIB}" };
	size_t at = 0;

	*to = '\0';
	for (size_t i = 0, skip = 1; i < length; i += skip, skip = 1) {
		const char *value = NULL;

		for (size_t k = 0; k < 4 && !value; k++) {
			skip = strlen(names[k]);
			if (skip <= length - i && !strncmp(folder + i, names[k], skip))
				value = k < 2 ? origin : "lib/" MULTIARCH;
		}
		if (!value && folder[i] == '$')
			return false;
		skip = value ? skip : 1;
		at += (size_t)snprintf(to + at, PATH_MAX - at, "%.*s",
				       value ? (int)strlen(value) : 1, value ? value : folder + i);
		if (at >= PATH_MAX)
			return false;
	}
	return true;
}

static char *libraries_find_in(const char *folders, const char *name, const struct library *needing,
			       struct elf_file *elf)
{
	char origin[PATH_MAX], folder[PATH_MAX], path[2 * PATH_MAX];
	char *slash;

	snprintf(origin, sizeof(origin), "%s", needing->path);
	slash = strrchr(origin, '/');
	if (slash)
		*slash = '\0';
	while (folders && *folders) {
		size_t length = strcspn(folders, ":;");

		if (!libraries_expand(folders, length, origin, folder))
			*folder = '\0';
		snprintf(path, sizeof(path), "%s/%s", *folder ? folder : ".", name);
		if ((*folder || !length) && libraries_is_usable(path, &needing->elf, elf))
			return strdup(path);
		folders += length + (folders[length] != '\0');
	}
	return NULL;
}

static char *libraries_find_in_cache(const char *name, const struct library *needing,
				     struct elf_file *elf)
{
	struct cache_header header;

	if (!cache)
		return NULL;
	memcpy(&header, cache, sizeof(header));
	for (uint32_t i = 0; i < header.count && i < cache_size / sizeof(struct cache_entry); i++) {
		const char *path = libraries_cache_path(i, name);

		if (path && libraries_is_usable(path, &needing->elf, elf))
			return strdup(path);
	}
	return NULL;
}

/* Searches RPATH of the libraries that lead to this one. The dynamic linker ignores RPATH if the
 * library has RUNPATH. */
static char *libraries_find_by_rpath(const struct libraries *libraries, int from, const char *name,
				     struct elf_file *elf)
{
	char *path = NULL;

	if (libraries->list[from].elf.runpath)
		return NULL;
	for (int at = from; at >= 0 && !path; at = libraries->list[at].from) {
		const struct library *library = &libraries->list[at];

		if (!library->elf.runpath)
			path = libraries_find_in(library->elf.rpath, name, library, elf);
	}
	return path;
}

static char *libraries_find_one(const struct libraries *libraries, int from, const char *name,
				struct elf_file *elf)
{
	const struct library *needing = &libraries->list[from];
	char *path;

	if (strchr(name, '/'))
		return libraries_is_usable(name, &needing->elf, elf) ? strdup(name) : NULL;
	path = libraries_find_by_rpath(libraries, from, name, elf);
	if (!path)
		path = libraries_find_in(getenv("LD_LIBRARY_PATH"), name, needing, elf);
	if (!path)
		path = libraries_find_in(needing->elf.runpath, name, needing, elf);
	if (!path)
		path = libraries_find_in_cache(name, needing, elf);
	if (!path)
		path = libraries_find_in(own_folders, name, needing, elf);
	return path;
}

/* ---- all libraries ---- */

static bool libraries_has(const struct libraries *libraries, const char *name)
{
	for (int i = 1; i < libraries->count; i++) {
		if (strcmp(libraries->list[i].name, name) == 0)
			return true;
	}
	return false;
}

static void libraries_add(struct libraries *libraries, int from, const char *name)
{
	struct library *library = &libraries->list[libraries->count];

	if (libraries->count == LIBRARIES_MAX || libraries_has(libraries, name))
		return;
	*library = (struct library){ .name = strdup(name), .from = from };
	if (!library->name)
		return;
	library->path = libraries_find_one(libraries, from, name, &library->elf);
	libraries->count++;
}

static void libraries_add_needed(struct libraries *libraries, int from)
{
	const char *needed = libraries->list[from].elf.needed;
	char name[PATH_MAX];

	while (needed && *needed) {
		size_t length = strcspn(needed, "\n");

		if (length < sizeof(name)) {
			memcpy(name, needed, length);
			name[length] = '\0';
			libraries_add(libraries, from, name);
		}
		needed += length + (needed[length] != '\0');
	}
}

/* A preloaded library serves those that need its DT_SONAME. */
static void libraries_add_preload(struct libraries *libraries, const char *name)
{
	struct library library = { .from = 0 };

	if (libraries->count < LIBRARIES_MAX)
		library.path = libraries_find_one(libraries, 0, name, &library.elf);
	if (!library.path)
		return;
	library.name = strdup(library.elf.soname ? library.elf.soname : name);
	libraries->list[libraries->count] = library;
	libraries->count += library.name != NULL;
}

/* The list is LD_PRELOAD's, or the text of /etc/ld.so.preload. */
static void libraries_add_preloads(struct libraries *libraries, const char *list)
{
	char *copy = list ? strdup(list) : NULL, *rest = NULL;

	for (char *word = copy ? strtok_r(copy, " :\t\n", &rest) : NULL; word;
	     word = strtok_r(NULL, " :\t\n", &rest))
		libraries_add_preload(libraries, word);
	free(copy);
}

static void libraries_read_preloads(struct libraries *libraries)
{
	FILE *file = fopen("/etc/ld.so.preload", "re");
	char *text = NULL;
	size_t size = 0;

	libraries_add_preloads(libraries, getenv("LD_PRELOAD"));
	if (file && getdelim(&text, &size, '\0', file) > 0)
		libraries_add_preloads(libraries, text);
	if (file)
		fclose(file);
	free(text);
}

int libraries_find(const char *program, struct libraries *libraries)
{
	struct elf_file elf;
	int error = elf_file_read(program, &elf);

	*libraries = (struct libraries){ .count = 0 };
	if (error)
		return error;
	libraries->list = calloc(LIBRARIES_MAX, sizeof(struct library));
	if (!libraries->list) {
		elf_file_free(&elf);
		return ENOMEM;
	}
	libraries->list[0] = (struct library){
		.name = strdup(program), .path = realpath(program, NULL), .from = -1, .elf = elf
	};
	libraries->count = 1;
	if (!libraries->list[0].path)
		libraries->list[0].path = strdup(program);
	libraries_read_cache();
	libraries_read_preloads(libraries);
	for (int i = 0; i < libraries->count; i++)
		libraries_add_needed(libraries, i);
	free(cache);
	cache = NULL;
	return 0;
}

void libraries_free(struct libraries *libraries)
{
	for (int i = 0; i < libraries->count; i++) {
		free(libraries->list[i].name);
		free(libraries->list[i].path);
		elf_file_free(&libraries->list[i].elf);
	}
	free(libraries->list);
	*libraries = (struct libraries){ .count = 0 };
}
