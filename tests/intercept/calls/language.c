/* SPDX-License-Identifier: BSD-3-Clause */
/* language.c -- the statements of rows */
#include "calls.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../../forks.h"

#define WORD	  128
#define NAME	  40
#define VARIABLES 512
#define JOBS	  9

static const char *row_text, *row_name;
static unsigned int row_line;
static __thread uint64_t turn; /* `i` of the loop */
__thread int call_errno;

static struct job jobs[JOBS];
static struct {
	_Atomic(const char *) from; /* NULL: none. Set after `to`; a thread takes it. */
	const char *to;
} occasions[OCCASIONS];

static void run(const char *at, const char *end);

_Noreturn static void fail(const char *at, const char *end, const char *what)
{
	unsigned int line = row_line;

	for (const char *each = row_text; each < at; each++)
		line += *each == '\n';
	fprintf(stderr, "rows:%u: %s: \"%.*s\": %s\n", line, row_name, (int)(end - at), at, what);
	_exit(1);
}

/* ---- words ---- */

static const char *skip(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	return at;
}

static const char *read_word(const char *at, const char *end, char *word)
{
	size_t length = 0;

	at = skip(at, end);
	while (at < end && !strchr(" \t\n;:,()", *at) && length < WORD - 1)
		word[length++] = *at++;
	word[length] = '\0';
	return at;
}

/* Behind the parenthesis that closes the one at `at`. */
static const char *behind_block(const char *at, const char *end)
{
	int depth = 0;

	do {
		depth += (*at == '(') - (*at == ')');
		at++;
	} while (depth && at < end);
	return at;
}

static const char *statement_end(const char *at, const char *end)
{
	while (at < end && *at != ';' && *at != '\n')
		at = *at == '(' ? behind_block(at, end) : at + 1;
	return at;
}

/* ---- values ---- */

static struct named {
	char name[NAME];
	uint64_t value;
} variables[VARIABLES];
static __thread struct named own_variables[16];
static struct named *shared_variables; /* of a row's ranks, too */
static pthread_mutex_t variables_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t *find_variable(const char *name, bool create)
{
	bool is_own = *name == '_', is_shared = !strncmp(name, "Shared", 6);
	struct named *list = is_own ? own_variables : is_shared ? shared_variables : variables;
	unsigned int most = is_own || is_shared ? 16 : VARIABLES, i = 0;

	pthread_mutex_lock(&variables_lock);
	while (i < most && *list[i].name && strcmp(list[i].name, name) != 0)
		i++;
	require(i < most && strlen(name) < NAME);
	if (!*list[i].name && create)
		strcpy(list[i].name, name);
	create = *list[i].name;
	pthread_mutex_unlock(&variables_lock);
	return create ? &list[i].value : NULL;
}

uint64_t *variable(const char *name)
{
	return find_variable(name, true);
}

static bool read_number(const char **at, uint64_t *value)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end;

	*value = strtoull(*at, &end, 0);
	unit = *end ? strchr(units, *end) : NULL;
	if (unit)
		*value <<= 10 * (unit - units + 1);
	*at = end + (unit != NULL);
	return true;
}

/* "A.i": A0, A1 and so on, by the loop's turn. */
static const char *read_name(const char *at, char *name)
{
	size_t length = 0;

	while ((isalnum((unsigned char)*at) || *at == '_') && length < NAME - 1)
		name[length++] = *at++;
	name[length] = '\0';
	if (length && at[0] == '.' && at[1] == 'i') {
		snprintf(name + length, NAME - length, "%u", (unsigned int)turn);
		at += 2;
	}
	return at;
}

static bool read_factor(const char **at, uint64_t *value)
{
	bool is_address = **at == '&';
	char name[NAME];
	uint64_t *found;

	if (isdigit((unsigned char)**at))
		return read_number(at, value);
	*at = read_name(*at + is_address, name);
	if (!*name)
		return false;
	if (!strcmp(name, "i")) {
		*value = turn;
		return true;
	}
	found = find_variable(name, is_address || (isupper((unsigned char)*name) && !name[1]));
	if (found)
		*value = is_address ? (uint64_t)(uintptr_t)found : *found;
	return found || constant(name, value);
}

static bool read_product(const char **at, uint64_t *value)
{
	uint64_t factor;

	if (!read_factor(at, value))
		return false;
	while (**at == '*' || **at == '%' || **at == '|') {
		char sign = *(*at)++;

		if (!read_factor(at, &factor))
			return false;
		*value = sign == '*'   ? *value * factor
			 : sign == '%' ? *value % factor
				       : (*value | factor);
	}
	return true;
}

static bool value_of(const char *word, uint64_t *value)
{
	uint64_t term;

	*value = 0;
	do {
		char sign = *word == '-' || *word == '+' ? *word++ : '+';

		if (!read_product(&word, &term))
			return false;
		*value = sign == '+' ? *value + term : *value - term;
	} while (*word == '+' || *word == '-');
	return !*word;
}

/* A word that is no value is a text. */
static unsigned int read_arguments(const char **at, const char *end, bool has_place,
				   uint64_t *arguments)
{
	unsigned int count = 0;
	char word[WORD], name[NAME];

	memset(arguments, 0, ARGUMENTS * sizeof(*arguments));
	for (;;) {
		*at = read_word(*at, end, word);
		if (!*word || count == ARGUMENTS)
			return count;
		if (has_place && !count) {
			read_name(word, name);
			arguments[count] = (uint64_t)(uintptr_t)variable(name);
		} else if (!value_of(word, &arguments[count])) {
			arguments[count] = (uint64_t)(uintptr_t)strdup(word);
		}
		count++;
	}
}

/* ---- checks ---- */

/* READING [>= or <= or <] [+]VALUE */
static bool reading_holds(const char *name, const char *at, const char *end)
{
	char sign[3] = "", word[WORD];
	uint64_t value, found;
	bool since;

	at = skip(at, end);
	while (at < end && strchr("<>=", *at) && strlen(sign) < 2) {
		sign[strlen(sign) + 1] = '\0';
		sign[strlen(sign)] = *at++;
	}
	read_word(at, end, word);
	since = *word == '+';
	if (!value_of(word, &value) || !reading(name, since, &found))
		return false;
	if (!strcmp(sign, ">="))
		return found >= value;
	if (!strcmp(sign, "<="))
		return found <= value;
	return *sign == '<' ? found < value : found == value;
}

/* False also for a word that is no check. */
static bool holds(const char *at, const char *end)
{
	uint64_t arguments[ARGUMENTS], unused;
	const struct event *event;
	char word[WORD];
	unsigned int count;
	bool negated;

	at = read_word(at, end, word);
	negated = !strcmp(word, "not");
	if (negated)
		at = read_word(at, end, word);
	event = event_find(word);
	if (event && event->kind == CHECK) {
		count = read_arguments(&at, end, false, arguments);
		return (event->act(arguments, count) != 0) != negated;
	}
	return reading(word, false, &unused) && reading_holds(word, at, end);
}

/* A value alone is the result of the call. */
static bool is_result(const char *at, const char *end, uint64_t *value)
{
	char word[WORD];
	uint64_t unused;

	at = skip(read_word(at, end, word), end);
	return at == end && *word && !reading(word, false, &unused) && !event_find(word) &&
	       value_of(word, value);
}

/* Return the expected result, 0 without one. */
static uint64_t check_all(const char *at, const char *end)
{
	uint64_t expected = 0;
	const char *stop;

	for (bool first = true; at < end; first = false) {
		for (stop = at; stop < end && *stop != ',';)
			stop++;
		if (!(first && is_result(at, stop, &expected)) && !holds(at, stop))
			fail(at, stop, "not so");
		at = stop + 1;
	}
	return expected;
}

/* ---- statements ---- */

/* Functions of the driver and of libibverbs take whole numbers and addresses: on x86-64 and aarch64
 * each in a register of its own, or in a place of 8 bytes, whatever its type. */
typedef uint64_t function(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,
			  uint64_t g, uint64_t h, uint64_t i, uint64_t j);

static uint64_t call(const char *at, const char *end, const char *name, const uint64_t *a)
{
	function *found = (function *)(!strncmp(name, "raw.", 4) ? raw_function(name + 4)
								 : dlsym(RTLD_DEFAULT, name));

	if (!found)
		fail(at, end, "no such call");
	return found(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9]);
}

/* [any] [NAME =] CALL ARGUMENT... [: CHECK, ...] */
static void run_call(const char *at, const char *end)
{
	uint64_t arguments[ARGUMENTS], result, expected = 0, *place = NULL;
	const char *begins = at, *sign;
	const struct event *event;
	char word[WORD], name[NAME];
	unsigned int count;
	bool any;

	at = read_word(at, end, word);
	any = !strcmp(word, "any");
	if (any)
		at = read_word(at, end, word);
	sign = skip(at, end);
	if (sign < end && *sign == '=') {
		read_name(word, name);
		place = variable(name);
		at = read_word(sign + 1, end, word);
	}
	event = event_find(word);
	count = read_arguments(&at, end, event && event->kind == PLACE, arguments);
	errno = UNTOUCHED;
	result = event ? event->act(arguments, count) : call(begins, end, word, arguments);
	call_errno = errno;
	if (place)
		*place = result;
	else
		result = (uint32_t)result;
	at = skip(at, end);
	if (at < end)
		expected = check_all(at + 1, end);
	if (!any && (place ? !result : result != (uint32_t)expected)) {
		fprintf(stderr, "result %lld\n", (long long)(int)result);
		fail(begins, end, "another result");
	}
}

static void *run_thread(void *argument)
{
	struct job *job = argument;

	job->id = gettid();
	turn = job->number;
	enter_context();
	run(job->from, job->to);
	job->done = true;
	pthread_testcancel();
	return NULL;
}

struct job *job_of(uint64_t number)
{
	require(number < JOBS);
	return &jobs[number];
}

static void begin_thread(unsigned int number, const char *from, const char *to)
{
	struct job *job = job_of(number);

	*job = (struct job){ .from = from, .to = to, .number = number };
	require(!pthread_create(&job->thread, NULL, run_thread, job));
}

static void lock_variables(void)
{
	pthread_mutex_lock(&variables_lock);
}

static void unlock_variables(void)
{
	pthread_mutex_unlock(&variables_lock);
}

/* No other thread has the lock of the variables in the child. fork() calls handlers, of which the
 * row's own run first. */
static pid_t fork_with_variables(enum fork_way way)
{
	bool has_handlers = way == FORK || FORK_ALONE;
	pid_t child;

	if (!has_handlers)
		lock_variables();
	child = fork_by(way);
	if (!has_handlers)
		unlock_variables();
	return child;
}

/* "child" changes no counter, "process" may. */
static void run_child(bool counts, const char *way, const char *from, const char *to, int expected)
{
	pid_t child;
	int status;

	mark();
	child = fork_with_variables(!strcmp(way, "fork")    ? FORK
				    : !strcmp(way, "_Fork") ? FORK_WITHOUT_HANDLERS
							    : CLONE);
	if (!child) {
		alarm(TIME_OUT);
		run(from, to);
		if (counts)
			same_counts();
		_exit(CHILD_STATUS);
	}
	require(child > 0);
	until(waitpid(child, &status, WNOHANG) == child);
	if (expected < 0 ? !WIFSIGNALED(status) || WTERMSIG(status) != -expected
			 : status != expected << 8)
		fail(from, to, "the child ended otherwise");
}

/* A process beside this one, for "await". */
static void begin_rank(unsigned int number, const char *from, const char *to)
{
	pid_t child = fork_with_variables(FORK);

	require(child >= 0);
	if (!child) {
		alarm(TIME_OUT);
		run(from, to);
		_exit(0);
	}
	job_of(number)->id = child;
}

static enum occasion occasion_of(const char *word)
{
	static const char *const names[] = {
		"allocated", "freeing",		 "exit",	"fork", "calloc",
		"exported",  "driver-allocates", "driver-frees"
	};
	unsigned int i = 0;

	while (i < OCCASIONS && strcmp(names[i], word) != 0)
		i++;
	require(i < OCCASIONS);
	return (enum occasion)i;
}

void language_at(enum occasion occasion)
{
	const char *from = atomic_exchange(&occasions[occasion].from, NULL);

	if (from)
		run(from, occasions[occasion].to);
}

/* Statements with a block; false: it is none. */
static bool run_block(const char *word, const char *at, const char *end)
{
	const char *open = memchr(at, '(', (size_t)(end - at)), *from, *to;
	uint64_t expected = CHILD_STATUS;
	char operand[WORD];

	if (!open)
		return false;
	from = open + 1;
	to = behind_block(open, end) - 1;
	read_word(at, open, operand);
	if (!strcmp(word, "thread")) {
		begin_thread((unsigned int)atoi(operand), from, to);
	} else if (!strcmp(word, "rank")) {
		begin_rank((unsigned int)atoi(operand), from, to);
	} else if (!strcmp(word, "until")) {
		while (!holds(at, open))
			run(from, to);
	} else if (!strcmp(word, "child") || !strcmp(word, "process")) {
		at = skip(to + 1, end);
		if (at < end && *at == ':')
			require(is_result(at + 1, end, &expected));
		run_child(!strcmp(word, "child"), operand, from, to, (int)expected);
	} else if (!strcmp(word, "at")) {
		occasions[occasion_of(operand)].to = to;
		occasions[occasion_of(operand)].from = from;
		if (occasion_of(operand) >= AT_EXIT)
			event_find("at-")->act((uint64_t[]){ occasion_of(operand) }, 1);
	} else if (!strcmp(word, "forever")) {
		while (!*variable("Stop"))
			run(from, to);
	} else {
		return false;
	}
	return true;
}

static void repeat(uint64_t times, const char *at, const char *end)
{
	uint64_t outer = turn;

	at = skip(at, end);
	if (at < end && *at == '(') {
		end = behind_block(at, end) - 1;
		at++;
	}
	for (uint64_t i = 0; i < times; i++) {
		turn = i;
		run(at, end);
	}
	turn = outer;
}

static void run_statement(const char *at, const char *end)
{
	char word[WORD];
	const char *behind = read_word(at, end, word);
	uint64_t times;

	if (*at == ':')
		check_all(at + 1, end);
	else if (isdigit((unsigned char)*word) && value_of(word, &times))
		repeat(times, behind, end);
	else if (run_block(word, behind, end))
		return;
	else if (!strcmp(word, "until"))
		until(holds(behind, end));
	else
		run_call(at, end);
}

static void run(const char *at, const char *end)
{
	const char *stop;

	for (; at < end; at = stop) {
		stop = at + 1;
		if (strchr(" \t\n;", *at))
			continue;
		if (*at == '#') {
			while (stop < end && *stop != '\n')
				stop++;
			continue;
		}
		stop = statement_end(at, end);
		run_statement(at, stop);
	}
}

void language_run(const char *text, const char *name, unsigned int line)
{
	row_text = text;
	row_name = name;
	row_line = line;
	shared_variables =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	require(shared_variables != MAP_FAILED);
	require(!pthread_atfork(lock_variables, unlock_variables, unlock_variables));
	run(text, text + strlen(text));
}
