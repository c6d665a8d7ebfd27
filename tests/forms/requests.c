/* SPDX-License-Identifier: BSD-3-Clause */
/* requests.c -- runs forms with the preload and without it, and judges them
 *
 * usage: requests LIBRARY [--seed N] [NAME...]
 * Each run is a process of its own: counters begin at 0, and a crash ends one form. The sizes come
 * from the seed, another one at each call unless it is given; both runs of a form have the same.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "forms.h"
#include "requests.h"

#define AT_ONCE	 4
#define TIME_OUT 300 /* seconds */

#define FORM(id, ...) void form_##id(size_t size);
#include "forms.def"
#undef FORM

static const struct form all_forms[] = {
#define FORM(id, sizes, outcome, least, ...)                                                       \
	{ #id, form_##id, sizes, #outcome, least, "" __VA_ARGS__ },
#include "forms.def"
#undef FORM
};

#define COUNT (sizeof(all_forms) / sizeof(*all_forms))

static const char *library;
static uint64_t seed;

/* ---- processes ---- */

struct running {
	const struct form *form;
	bool with;
	pid_t process; /* 0: none */
	int file;      /* of the result */
	struct form_result *result;
};

static struct form_result *requests_map(int file)
{
	struct form_result *mapped =
		mmap(NULL, sizeof(*mapped), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	require(mapped != MAP_FAILED);
	return mapped;
}

static void requests_become(const struct running *running)
{
	char number[24], text[24];
	char *settings = strdup(running->form->settings);

	if (running->with)
		setenv("LD_PRELOAD", library, 1);
	for (char *one = strtok(settings, " "); one; one = strtok(NULL, " "))
		require(!putenv(one));
	snprintf(number, sizeof(number), "%d", running->file);
	snprintf(text, sizeof(text), "%lu", seed);
	execl("/proc/self/exe", "requests", "run", running->form->name, text, number, NULL);
	_exit(127);
}

static struct running requests_begin(const struct form *form, bool with)
{
	struct running running = { .form = form, .with = with };

	running.file = memfd_create("form", 0);
	require(running.file >= 0 && !ftruncate(running.file, sizeof(struct form_result)));
	running.result = requests_map(running.file);
	fflush(stdout);
	running.process = fork();
	require(running.process >= 0);
	if (!running.process)
		requests_become(&running);
	close(running.file);
	return running;
}

static int requests_run(const char *name, const char *text, const char *file)
{
	const struct form *form = all_forms;

	while (form < all_forms + COUNT && strcmp(form->name, name) != 0)
		form++;
	require(form < all_forms + COUNT);
	result = requests_map(atoi(file));
	alarm(TIME_OUT);
	form_run(form, strtoul(text, NULL, 10));
	return 0;
}

/* ---- all forms ---- */

static bool requests_selected(const struct form *form, char **names)
{
	for (char **name = names; *name; name++) {
		if (!strcmp(form->name, *name))
			return true;
	}
	return !*names;
}

/* Results of both runs of each form; NULL: not ended. */
static struct form_result *results[COUNT][2];

static void requests_await(struct running *running, unsigned int count)
{
	int status;
	pid_t ended = wait(&status);

	require(ended > 0);
	for (unsigned int i = 0; i < count; i++) {
		if (running[i].process == ended) {
			results[running[i].form - all_forms][running[i].with] = running[i].result;
			running[i].process = 0;
		}
	}
}

static void requests_run_all(char **names)
{
	struct running running[AT_ONCE] = { { .process = 0 } };
	unsigned int next = 0, slot, busy;

	do {
		busy = 0;
		for (slot = 0; slot < AT_ONCE; slot++) {
			while (next < 2 * COUNT && !requests_selected(&all_forms[next / 2], names))
				next += 2;
			if (!running[slot].process && next < 2 * COUNT) {
				running[slot] = requests_begin(&all_forms[next / 2], next % 2);
				next++;
			}
			busy += running[slot].process != 0;
		}
		if (busy)
			requests_await(running, AT_ONCE);
	} while (busy);
}

static unsigned int requests_judge_all(char **names)
{
	unsigned int judged = 0, failed = 0;

	for (unsigned int i = 0; i < COUNT; i++) {
		const struct form_counts *counts;
		const char *text;

		if (!requests_selected(&all_forms[i], names))
			continue;
		text = form_judge(&all_forms[i], results[i][0], results[i][1]);
		counts = &results[i][1]->counts;
		failed += text != NULL;
		printf("%s %u %s: %lu hits of %lu requests\n", text ? "not ok" : "ok", ++judged,
		       all_forms[i].name, counts->hits, counts->requests);
		if (text)
			printf("# %s: %s\n", all_forms[i].name, text);
	}
	printf("1..%u\n", judged);
	return judged ? failed : 1;
}

int main(int count, char **arguments)
{
	struct timespec now;

	if (count == 5 && !strcmp(arguments[1], "run"))
		return requests_run(arguments[2], arguments[3], arguments[4]);
	if (count < 2) {
		fprintf(stderr, "usage: requests LIBRARY [--seed N] [NAME...]\n");
		return 2;
	}
	library = arguments[1];
	arguments += 2;
	clock_gettime(CLOCK_REALTIME, &now);
	seed = (uint64_t)now.tv_sec * 1000000007 + (uint64_t)now.tv_nsec;
	if (arguments[0] && arguments[1] && !strcmp(arguments[0], "--seed")) {
		seed = strtoul(arguments[1], NULL, 10);
		arguments += 2;
	}
	printf("# sizes of --seed %lu\n", seed);
	requests_run_all(arguments);
	return requests_judge_all(arguments) ? EXIT_FAILURE : EXIT_SUCCESS;
}
