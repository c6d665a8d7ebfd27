/* SPDX-License-Identifier: BSD-3-Clause */
/* observe_callers.c -- the library of a return address, by its name in the field, and its version
 */
#include "observe/observe_tables.h"

#include <stdio.h>

#include "base/kernel.h"
#include "base/loaded.h"
#include "base/start.h"
#include "base/system.h"
#include "base/text.h"

/* Libraries of several files; a plug-in counts as its library. */
static const struct {
	char begins[24], name[16];
} callers_known[] = {
	{ "libuct", "UCX" },
	{ "libucp", "UCX" },
	{ "libucs", "UCX" },
	{ "libucm", "UCX" },
	{ "libfabric", "libfabric" },
	{ "libnccl", "NCCL" },
	{ "libnvshmem", "NVSHMEM" },
	{ "nvshmem", "NVSHMEM" },
	{ "libtransfer_engine", "Mooncake" },
	{ "mooncake", "Mooncake" },
	{ "libcudart", "CUDA runtime" },
	{ "librdmacm", "librdmacm" },
};

struct callers_search {
	uintptr_t address;
	struct caller *to;
	char path[512];
	bool found;
};

/* A library may contain another one, as MPICH contains libfabric: symbols show it. */
static void callers_name(const char *file, const struct object_tables *tables, struct caller *to)
{
	for (size_t i = 0; i < sizeof(callers_known) / sizeof(*callers_known); i++) {
		if (text_begins(file, callers_known[i].begins)) {
			text_copy(to->name, sizeof(to->name), callers_known[i].name);
			return;
		}
	}
	if (tables && (object_find(tables, "fi_getinfo") || object_find(tables, "fi_prov_ini") ||
		       text_contains(file, "-fi.so")))
		text_copy(to->name, sizeof(to->name), "libfabric");
	else if (tables && object_find(tables, "uct_ib_md_open_common"))
		text_copy(to->name, sizeof(to->name), "UCX");
	else
		text_copy(to->name, sizeof(to->name), *file ? file : start_program());
}

static int callers_visit(struct dl_phdr_info *object, size_t size, void *argument)
{
	struct callers_search *search = argument;
	struct object_tables tables;

	(void)size;
	if (!object_contains(object, search->address))
		return 0;
	search->found = true;
	callers_name(object_file_name(object), object_read(object, &tables) ? &tables : NULL,
		     search->to);
	text_copy(search->path, sizeof(search->path), object->dlpi_name ? object->dlpi_name : "");
	return 1;
}

/* The digits behind ".so." of the file that the name links to: "libnccl.so.2 -> libnccl.so.2.27.3".
 * Versions of one number are those of an interface. */
static void callers_version_of_file(const char *path, struct caller *to)
{
	char target[256];
	ssize_t length = kernel_read_link(path, target, sizeof(target) - 1);
	const char *at = path;

	if (length > 0) {
		target[length] = '\0';
		at = target;
	}
	for (; *at && !text_begins(at, ".so."); at++)
		;
	if (*at && text_find(at + 4, '.'))
		text_copy(to->version, sizeof(to->version), at + 4);
}

/* Functions that return a constant, without other effects (ucp_version.c, fabric.c). */
static void callers_version(const char *path, struct caller *to)
{
	const char *(*ucx)(void);
	uint32_t (*libfabric)(void);
	uint32_t version;

	if (text_equals(to->name, "UCX")) {
		ucx = (__typeof__(ucx))loaded_in_library("libucp.so.0", "ucp_get_version_string");
		if (ucx)
			text_copy(to->version, sizeof(to->version), ucx());
		return;
	}
	if (!text_equals(to->name, "libfabric")) {
		callers_version_of_file(path, to);
		return;
	}
	libfabric = (__typeof__(libfabric))loaded_in_library("libfabric.so.1", "fi_version");
	if (!libfabric)
		return;
	version = libfabric();
	snprintf(to->version, sizeof(to->version), "%u.%u", version >> 16, version & 0xffff);
}

void callers_describe(const void *address, struct caller *to)
{
	struct callers_search search = { .address = (uintptr_t)address, .to = to };

	loaded_walk(callers_visit, &search);
	if (!search.found) {
		text_copy(to->name, sizeof(to->name), "unknown");
		return;
	}
	callers_version(search.path, to);
	to->unique_keys = text_equals(to->name, "libfabric");
}
