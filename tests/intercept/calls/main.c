/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c -- calls ROWS [TEXT...]: the rows, or those whose names contain a text, several at once
 *
 * calls ROWS --run NUMBER runs a row in this process, calls ROWS --only NAME the first of that
 * name. CALLS_LIBRARY is the preload of rows, CALLS_SECONDS the time that a row may take.
 */
#include "calls.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define AT_ONCE	   4
#define ROWS_MAX   512
#define DIMENSIONS 4
#define TEXTS_MAX  12
#define TOGETHER   3 /* names that a line "for" binds at once */

struct span {
	const char *from;
	size_t length;
};

/* A line "for NAME[/NAME]: TEXT[/ TEXT] | ..." */
struct dimension {
	struct span names[TOGETHER], texts[TEXTS_MAX][TOGETHER];
	unsigned int name_count, count;
};

static struct row {
	struct span name, settings, text;
	unsigned int line;
} rows[ROWS_MAX];
static unsigned int row_count;

/* A row with a text for each name: what runs. */
struct program {
	char *text, *name, *settings;
	unsigned int line;
};

/* ---- the file ---- */

static char *read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = calloc(1, 1 << 18);

	require(file && text && fread(text, 1, (1 << 18) - 1, file));
	fclose(file);
	return text;
}

static void find_rows(const char *text)
{
	struct span settings = { "", 0 };
	unsigned int line = 1;
	const char *end;

	for (; *text; text = end + 1, line++) {
		end = strchr(text, '\n');
		require(end);
		if (*text == '=') {
			text += 2 + strcspn(text + 2, " \n");
			settings = (struct span){ text, (size_t)(end - text) };
		} else if (*text == '-') {
			require(row_count < ROWS_MAX);
			rows[row_count++] = (struct row){ { text + 2, (size_t)(end - text - 2) },
							  settings,
							  { end + 1, 0 },
							  line + 1 };
		} else if (*text == '\t') {
			rows[row_count - 1].text.length =
				(size_t)(end + 1 - rows[row_count - 1].text.from);
		}
	}
}

/* ---- variants ---- */

static struct span trimmed(const char *from, const char *to)
{
	while (from < to && (*from == ' ' || *from == '\t'))
		from++;
	while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
		to--;
	return (struct span){ from, (size_t)(to - from) };
}

/* The parts between separators: " / " and " | ". */
static unsigned int split(struct span of, const char *separator, struct span *parts,
			  unsigned int most)
{
	const char *at = of.from, *end = of.from + of.length, *stop;
	unsigned int count = 0;

	do {
		stop = memmem(at, (size_t)(end - at), separator, strlen(separator));
		require(count < most);
		parts[count++] = trimmed(at, stop ? stop : end);
		at = stop ? stop + strlen(separator) : end;
	} while (stop);
	return count;
}

static unsigned int find_dimensions(const struct row *row, struct dimension *dimensions)
{
	const char *end = row->text.from + row->text.length, *at = row->text.from, *stop, *colon;
	struct span texts[TEXTS_MAX];
	unsigned int count = 1;

	dimensions[0] = (struct dimension){ .name_count = 0 };
	dimensions[0].count = split(row->settings, " | ", texts, TEXTS_MAX);
	for (unsigned int i = 0; i < dimensions[0].count; i++)
		dimensions[0].texts[i][0] = texts[i];
	for (; at < end; at = stop + 1) {
		struct dimension *next = &dimensions[count];

		stop = memchr(at, '\n', (size_t)(end - at));
		if (strncmp(at, "\tfor ", 5) != 0)
			continue;
		colon = memchr(at, ':', (size_t)(stop - at));
		require(colon && count++ < DIMENSIONS);
		next->name_count = split(trimmed(at + 5, colon), "/", next->names, TOGETHER);
		next->count = split(trimmed(colon + 1, stop), " | ", texts, TEXTS_MAX);
		for (unsigned int i = 0; i < next->count; i++)
			require(split(texts[i], " / ", next->texts[i], TOGETHER) ==
				next->name_count);
	}
	return count;
}

static bool is_name(struct span name, const char *at)
{
	return !strncmp(name.from, at, name.length) &&
	       !(at[name.length] >= 'A' && at[name.length] <= 'Z');
}

/* The row's text with the chosen texts, its own lines "for" empty. */
static void expand(const struct row *row, const struct dimension *dimensions, unsigned int count,
		   const unsigned int *choice, FILE *to)
{
	const char *at = row->text.from, *end = at + row->text.length;

	while (at < end) {
		const struct span *chosen = NULL;
		struct span name = { NULL, 0 };

		if (!strncmp(at, "\tfor ", 5)) {
			at = memchr(at, '\n', (size_t)(end - at));
			continue;
		}
		for (unsigned int i = 1; *at == '$' && i < count; i++) {
			for (unsigned int j = 0; j < dimensions[i].name_count; j++) {
				if (!is_name(dimensions[i].names[j], at + 1))
					continue;
				name = dimensions[i].names[j];
				chosen = &dimensions[i].texts[choice[i]][j];
			}
		}
		require(*at != '$' || chosen);
		if (chosen)
			fwrite(chosen->from, 1, chosen->length, to);
		else
			fputc(*at, to);
		at += chosen ? name.length + 1 : 1;
	}
}

/* The program of that number among all variants of all rows; false: there are fewer. */
static bool find_program(unsigned int number, struct program *program)
{
	struct dimension dimensions[DIMENSIONS];
	unsigned int choice[DIMENSIONS], count, product, i, j;
	size_t size;
	FILE *to;

	for (i = 0; i < row_count; i++) {
		count = find_dimensions(&rows[i], dimensions);
		for (j = 0, product = 1; j < count; j++)
			product *= dimensions[j].count;
		if (number < product)
			break;
		number -= product;
	}
	if (i == row_count)
		return false;
	program->line = rows[i].line;
	to = open_memstream(&program->name, &size);
	fwrite(rows[i].name.from, 1, rows[i].name.length, to);
	for (j = 0; j < count; j++) {
		choice[j] = number % dimensions[j].count;
		number /= dimensions[j].count;
		if (dimensions[j].count > 1)
			fprintf(to, " [%.*s]", (int)dimensions[j].texts[choice[j]][0].length,
				dimensions[j].texts[choice[j]][0].from);
	}
	fclose(to);
	program->settings = strndup(dimensions[0].texts[choice[0]][0].from,
				    dimensions[0].texts[choice[0]][0].length);
	to = open_memstream(&program->text, &size);
	expand(&rows[i], dimensions, count, choice, to);
	fclose(to);
	return true;
}

/* What follows a line's first word; NULL: the program has no such line. */
static const char *directive(const struct program *program, const char *word)
{
	char line[32];
	const char *found;

	snprintf(line, sizeof(line), "\t%s", word);
	found = strstr(program->text, line);
	return found ? found + strlen(line) : NULL;
}

/* ---- a process ---- */

static const char *rows_path;

static void bind_to_first(void)
{
	cpu_set_t all, first;
	int cpu = 0;

	require(!sched_getaffinity(0, sizeof(all), &all));
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&first);
	CPU_SET(cpu, &first);
	require(!sched_setaffinity(0, sizeof(first), &first));
}

/* Names of peerpin's settings are without their prefix. `behind`: a module behind
 * peerpin, or NULL. */
static void put_settings(const char *settings, const char *behind)
{
	char *copy = strdup(settings), text[256], libraries[512];
	bool preload = true;

	for (char *one = strtok(copy, " "); one; one = strtok(NULL, " ")) {
		bool is_foreign = !strncmp(one, "OMPI_", 5) || !strncmp(one, "PMIX_", 5) ||
				  !strncmp(one, "RDMAV_", 6);

		if (!strcmp(one, "alone"))
			preload = false;
		if (!strncmp(one, "VERBS=", 6)) {
			snprintf(libraries, sizeof(libraries), "tests/intercept/verbs/%s/.libs:%s",
				 one + 6, getenv("LD_LIBRARY_PATH"));
			require(!setenv("LD_LIBRARY_PATH", libraries, 1));
			continue;
		}
		if (!strchr(one, '='))
			continue;
		snprintf(text, sizeof(text), "%s%s", is_foreign ? "" : "PEERPIN_", one);
		require(!putenv(strdup(text)));
	}
	snprintf(libraries, sizeof(libraries), "%s%s%.*s", getenv("CALLS_LIBRARY"),
		 behind ? ":tests/intercept/.libs/" : "", behind ? (int)strcspn(behind, "\n") : 0,
		 behind ? behind : "");
	if (preload)
		require(!setenv("LD_PRELOAD", libraries, 1));
}

static void put_files(void)
{
	char folder[] = "/tmp/peerpin-calls-XXXXXX", results[64];

	require(mkdtemp(folder));
	snprintf(results, sizeof(results), "%s/results", folder);
	require(!setenv("PEERPIN_STATS_FILE", results, 1) && !setenv("XDG_RUNTIME_DIR", folder, 1));
}

static void become(const struct program *program, unsigned int number, int output)
{
	const char *as = directive(program, "as ");
	char text[16], name[64];

	dup2(output, STDERR_FILENO);
	put_settings(program->settings, directive(program, "behind "));
	if (directive(program, "bound\n"))
		bind_to_first();
	if (directive(program, "files\n"))
		put_files();
	snprintf(text, sizeof(text), "%u", number);
	snprintf(name, sizeof(name), "%.*s", as ? (int)strcspn(as, "\n") : 5, as ? as : "calls");
	execl("/proc/self/exe", name, rows_path, "--run", text, (char *)NULL);
	_exit(127);
}

/* Exit handlers run where a test looks at what they leave. */
static int be(unsigned int number, bool handlers)
{
	struct program program;

	require(find_program(number, &program));
	alarm(getenv("CALLS_SECONDS") ? (unsigned int)atoi(getenv("CALLS_SECONDS")) : TIME_OUT);
	if (!directive(&program, "bare\n"))
		set_up();
	language_run(program.text, program.name, program.line);
	if (!handlers)
		_exit(0);
	return EXIT_SUCCESS;
}

/* ---- all ---- */

static struct running {
	struct program program;
	unsigned int number;
	pid_t process; /* 0: none */
	FILE *output;  /* its standard error */
} running[AT_ONCE];

static void begin(struct running *slot, const struct program *program, unsigned int number)
{
	*slot = (struct running){ .program = *program, .number = number, .output = tmpfile() };
	require(slot->output);
	fflush(stdout);
	slot->process = fork();
	require(slot->process >= 0);
	if (!slot->process)
		become(program, number, fileno(slot->output));
}

/* "ends STATUS [TEXT]": below 0 a signal; the text is in its output. */
static bool finish(struct running *slot, int status)
{
	const char *ends = directive(&slot->program, "ends "), *text = NULL;
	char output[16384] = "", wanted[128] = "";
	int expected = ends ? atoi(ends) : 0;
	bool good = expected < 0 ? WIFSIGNALED(status) && WTERMSIG(status) == -expected
				 : WIFEXITED(status) && WEXITSTATUS(status) == expected;

	rewind(slot->output);
	output[fread(output, 1, sizeof(output) - 1, slot->output)] = '\0';
	fclose(slot->output);
	if (ends)
		text = ends + strcspn(ends, " \n");
	if (text && *text == ' ')
		snprintf(wanted, sizeof(wanted), "%.*s", (int)strcspn(text + 1, "\n"), text + 1);
	good = good && strstr(output, wanted);
	printf("%s %u %s\n", good ? "ok" : "not ok", slot->number + 1, slot->program.name);
	if (!good)
		printf("# status 0x%x\n# %s\n", (unsigned int)status, output);
	slot->process = 0;
	return good;
}

static bool is_chosen(const struct program *program, char **texts)
{
	bool chosen = !*texts;

	for (; *texts; texts++)
		chosen |= strstr(program->name, *texts) != NULL;
	return chosen;
}

static int run_all(char **texts)
{
	unsigned int next = 0, busy = 0, failed = 0, chosen = 0, slot = 0;
	struct program program;
	bool more = true;
	int status;
	pid_t ended;

	while (more || busy) {
		while (more && busy < AT_ONCE) {
			more = find_program(next++, &program);
			if (!more || !is_chosen(&program, texts))
				continue;
			for (slot = 0; running[slot].process;)
				slot++;
			begin(&running[slot], &program, next - 1);
			busy++;
			chosen++;
		}
		ended = busy ? wait(&status) : 0;
		for (slot = 0; slot < AT_ONCE && ended > 0; slot++) {
			if (running[slot].process != ended)
				continue;
			failed += !finish(&running[slot], status);
			busy--;
		}
	}
	printf("1..%u\n", chosen);
	return failed || !chosen ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* The first row of that name. */
static unsigned int number_of(const char *name)
{
	struct program program;
	unsigned int number = 0;

	do {
		require(find_program(number++, &program));
	} while (strncmp(program.name, name, strlen(name)) != 0);
	return number - 1;
}

int main(int count, char **arguments)
{
	require(count > 1);
	rows_path = arguments[1];
	find_rows(read_file(rows_path));
	if (count == 4 && !strcmp(arguments[2], "--run"))
		return be((unsigned int)atoi(arguments[3]), false);
	if (count == 4 && !strcmp(arguments[2], "--only"))
		return be(number_of(arguments[3]), true);
	return run_all(arguments + 2);
}
