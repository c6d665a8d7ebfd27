/* SPDX-License-Identifier: BSD-3-Clause */
/* check_forks.c -- children, by each way to make one: passive, or programs of their own; locks that
 * other threads of the parent hold
 */
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../forks.h"
#include "base/loaded.h"
#include "base/log.h"
#include "base/once.h"
#include "base/process.h"
#include "memory/kept.h"
#include "memory/table.h"
#include "registration/lock.h"
#include "registration_fixture.h"

/* Makes a child that calls `check`, and returns whether it returned true. A child that hangs is
 * killed. */
static bool holds_in_child(enum fork_way way, bool (*check)(void))
{
	pid_t child = fork_by(way);
	int status;

	if (!child) {
		signal(SIGALRM, SIG_DFL);
		alarm(60);
		_exit(check() ? 0 : 1);
	}
	require(child > 0 && waitpid(child, &status, 0) == child);
	return !status;
}

static unsigned int renewed;

static void renew(void)
{
	renewed++;
	memory_renew();
	registration_renew();
}

static void set_up_forks(void)
{
	standin_reset();
	process_renews = renew;
}

CASE(forks, .set_up = set_up_forks);

/* ---- children of an active process ---- */

static bool is_passive(void)
{
	process_begin_exit();
	process_activate();
	return process_is_passive() && process_is_forked() && process_is_done() &&
	       !process_is_exiting() && !renewed;
}

static bool is_passive_with_children(void)
{
	bool passive = is_passive();

	for (enum fork_way way = 0; way < FORK_WAYS; way++)
		passive &= holds_in_child(way, is_passive);
	return passive;
}

LOOP_TEST(forks, a_child_of_an_active_process_is_passive, 0, FORK_WAYS)
{
	process_activate();
	ck_assert(holds_in_child((enum fork_way)_i, is_passive_with_children));
	ck_assert(!process_is_passive() && !process_is_forked() && !process_is_done());
	process_begin_exit();
	ck_assert(process_is_exiting() && process_is_done());
	ck_assert(holds_in_child((enum fork_way)_i, is_passive_with_children));
}

static bool child_is_passive;

static void *fork_on_thread(void *way)
{
	child_is_passive = holds_in_child(*(enum fork_way *)way, is_passive);
	return NULL;
}

static enum fork_way way_meanwhile;

static void fork_meanwhile(void)
{
	pthread_t thread;

	require(!pthread_create(&thread, NULL, fork_on_thread, &way_meanwhile));
	pthread_join(thread, NULL);
}

/* The thread that activates the process does not exist in the child. */
LOOP_TEST(forks, a_child_forked_while_another_thread_activates_is_passive, 0, FORK_WAYS)
{
	way_meanwhile = (enum fork_way)_i;
	process_begins = fork_meanwhile;
	process_activate();
	ck_assert(child_is_passive && process_is_active());
}

static once computed;

static bool computes(void)
{
	bool first = once_begin(&computed);

	once_end(&computed);
	return first && !once_begin(&computed);
}

LOOP_TEST(forks, a_child_computes_what_a_thread_of_its_parent_has_begun, 0, FORK_WAYS)
{
	ck_assert(once_begin(&computed));
	ck_assert(holds_in_child((enum fork_way)_i, computes));
}

static unsigned int lines_in(FILE *file)
{
	char line[LOG_LINE_LENGTH];
	unsigned int lines = 0;

	rewind(file);
	while (fgets(line, sizeof(line), file))
		lines++;
	return lines;
}

static bool logs(void)
{
	log_message(LOG_ERROR, "from a child");
	log_once(LOG_ERROR, "once from a child");
	return true;
}

LOOP_TEST(forks, a_child_of_an_active_process_logs_nothing, 0, FORK_WAYS)
{
	FILE *file = tmpfile();
	unsigned int before;

	ck_assert(file && dup2(fileno(file), STDERR_FILENO) == STDERR_FILENO);
	ck_assert(!process_is_passive());
	log_set_limit(LOG_ERROR);
	ck_assert(holds_in_child((enum fork_way)_i, logs));
	before = lines_in(file);
	ck_assert_uint_eq(before, 2);
	process_activate();
	log_set_limit(LOG_ERROR);
	ck_assert(holds_in_child((enum fork_way)_i, logs));
	ck_assert_uint_eq(lines_in(file), before);
}

/* ---- children of an inert process ---- */

static bool is_a_program_of_its_own(void)
{
	bool own = !process_is_passive() && !process_is_forked() && renewed == 1;

	process_activate();
	own &= process_is_active() && !process_is_passive() && renewed == 1;
	renewed = 0;
	return own && holds_in_child(FORK_WITHOUT_HANDLERS, is_passive);
}

LOOP_TEST(forks, a_child_of_an_inert_process_is_a_program_of_its_own, 0, FORK_WAYS)
{
	ck_assert(!process_is_passive());
	ck_assert(holds_in_child((enum fork_way)_i, is_a_program_of_its_own));
	ck_assert_uint_eq(renewed, 0);
}

static bool has_nothing_to_renew(void)
{
	return !process_is_passive() && !process_is_forked() && !renewed;
}

LOOP_TEST(forks, a_child_from_before_the_first_call_has_nothing_to_renew, 0, FORK_WAYS)
{
	ck_assert(holds_in_child((enum fork_way)_i, has_nothing_to_renew));
}

/* ---- locks of an inert process ---- */

static _Atomic bool done;
static pthread_barrier_t held;

static void *hold_locks(void *unused)
{
	pthread_mutex_lock(&registration_mutex);
	pthread_mutex_lock(&table_lock);
	pthread_barrier_wait(&held);
	while (!done)
		sched_yield();
	pthread_mutex_unlock(&table_lock);
	pthread_mutex_unlock(&registration_mutex);
	return unused;
}

/* What an inert process may call, for each lock. */
static bool uses_registration(void)
{
	struct ibv_pd own = { .context = DEVICE, .handle = 77 };

	registration_drop(&client_mrs[3]);
	registration_pd_opened(&own, false);
	registration_pd_closing(&own);
	registration_pd_closed(&own, true);
	registration_context_closing(DEVICE);
	return true;
}

static bool uses_table(void)
{
	memory_reserved(HOME, BLOCK);
	memory_range_gone(HOME, BLOCK);
	return memory_youngest();
}

static bool uses_kept_memory(void)
{
	return !keep_release(0);
}

static bool uses_exports(void)
{
	struct found_export found;

	memory_exported(STDERR_FILENO,
			&(struct found_export){ HOME, BLOCK, memory_youngest(), false });
	return memory_find_export(STDERR_FILENO, &found);
}

static bool (*const uses[])(void) = { uses_registration, uses_table, uses_kept_memory,
				      uses_exports };
#define USES (int)(sizeof(uses) / sizeof(*uses))

static bool uses_all_locks(void)
{
	bool used = !process_is_passive();

	for (int i = 0; i < USES; i++)
		used &= uses[i]();
	return used;
}

LOOP_TEST(forks, a_child_waits_for_no_lock_that_its_parent_holds, 0, FORK_WAYS)
{
	pthread_t thread;

	ck_assert(!process_is_passive());
	pthread_barrier_init(&held, NULL, 2);
	ck_assert(!pthread_create(&thread, NULL, hold_locks, NULL));
	pthread_barrier_wait(&held);
	ck_assert(holds_in_child((enum fork_way)_i, uses_all_locks));
	done = true;
	pthread_join(thread, NULL);
}

static void *use_often(void *use)
{
	while (!done)
		require((*(bool (*const *)(void))use)());
	return NULL;
}

/* The lock is held at many of the forks, and the data that it guards is half changed. */
LOOP_TEST(forks, a_child_waits_for_no_lock_that_another_thread_may_hold, 0, FORK_WAYS *USES)
{
	enum { CHILDREN = 100 };
	pthread_t thread;

	ck_assert(!process_is_passive());
	ck_assert(!pthread_create(&thread, NULL, use_often, (void *)&uses[_i % USES]));
	for (int i = 0; i < CHILDREN; i++)
		require(holds_in_child((enum fork_way)(_i / USES), uses_all_locks));
	done = true;
	pthread_join(thread, NULL);
}

/* ---- the list of loaded objects, whose lock is glibc's ---- */

static _Atomic bool is_inside;

/* Once the child has ended, the thread goes on. */
static int stay_inside(struct dl_phdr_info *object, size_t size, void *unused)
{
	(void)object, (void)size, (void)unused;
	is_inside = true;
	while (!done)
		sched_yield();
	return 1;
}

static void *hold_the_list(void *unused)
{
	dl_iterate_phdr(stay_inside, NULL);
	return unused;
}

static int count_objects(struct dl_phdr_info *object, size_t size, void *count)
{
	struct object_tables tables;

	(void)size;
	*(unsigned int *)count += object->dlpi_phnum && object_read(object, &tables);
	return 0;
}

static unsigned int objects;
/* An object is loaded below its link address. Valgrind ends at its symbols. */
static bool is_low;

static void load_low(void)
{
	is_low = !suite_is_under_valgrind();
	if (is_low)
		ck_assert(dlopen("tests/intercept/.libs/liblookup.so", RTLD_NOW));
}

static bool finds_what_is_loaded(void)
{
	unsigned int found = 0;

	loaded_walk(count_objects, &found);
	return found == objects && loaded_in_library("libpthread.so.0", "nothing") == NULL &&
	       loaded_in_library("libc.so.6", "getpid") && loaded_at(stdout, "stdout") &&
	       (!is_low ||
		loaded_at(loaded_in_library("liblookup.so", "library_next"), "tool_of_library")) &&
	       loaded_share_object(&objects, finds_what_is_loaded);
}

LOOP_TEST(forks, a_child_looks_up_while_another_thread_reads_the_list_of_objects, 0, FORK_WAYS)
{
	pthread_t thread;

	load_low();
	loaded_begin(false);
	loaded_walk(count_objects, &objects);
	ck_assert(objects > 1 && finds_what_is_loaded());
	ck_assert(!pthread_create(&thread, NULL, hold_the_list, NULL));
	while (!is_inside)
		sched_yield();
	ck_assert(holds_in_child((enum fork_way)_i, finds_what_is_loaded));
	done = true;
	pthread_join(thread, NULL);
}

/* ---- kernels before Linux 4.14 ---- */

static void take_wipe_on_fork_away(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 18 /* MADV_WIPEONFORK */, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { .len = sizeof(steps) / sizeof(steps[0]), .filter = steps };

	ck_assert(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
		  !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
}

static bool child_of_fork_is_passive(void)
{
	process_activate();
	renewed = 0;
	return holds_in_child(FORK, is_passive);
}

TEST(forks, on_old_kernels_a_child_of_fork_knows_itself)
{
	take_wipe_on_fork_away();
	ck_assert(!process_is_passive());
	ck_assert(holds_in_child(FORK, child_of_fork_is_passive));
	process_activate();
	ck_assert(holds_in_child(FORK, is_passive));
	ck_assert(!process_is_passive());
}

SUITE("forks")
