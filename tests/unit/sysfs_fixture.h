/* SPDX-License-Identifier: BSD-3-Clause */
/* sysfs_fixture.h -- a simulated /sys, in a temporary folder */
#ifndef PEERPIN_TESTS_SYSFS_FIXTURE_H
#define PEERPIN_TESTS_SYSFS_FIXTURE_H

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "registration/sysfs.h"

static char sysfs_root[64];

static inline const char *sysfs_path(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", sysfs_root, name);
	return path;
}

/* Makes all parent folders of `name`, and `name` if it ends in a slash. */
static inline void sysfs_make_folders(const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s", sysfs_path(name));
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
}

static inline void sysfs_make_file(const char *name, const char *text)
{
	FILE *file;

	sysfs_make_folders(name);
	file = fopen(sysfs_path(name), "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

static inline void sysfs_make_link(const char *name, const char *to)
{
	sysfs_make_folders(name);
	ck_assert_int_eq(symlink(to, sysfs_path(name)), 0);
}

/* An adapter of the device at that path. */
static inline void sysfs_make_adapter(const char *name, const char *path)
{
	char at[256], to[300];

	snprintf(at, sizeof(at), "%s/infiniband/%s/device", path, name);
	snprintf(to, sizeof(to), "../../../%s", strrchr(path, '/') + 1);
	sysfs_make_link(at, to);
	snprintf(at, sizeof(at), "class/infiniband/%s", name);
	snprintf(to, sizeof(to), "../../%s/infiniband/%s", path, name);
	sysfs_make_link(at, to);
}

static inline int sysfs_remove_one(const char *path, const struct stat *status, int type,
				   struct FTW *place)
{
	(void)status;
	(void)type;
	(void)place;
	return remove(path);
}

static inline void sysfs_remove(const char *name)
{
	ck_assert_int_eq(nftw(sysfs_path(name), sysfs_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* A new, empty folder each time: cached readings belong to one sysfs path. */
static inline void sysfs_begin(void)
{
	snprintf(sysfs_root, sizeof(sysfs_root), "/tmp/peerpin-sysfs-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(sysfs_root));
	topology_sysfs = strdup(sysfs_root);
	ck_assert_ptr_nonnull(topology_sysfs);
}

static inline void sysfs_end(void)
{
	char *root = (char *)(uintptr_t)topology_sysfs;

	sysfs_remove("");
	topology_sysfs = "/sys";
	free(root);
}

#endif
