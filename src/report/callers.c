/* SPDX-License-Identifier: BSD-3-Clause */
/* callers.c -- the library of a return address, by its name in the field, and its version; findings
 */
#include "report/callers.h"

#include <pthread.h>
#include <stdio.h>

#include "base/config.h"
#include "base/kernel.h"
#include "base/loaded.h"
#include "base/process.h"
#include "base/start.h"
#include "base/system.h"
#include "base/text.h"
#include "report/output.h"

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
static void callers_name_file(const char *file, const struct object_tables *tables,
			      struct caller *to)
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
	callers_name_file(object_file_name(object), object_read(object, &tables) ? &tables : NULL,
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

/* Take the lock of the dynamic linker's list. */
static void callers_describe(const void *address, struct caller *to)
{
	struct callers_search search = { .address = (uintptr_t)address, .to = to };

	loaded_walk(callers_visit, &search);
	if (!search.found) {
		text_copy(to->name, sizeof(to->name), "unknown");
		return;
	}
	/* Functions of other libraries are called for the report of observed processes alone. */
	if (config_get()->observe)
		callers_version(search.path, to);
	to->unique_keys = text_equals(to->name, "libfabric");
}

/* ---- the list ---- */

/* A row is complete before the count includes it, and stays. */
static struct caller callers[CALLERS];
static _Atomic uint32_t callers_count = 1;
static pthread_mutex_t callers_lock = PTHREAD_MUTEX_INITIALIZER; /* guards additions; alone */

/* Numbers by return address: the address, above 8 bits of the number. An address belongs to one
 * library for good: a library that takes the place of another one counts as that. */
#define CACHED 256u
static _Atomic uint64_t callers_cached[CACHED];

static uint32_t callers_add(const struct caller *described)
{
	uint32_t number = 1;

	pthread_mutex_lock(&callers_lock);
	while (number < callers_count && !text_equals(callers[number].name, described->name))
		number++;
	if (number < CALLERS && number == callers_count) {
		callers[number] = *described;
		store_release(&callers_count, number + 1);
	}
	pthread_mutex_unlock(&callers_lock);
	return number % CALLERS;
}

uint32_t callers_number(const void *address)
{
	_Atomic uint64_t *cached = &callers_cached[((uintptr_t)address >> 1) % CACHED];
	uint64_t value = load_relaxed(cached);
	struct caller described = { .unique_keys = false };
	uint32_t number;

	if (!address || (value >> 8 == (uintptr_t)address && value))
		return address ? value & 0xff : 0;
	callers_describe(address, &described);
	number = callers_add(&described);
	store_relaxed(cached, (uint64_t)(uintptr_t)address << 8 | number);
	return number;
}

const struct caller *callers_at(uint32_t number)
{
	return number < load_acquire(&callers_count) ? &callers[number] : NULL;
}

const char *callers_name(uint32_t number)
{
	return number ? callers[number].name : "unknown";
}

void callers_find(uint32_t number, enum finding finding, uint64_t count, uint64_t bytes,
		  uint64_t ns)
{
	struct finding_sum *sum = &callers[number].findings[finding];

	add_relaxed(&sum->count, count);
	add_relaxed(&sum->bytes, bytes);
	add_relaxed(&sum->ns, ns);
}

static const char *callers_write_finding(struct output *output, const char *separator,
					 enum finding finding, const char *name,
					 const struct finding_sum *sum)
{
	static const char *const names[] = {
#define FINDING(name) #name,
		FINDINGS_LIST(FINDING)
#undef FINDING
	};
	uint64_t count = load_relaxed(&sum->count);

	if (!count)
		return separator;
	output_add(output, "%s\n    {\"id\": \"%s\", \"caller\": ", separator, names[finding]);
	output_add_string(output, name);
	output_add(output, ", \"count\": %llu, \"bytes\": %llu, \"ns\": %llu}", llu(count),
		   llu(load_relaxed(&sum->bytes)), llu(load_relaxed(&sum->ns)));
	return ",";
}

void callers_write_findings(struct output *output)
{
	const struct caller *caller;
	const char *separator = "";

	output_add(output, "  \"findings\": [");
	for (uint32_t i = 0; (caller = callers_at(i)); i++) {
		for (enum finding finding = 0; finding < FINDINGS; finding++)
			separator =
				callers_write_finding(output, separator, finding, callers_name(i),
						      &caller->findings[finding]);
	}
	output_add(output, "],\n");
}

void callers_renew(void)
{
	callers_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	for (uint32_t i = 0; i < CALLERS; i++)
		callers[i] = (struct caller){ .unique_keys = false };
	for (uint32_t i = 0; i < CACHED; i++)
		store_relaxed(&callers_cached[i], 0);
	store_relaxed(&callers_count, 1);
}
