/* SPDX-License-Identifier: BSD-3-Clause */
/* config_json.c -- settings as JSON */
#include <stdio.h>

#include "tools/config.h"
#include "tools/units.h"

#ifdef WITH_JANSSON
#include <jansson.h>

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
