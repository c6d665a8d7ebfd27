/* SPDX-License-Identifier: BSD-3-Clause */
/* cycles_crash.c -- a rank dies with GPU memory registered
 *
 * For the simulated driver another process is another GPU: there the test covers that process's
 * free and this one's survival.
 */
#include "cycles.h"

#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELD	      (64 * MIB)
#define CYCLES_A_FREE 5000 /* a process's start on a GPU takes as long as thousands of cycles */
#define PATIENCE_S    600  /* for the process to register */
#define RELEASE_S                                                                                  \
	10 /* for the driver, which may free the memory of an ended process after wait() */
#define REGISTERED "registered\n"

extern char **environ;

void crash_child(void)
{
	CUdeviceptr held, busy;

	/* Ends the child if its parent dies first. */
	alarm(PATIENCE_S);
	client_begin();
	held = client_obtain(HELD);
	client_register(client_pd, held, HELD, false);
	must(statistic("registrations_dma_buf") && !statistic("registrations_peer_memory"));
	fputs(REGISTERED, stdout);
	fflush(stdout);
	for (;;) {
		busy = client_obtain(2 * MIB);
		client_use(busy, 2 * MIB, false);
		client_free(busy);
	}
}

/* Returns once it has registered. */
static pid_t start(void)
{
	char *const arguments[] = { "cycles", "--die", NULL };
	posix_spawn_file_actions_t actions;
	bool registered = false;
	char line[256];
	int ends[2];
	pid_t pid;
	FILE *from;

	must(!pipe(ends));
	must(!posix_spawn_file_actions_init(&actions));
	must(!posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO));
	must(!posix_spawn_file_actions_addclose(&actions, ends[0]));
	must(!posix_spawn_file_actions_addclose(&actions, ends[1]));
	must(!posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ));
	must(!posix_spawn_file_actions_destroy(&actions));
	must(!close(ends[1]));
	from = fdopen(ends[0], "r");
	must(from);
	while (!registered && fgets(line, sizeof(line), from)) {
		registered = !strcmp(line, REGISTERED);
		if (!registered && line[0] != '#')
			printf("# the process that is to die: %s", line);
	}
	must(registered);
	must(!fclose(from));
	return pid;
}

void crash(int cycles)
{
	CUdeviceptr kept = client_obtain(4 * MIB);
	struct ibv_mr *mr = client_register(client_pd, kept, 4 * MIB, false);

	for (int cycle = 0; cycle < cycles; cycle += CYCLES_A_FREE) {
		size_t before = client_free_memory();
		pid_t pid = start();
		double end;
		int status;

		must(!kill(pid, SIGKILL));
		must(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
		     WTERMSIG(status) == SIGKILL);
		end = seconds() + RELEASE_S;
		while (client_free_memory() != before && seconds() < end)
			usleep(10000);
		client_reach(mr);
		client_use(kept, 4 * MIB, true);
	}
	must(!ibv_dereg_mr(mr));
	client_free(kept);
}
