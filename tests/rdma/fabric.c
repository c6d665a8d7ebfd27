/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric.c -- files of the simulated adapter's fabric */
#include "fabric.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pairs.h"
#include "sim/plane/segment.h"

#define NUMBER_BITS 14 /* of a queue pair's number, below the place */

static const char *const parents[] = { "/dev/shm", "/tmp" };

unsigned int fabric_place(uint32_t number)
{
	return number >> NUMBER_BITS & (SEGMENT_PROCESSES - 1);
}

/* Call `visit` for each file, or folder where `file` is empty, of a fabric. */
static int fabric_each(const char *segment, const char *file, int (*visit)(const char *path))
{
	char pattern[512];
	glob_t found;
	int sum = 0;

	for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]); i++) {
		snprintf(pattern, sizeof(pattern), "%s/peerpin-sim*-%s%s", parents[i], segment,
			 file);
		if (glob(pattern, 0, NULL, &found))
			continue;
		for (size_t j = 0; j < found.gl_pathc; j++)
			sum += visit(found.gl_pathv[j]);
		globfree(&found);
	}
	return sum;
}

static int fabric_count(const char *path)
{
	if (!strcmp(strrchr(path, '/'), "/processes"))
		return 0;
	fprintf(stderr, "left: %s\n", path);
	return 1;
}

int fabric_files(void)
{
	const char *segment = getenv("PEERPIN_SIM_ADAPTER_SEGMENT");

	must(segment);
	return fabric_each(segment, "/*", fabric_count);
}

static unsigned int to_leave;

static int fabric_leave_in(const char *folder)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/processes", folder);
	if (access(path, F_OK))
		return 0;
	for (unsigned int i = 0; i < to_leave; i++) {
		snprintf(path, sizeof(path), "%s/%d.1.%u", folder, SEGMENT_PROCESSES - 1, i);
		file = fopen(path, "w");
		must(file);
		fclose(file);
	}
	return 1;
}

void fabric_leave_links(unsigned int count)
{
	const char *segment = getenv("PEERPIN_SIM_ADAPTER_SEGMENT");

	to_leave = count;
	must(segment && fabric_each(segment, "", fabric_leave_in));
}

void fabric_remove(const char *segment)
{
	fabric_each(segment, "/*", unlink);
	fabric_each(segment, "", rmdir);
}

void fabric_visit(unsigned int self)
{
	struct device device;
	struct ibv_qp *pair;

	(void)self;
	device_open(&device, MIB);
	pair = device_pair(&device, IBV_QPT_RC, NULL, &pairs_defaults);
	must(!ibv_destroy_qp(pair));
	processes_meet();
	device_close(&device);
}
