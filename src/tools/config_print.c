/* SPDX-License-Identifier: BSD-3-Clause */
/* config_print.c -- settings as table, manual page, Markdown, plain values and JSON */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/config.h"
#include "tools/units.h"
#ifdef WITH_JANSSON
#include <jansson.h>
#endif

#define WIDTH 100

static const char *config_print_or_none(const char *value)
{
	return *value ? value : "-";
}

static int config_print_width_of(const char *text, int least)
{
	int length = (int)strlen(text);

	return length > least ? length : least;
}

/* Print words up to column WIDTH, each line indented. */
static void config_print_wrapped(const char *text, int indent)
{
	int column = indent;

	printf("%*s", indent, "");
	while (*text) {
		int length = (int)strcspn(text, " ");

		if (column > indent && column + 1 + length > WIDTH) {
			printf("\n%*s", indent, "");
			column = indent;
		}
		if (column > indent) {
			putchar(' ');
			column++;
		}
		printf("%.*s", length, text);
		column += length;
		text += length;
		text += strspn(text, " ");
	}
	putchar('\n');
}

/* Call `print` for each selected setting, and `head`, if any, before the first of
 * each group. */
static void config_print_each(void (*head)(const char *group),
			      void (*print)(const struct setting *setting))
{
	const char *group = NULL;

	for (int i = CONFIG_ITSELF; i < CONFIG_ROWS; i++) {
		const struct setting *setting = setting_get(i);

		if (!setting->selected)
			continue;
		if (head && setting->group != group)
			head(setting->group);
		group = setting->group;
		print(setting);
	}
}

static int name_width, value_width, source_width;

static void config_print_row(const struct setting *setting)
{
	char allowed[400], *value, *source;

	/* Values may contain control characters. */
	value = clean_text(config_print_or_none(setting->value));
	source = clean_text(setting->source);
	printf("%c %-*s  %-*s  %-*s  %s\n", setting->differs ? '*' : ' ', name_width,
	       setting->variable, value_width, value, source_width, source,
	       config_print_or_none(setting->initial));
	free(value);
	free(source);
	config_print_wrapped(setting->meaning, 6);
	snprintf(allowed, sizeof(allowed), "Allowed: %s", setting->allowed);
	config_print_wrapped(allowed, 6);
}

static void config_print_heading(const char *group)
{
	printf("\n%s\n", group);
}

static bool config_print_none_is_selected(void)
{
	for (int i = CONFIG_ITSELF; i < CONFIG_ROWS; i++) {
		if (setting_get(i)->selected)
			return false;
	}
	return true;
}

void print_table(void)
{
	if (config_print_none_is_selected()) {
		puts("All settings are at their defaults.");
		return;
	}
	name_width = config_print_width_of("NAME", 0);
	value_width = config_print_width_of("VALUE", 0);
	source_width = config_print_width_of("SOURCE", 0);
	for (int i = CONFIG_ITSELF; i < CONFIG_ROWS; i++) {
		const struct setting *setting = setting_get(i);

		if (!setting->selected)
			continue;
		name_width = config_print_width_of(setting->variable, name_width);
		value_width = config_print_width_of(setting->value, value_width);
		source_width = config_print_width_of(setting->source, source_width);
	}
	printf("  %-*s  %-*s  %-*s  DEFAULT\n", name_width, "NAME", value_width, "VALUE",
	       source_width, "SOURCE");
	config_print_each(config_print_heading, config_print_row);
	puts("\n* differs from the default");
}

static void config_print_value(const struct setting *setting)
{
	puts(setting->value);
}

void print_values(const struct setting *const *named, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (named[i]->selected)
			config_print_value(named[i]);
	}
	if (!count)
		config_print_each(NULL, config_print_value);
}

/* Escape a bar, which would end the column. */
static void config_print_put_cell(const char *text)
{
	fputs("| ", stdout);
	for (; *text; text++) {
		if (*text == '|' || *text == '*')
			putchar('\\');
		putchar(*text);
	}
	putchar(' ');
}

static void config_print_markdown_row(const struct setting *setting)
{
	printf("| `%s` | `%s%s` ", setting->variable, setting->option,
	       setting->takes_value ? "=VALUE" : "");
	if (*setting->initial)
		printf("| `%s` ", setting->initial);
	else
		fputs("| - ", stdout);
	config_print_put_cell(setting->allowed);
	config_print_put_cell(setting->meaning);
	puts("|");
}

void print_markdown(void)
{
	puts("| variable | option | default | allowed | meaning |\n| --- | --- | --- | --- | --- "
	     "|");
	config_print_each(NULL, config_print_markdown_row);
}

/* Escape characters that begin a request, and hyphens. */
static void config_print_put_roff(const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", stdout);
	for (; *text; text++) {
		if (*text == '\\')
			fputs("\\e", stdout);
		else if (*text == '-')
			fputs("\\-", stdout);
		else
			putchar(*text);
	}
}

static void config_print_manual_row(const struct setting *setting)
{
	fputs(".TP\n\\fB", stdout);
	config_print_put_roff(setting->variable);
	fputs("\\fR, \\fB", stdout);
	config_print_put_roff(setting->option);
	puts(setting->takes_value ? "=\\fR\\fIVALUE\\fR" : "\\fR");
	config_print_put_roff(setting->meaning);
	fputs("\nAllowed: ", stdout);
	config_print_put_roff(setting->allowed);
	fputs(".\nDefault: ", stdout);
	config_print_put_roff(*setting->initial ? setting->initial : "none");
	puts(".");
}

static void config_print_manual_heading(const char *group)
{
	printf(".SS \"%s\"\n", group);
}

void print_manual(void)
{
	config_print_each(config_print_manual_heading, config_print_manual_row);
}

static void config_print_option(const struct setting *setting)
{
	if (setting->takes_value)
		printf("%s=\n", setting->option);
	else
		printf("%s\n--no-%s\n", setting->option, setting->option + 2);
}

void print_options(void)
{
	config_print_each(NULL, config_print_option);
}

/* ---- JSON ---- */

#ifdef WITH_JANSSON
static json_t *config_json_text_or_null(const char *text)
{
	return *text ? json_string(clean(text)) : json_null();
}

static json_t *config_json_describe(const struct setting *setting)
{
	json_t *words = json_array();
	const char *word;

	for (unsigned int i = 0; (word = config_word(setting->kind, i)); i++)
		json_array_append_new(words, json_string(word));
	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s, s:b, s:s, s:o, s:s}", "name",
			 setting->variable, "option", setting->option, "group", setting->group,
			 "value", config_json_text_or_null(setting->value), "default",
			 config_json_text_or_null(setting->initial), "source",
			 clean(setting->source), "differs", setting->differs, "allowed",
			 setting->allowed, "words", words, "meaning", setting->meaning);
}

bool print_json(char *const *complaints, size_t count)
{
	json_t *settings = json_array(), *lines = json_array(), *document;

	for (int i = CONFIG_ITSELF; i < CONFIG_ROWS; i++) {
		if (setting_get(i)->selected)
			json_array_append_new(settings, config_json_describe(setting_get(i)));
	}
	for (size_t i = 0; i < count; i++)
		json_array_append_new(lines, json_string(clean(complaints[i])));
	document = json_pack("{s:s, s:o, s:o}", "schema", "peerpin-config/1", "settings", settings,
			     "complaints", lines);
	json_dumpf(document, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(document);
	texts_free();
	return true;
}
#else
bool print_json(char *const *complaints, size_t count)
{
	(void)complaints;
	(void)count;
	fputs("peerpin config: --json: peerpin was configured with --disable-tools\n", stderr);
	return false;
}
#endif
