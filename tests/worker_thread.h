/* SPDX-License-Identifier: BSD-3-Clause */
/* worker_thread.h -- finds the library's worker among the threads of this process */
#ifndef PEERPIN_TESTS_WORKER_THREAD_H
#define PEERPIN_TESTS_WORKER_THREAD_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* Its number; 0: there is none, or it has no name yet. */
static inline pid_t worker_thread(void)
{
	char name[64], text[32];
	pid_t found = 0;
	struct dirent *entry;
	DIR *tasks = opendir("/proc/self/task");
	FILE *file;

	while (tasks && !found && (entry = readdir(tasks))) {
		snprintf(name, sizeof(name), "/proc/self/task/%.20s/comm", entry->d_name);
		file = fopen(name, "r");
		if (file && fgets(text, sizeof(text), file) && !strcmp(text, "peerpin-worker\n"))
			found = (pid_t)strtol(entry->d_name, NULL, 10);
		if (file)
			fclose(file);
	}
	if (tasks)
		closedir(tasks);
	return found;
}

#endif
