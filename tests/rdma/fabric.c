/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric.c -- files of the simulated adapter's fabric */
#include "fabric.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "pairs.h"
#include "sim/plane/segment.h"

unsigned int fabric_place(uint32_t number)
{
	return number >> 14 & (SEGMENT_PROCESSES - 1);
}

static int fabric_files_in(const char *folder)
{
	DIR *files = opendir(folder);
	struct dirent *file;
	int count = 0;

	while (files && (file = readdir(files))) {
		if (file->d_name[0] == '.' || !strcmp(file->d_name, "processes"))
			continue;
		fprintf(stderr, "left: %s/%s\n", folder, file->d_name);
		count++;
	}
	if (files)
		closedir(files);
	return count;
}

/* The folders whose names end with the segment's. */
static int fabric_files_below(const char *parent)
{
	const char *segment = getenv("PEERPIN_SIM_ADAPTER_SEGMENT");
	DIR *folders = opendir(parent);
	struct dirent *folder;
	char path[512];
	int count = 0;

	must(segment && folders);
	while ((folder = readdir(folders))) {
		const char *end = strrchr(folder->d_name, '-');

		if (strncmp(folder->d_name, "peerpin-sim", strlen("peerpin-sim")) || !end ||
		    !strstr(folder->d_name, segment))
			continue;
		snprintf(path, sizeof(path), "%s/%s", parent, folder->d_name);
		count += fabric_files_in(path);
	}
	closedir(folders);
	return count;
}

int fabric_files(void)
{
	return fabric_files_below("/dev/shm") + fabric_files_below("/tmp");
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
