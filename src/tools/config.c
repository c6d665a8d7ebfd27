/* SPDX-License-Identifier: BSD-3-Clause */
/* config.c -- peerpin-config: prints settings, their sources and invalid ones
 *
 * Reads the library's sources, in its order and with its code, then options: to the library these
 * are the environment (`peerpin --pin-limit=1G` sets PEERPIN_PIN_LIMIT). Exit status: 0; 1: an
 * invalid value or name in the environment or a file; 2: wrong use. Only scripts/peerpin uses
 * --check, --check-environment, --nearest, --inspect and --has-asan.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/config.h"
#include "tools/units.h"

#define COMPLAINTS_MAX 256

enum form { FORM_TABLE, FORM_VALUES, FORM_JSON, FORM_MARKDOWN, FORM_MANUAL, FORM_OPTIONS };

static const struct {
	const char *option;
	enum form form;
} forms[] = {
	{ "--value", FORM_VALUES }, { "--json", FORM_JSON },	   { "--md", FORM_MARKDOWN },
	{ "--man", FORM_MANUAL },   { "--options", FORM_OPTIONS },
};

static const char *const other_options[] = { "--changed", "--system-file", "--help", "--version" };

/* Command line. */
static struct {
	enum form form;
	bool changed;		      /* print only settings that differ from the default */
	const struct setting **named; /* print these only, if any; values in this order */
	size_t named_count;
	const char *file;   /* --config-file */
	const char *system; /* --system-file */
	const char *values[CONFIG_ROWS];
} request = { .system = CONFIG_SYSTEM_FILE };

static char *complaints[COMPLAINTS_MAX];
static size_t complaint_count;

/* ---- the option most similar to an unknown one ---- */

/* A search for the candidate most similar to the word, up to its equals sign. */
struct nearest {
	const char *word;
	size_t length;
	unsigned int best;
	const char *answer;
};

static void nearest_compare(struct nearest *nearest, const char *candidate)
{
	unsigned int apart = config_distance(nearest->word, nearest->length, candidate);

	/* A word that was left unfinished is as near as one with a wrong letter. */
	if (apart > 1 && nearest->length > 2 && !strncmp(nearest->word, candidate, nearest->length))
		apart = 1;
	if (apart < nearest->best) {
		nearest->best = apart;
		nearest->answer = candidate;
	}
}

/* The limit of the distance excludes that any two words of 3 letters are similar. */
static struct nearest nearest_begin(const char *word)
{
	size_t length = strcspn(word, "=");

	return (struct nearest){ .word = word, .length = length, .best = length < 8 ? 3 : 4 };
}

/* Compare all options of settings. */
static void nearest_compare_settings(struct nearest *nearest)
{
	static char negated[CONFIG_ROWS + 1][80];

	for (int i = CONFIG_ITSELF; i < CONFIG_ROWS; i++) {
		const struct setting *setting = setting_get(i);

		nearest_compare(nearest, setting->option);
		if (setting->takes_value)
			continue;
		snprintf(negated[i + 1], sizeof(negated[0]), "--no-%s", setting->option + 2);
		nearest_compare(nearest, negated[i + 1]);
	}
}

/* ---- the command line ---- */

static const char help[] =
	"usage: peerpin config [options] [NAME...]\n"
	"\n"
	"Prints each setting, or those named, with its value, where that comes from, its default "
	"and what it "
	"means.\n"
	"Options of peerpin may be given, to see what would hold: peerpin config --pin-limit=1G.\n"
	"\n"
	"  --changed           only what differs from the default\n"
	"  --value             values alone, one a line, in the order of the names\n"
	"  --json, --md        all of it as JSON, or the list as a Markdown table\n"
	"  --man               the list for a manual page\n"
	"  --options           the options that peerpin has for settings, one a line\n"
	"  --system-file FILE  in the place of " CONFIG_SYSTEM_FILE "\n"
	"  -h, --help          print this\n"
	"  --version           print the version\n"
	"\n"
	"Exit status: 0; 1 if a value or a name in the environment or in a file is bad; 2 for a "
	"wrong use: "
	"an\n"
	"unknown NAME, an unknown option or a bad value of one, or standard output that cannot be "
	"written.\n";

static _Noreturn void config_wrong_use(const char *what, const char *word, const char *hint)
{
	fprintf(stderr, "peerpin config: %s%s%s%s%s\n", what, word, hint ? ": did you mean " : "",
		hint ? hint : " (see peerpin config --help)", hint ? "?" : "");
	exit(2);
}

/* Report a failed write to standard output. */
static int config_finish(int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	fprintf(stderr, "peerpin config: standard output: %s\n", strerror(errno));
	return 2;
}

static void config_keep_complaint(const char *line)
{
	if (complaint_count < COMPLAINTS_MAX)
		complaints[complaint_count++] = strdup(line);
}

/* Return the setting of an option; CONFIG_ROWS: none. *value: value after the equals sign, or of a
 * switch; else NULL. */
static int config_find_option(const char *word, const char **value)
{
	size_t length = strcspn(word, "=");

	*value = word[length] ? word + length + 1 : NULL;
	for (int i = CONFIG_ITSELF; i < CONFIG_ROWS; i++) {
		const struct setting *setting = setting_get(i);

		if (strlen(setting->option) == length && !strncmp(setting->option, word, length)) {
			if (!setting->takes_value && !*value)
				*value = "1";
			return i;
		}
		if (!setting->takes_value && !strncmp(word, "--no-", 5) &&
		    !strcmp(word + 5, setting->option + 2)) {
			*value = "0";
			return i;
		}
	}
	return CONFIG_ROWS;
}

/* `name`: PEERPIN_PIN_LIMIT, PIN_LIMIT, pin_limit or pin-limit. */
static void config_select_name(const char *name)
{
	struct nearest nearest;
	char option[80] = "--", *to = option + 2;

	if (!strncmp(name, "PEERPIN_", 8))
		name += 8;
	for (const char *from = name; *from && to < option + sizeof(option) - 1; from++)
		*to++ = *from == '_'
				? '-'
				: (char)(*from >= 'A' && *from <= 'Z' ? *from - 'A' + 'a' : *from);
	if (!request.named_count) {
		for (int i = CONFIG_ITSELF; i < CONFIG_ROWS; i++)
			setting_get(i)->selected = false;
	}
	for (int i = CONFIG_ITSELF; i < CONFIG_ROWS; i++) {
		if (!strcmp(setting_get(i)->option, option)) {
			setting_get(i)->selected = true;
			request.named[request.named_count++] = setting_get(i);
			return;
		}
	}
	nearest = nearest_begin(option);
	for (int i = CONFIG_ITSELF; i < CONFIG_ROWS; i++)
		nearest_compare(&nearest, setting_get(i)->option);
	for (int i = CONFIG_ITSELF; i < CONFIG_ROWS; i++) {
		if (nearest.answer == setting_get(i)->option)
			nearest.answer = setting_get(i)->variable;
	}
	config_wrong_use("unknown setting: ", name, nearest.answer);
}

static _Noreturn void config_unknown_option(const char *word)
{
	struct nearest nearest = nearest_begin(word);

	nearest_compare_settings(&nearest);
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		nearest_compare(&nearest, forms[i].option);
	for (size_t i = 0; i < sizeof(other_options) / sizeof(other_options[0]); i++)
		nearest_compare(&nearest, other_options[i]);
	config_wrong_use("unknown option: ", word, nearest.answer);
}

/* Read an option and its value. Return the number of words. */
static int config_read_option(char *const *words)
{
	const char *value;
	int row;

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (!strcmp(*words, forms[i].option)) {
			request.form = forms[i].form;
			return 1;
		}
	}
	if (!strcmp(*words, "--help") || !strcmp(*words, "-h")) {
		fputs(help, stdout);
		exit(config_finish(0));
	}
	if (!strcmp(*words, "--version")) {
		puts("peerpin " PACKAGE_VERSION);
		exit(config_finish(0));
	}
	if (!strcmp(*words, "--changed")) {
		request.changed = true;
		return 1;
	}
	if (!strncmp(*words, "--system-file=", 14)) {
		request.system = *words + 14;
		return 1;
	}
	row = strcmp(*words, "--system-file") ? config_find_option(*words, &value) : CONFIG_ROWS;
	if (row == CONFIG_ROWS && strcmp(*words, "--system-file"))
		config_unknown_option(*words);
	if (row != CONFIG_ROWS && value) {
		*(row == CONFIG_ITSELF ? &request.file : &request.values[row]) = value;
		return 1;
	}
	if (!words[1])
		config_wrong_use("a value is missing after ", *words, NULL);
	if (row == CONFIG_ROWS)
		request.system = words[1];
	else
		*(row == CONFIG_ITSELF ? &request.file : &request.values[row]) = words[1];
	return 2;
}

static void config_refuse(const struct config_row *row, const char *name, const char *value)
{
	char mistake[32];

	fprintf(stderr, "peerpin: %s=%s%s is not allowed (%s)\n", name, value,
		config_mistake(row, value, mistake, sizeof(mistake)), row->allowed);
}

/* An invalid option is a wrong use: the user is present. */
static void config_read_values(struct config_reader *reader)
{
	size_t before = complaint_count;

	reader->place = (struct config_place){ .origin = CONFIG_FROM_OPTION };
	for (int i = 0; i < CONFIG_ROWS; i++) {
		const struct config_row *row = &config_table[i];

		if (!request.values[i] ||
		    config_put(reader, row->variable, strlen(row->variable), request.values[i]))
			continue;
		config_refuse(row, setting_get(i)->option, request.values[i]);
	}
	if (complaint_count > before)
		exit(2);
}

/* Check the settings in the environment that no option replaces, and print invalid ones. The
 * library reports unknown names. */
static bool config_check_environment(void)
{
	struct config config;
	struct config_reader reader = { .config = &config };
	const char *file = getenv("PEERPIN_CONFIG_FILE");
	bool allowed = !file || !*file || !access(file, R_OK);

	if (!allowed)
		fprintf(stderr, "peerpin: PEERPIN_CONFIG_FILE=%s: it cannot be read\n", file);
	for (int i = 0; i < CONFIG_ROWS; i++) {
		const struct config_row *row = &config_table[i];
		const char *value = getenv(row->variable);

		if (!value || request.values[i] ||
		    config_put(&reader, row->variable, strlen(row->variable), value))
			continue;
		config_refuse(row, row->variable, value);
		allowed = false;
	}
	return allowed;
}

static void config_complain_of_file(const char *name, int error)
{
	char line[4200];

	if (!error)
		return;
	snprintf(line, sizeof(line), "%s: cannot be read: %s", name, strerror(-error));
	config_keep_complaint(line);
}

static int config_show_settings(void)
{
	static char system_text[CONFIG_FILE_MOST + 1], own_text[CONFIG_FILE_MOST + 1];
	static struct config_place places[CONFIG_ROWS];
	struct config config = config_defaults;
	struct config_reader reader = { .config = &config,
					.places = places,
					.complain = config_keep_complaint };
	const char *file = request.file ? request.file : getenv("PEERPIN_CONFIG_FILE");
	int error = config_read_file(&reader, request.system, system_text);

	if (error != -ENOENT && error != -ENOTDIR)
		config_complain_of_file(request.system, error);
	if (file && *file)
		config_complain_of_file(file, config_read_file(&reader, file, own_text));
	else
		file = NULL;
	config_read_environment(&reader, environ);
	config_read_values(&reader);
	settings_fill(&config, places, file,
		      request.file ? CONFIG_FROM_OPTION : CONFIG_FROM_ENVIRONMENT);
	for (int i = CONFIG_ITSELF; request.changed && i < CONFIG_ROWS; i++) {
		if (!setting_get(i)->differs)
			setting_get(i)->selected = false;
	}
	for (size_t i = 0; i < complaint_count; i++) {
		char *line = clean_text(complaints[i]);

		fprintf(stderr, "peerpin: %s\n", line);
		free(line);
	}
	switch (request.form) {
	case FORM_JSON:
		if (!print_json(complaints, complaint_count))
			return 2;
		break;
	case FORM_VALUES:
		print_values(request.named, request.named_count);
		break;
	case FORM_TABLE:
		print_table();
		break;
	/* These lists do not depend on the values. */
	case FORM_MARKDOWN:
		print_markdown();
		return 0;
	case FORM_MANUAL:
		print_manual();
		return 0;
	case FORM_OPTIONS:
		print_options();
		return 0;
	}
	return complaint_count ? 1 : 0;
}

int main(int count, char **words)
{
	if (count > 2 && !strcmp(words[1], "--nearest")) {
		struct nearest nearest = nearest_begin(words[2]);

		nearest_compare_settings(&nearest);
		for (int i = 3; i < count; i++)
			nearest_compare(&nearest, words[i]);
		if (nearest.answer)
			puts(nearest.answer);
		return config_finish(0);
	}
	if (count > 3 && !strcmp(words[1], "--inspect"))
		return inspect(words + 3, words[2]);
	if (count > 1 && !strcmp(words[1], "--has-asan")) {
		for (int i = 2; i < count; i++) {
			if (inspect_has_asan(words[i]))
				return 0;
		}
		return 1;
	}
	if (count > 1 &&
	    (!strcmp(words[1], "--check") || !strcmp(words[1], "--check-environment"))) {
		struct config config;
		struct config_reader reader = { .config = &config,
						.complain = config_keep_complaint };

		for (int i = 2; i < count;)
			i += config_read_option(words + i);
		config_read_values(&reader);
		return words[1][7] && !config_check_environment() ? 2 : 0;
	}
	request.named = calloc((size_t)count, sizeof(*request.named));
	if (!request.named) {
		perror("peerpin config");
		return 2;
	}
	for (int i = 1; i < count;) {
		if (words[i][0] == '-') {
			i += config_read_option(words + i);
			continue;
		}
		config_select_name(words[i]);
		i++;
	}
	return config_finish(config_show_settings());
}
