/* SPDX-License-Identifier: BSD-3-Clause */
/* processes.c -- a test's processes and their board */
#include "processes.h"

#include <check.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOARD_VARIABLE "PAIRS_BOARD"

struct board *board;
static int board_descriptor = -1;
static pid_t pids[PROCESSES_MOST]; /* 0: ended as it should */
static unsigned int count, self;

void processes_fail(const char *file, int line, const char *condition)
{
	fprintf(stderr, "%s:%d: process %u: not so: %s (%s)\n", file, line, self, condition,
		strerror(errno));
	_exit(1);
}

/* ---- the board ---- */

static void board_make(void)
{
	board_descriptor = memfd_create("board", 0);
	must(board_descriptor >= 0 && !ftruncate(board_descriptor, sizeof(*board)));
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, board_descriptor, 0);
	must(board != MAP_FAILED);
}

static void board_wait(uint32_t *word, uint32_t seen)
{
	syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static void board_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint32_t board_get(enum board_word word)
{
	return __atomic_load_n(&board->words[word], __ATOMIC_ACQUIRE);
}

void board_set(enum board_word word, uint32_t value)
{
	__atomic_store_n(&board->words[word], value, __ATOMIC_RELEASE);
	board_wake(&board->words[word]);
}

void board_await(enum board_word word, uint32_t value)
{
	uint32_t now;

	while ((now = board_get(word)) < value)
		board_wait(&board->words[word], now);
}

void processes_meet(void)
{
	uint32_t round = __atomic_load_n(&board->round, __ATOMIC_ACQUIRE);

	if (__atomic_add_fetch(&board->arrived, 1, __ATOMIC_ACQ_REL) == count) {
		__atomic_store_n(&board->arrived, 0, __ATOMIC_RELAXED);
		__atomic_add_fetch(&board->round, 1, __ATOMIC_RELEASE);
		board_wake(&board->round);
		return;
	}
	while (__atomic_load_n(&board->round, __ATOMIC_ACQUIRE) == round)
		board_wait(&board->round, round);
}

/* ---- processes ---- */

void processes_start(unsigned int wanted, void (*body)(unsigned int self))
{
	count = wanted;
	board_make();
	for (unsigned int i = 0; i < count; i++) {
		pids[i] = fork();
		ck_assert_int_ge(pids[i], 0);
		if (pids[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		self = i;
		body(i);
		fflush(NULL);
		_exit(0);
	}
}

unsigned int processes_count(void)
{
	return count;
}

void processes_kill(unsigned int process, bool reap)
{
	siginfo_t info;

	ck_assert(!kill(pids[process], SIGKILL));
	ck_assert(!waitid(P_PID, (id_t)pids[process], &info, WEXITED | (reap ? 0 : WNOWAIT)));
	if (reap)
		pids[process] = 0;
}

static unsigned int processes_index(pid_t pid)
{
	for (unsigned int i = 0; i < count; i++) {
		if (pids[i] == pid)
			return i;
	}
	return count;
}

void processes_end(void)
{
	unsigned int failed = count, left = 0, index;
	int status;
	pid_t pid;

	for (unsigned int i = 0; i < count; i++)
		left += pids[i] != 0;
	while (left && (pid = waitpid(-1, &status, 0)) > 0) {
		index = processes_index(pid);
		if (index == count)
			continue;
		left--;
		pids[index] = 0;
		/* A process that the test left as a zombie was killed. */
		if (status && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) &&
		    failed == count) {
			failed = index;
			for (unsigned int i = 0; i < count; i++)
				if (pids[i])
					kill(pids[i], SIGKILL);
		}
	}
	ck_assert_msg(failed == count, "process %u of %u failed", failed, count);
	munmap(board, sizeof(*board));
	close(board_descriptor);
}

void processes_run(unsigned int wanted, void (*body)(unsigned int self))
{
	processes_start(wanted, body);
	processes_end();
}

/* ---- fresh address spaces ---- */

void processes_exec(const char *body)
{
	char value[64];
	char *arguments[] = { (char *)"check_pairs", (char *)body, NULL };

	snprintf(value, sizeof(value), "%d,%u,%u", board_descriptor, count, self);
	setenv(BOARD_VARIABLE, value, 1);
	execv("/proc/self/exe", arguments);
	processes_fail(__FILE__, __LINE__, "execv");
}

void processes_enter(const char *body, void (*function)(void))
{
	const char *value = getenv(BOARD_VARIABLE);

	(void)body;
	must(value && sscanf(value, "%d,%u,%u", &board_descriptor, &count, &self) == 3);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, board_descriptor, 0);
	must(board != MAP_FAILED);
	function();
	fflush(NULL);
	_exit(0);
}
