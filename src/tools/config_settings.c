/* SPDX-License-Identifier: BSD-3-Clause */
/* config_settings.c -- table of settings with meanings, options and values as text */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/config.h"

/* Rows in the order of the table, groups between them. */
static const struct {
	const char *group; /* the only text of its line */
	const char *variable;
	const char *allowed;
	const char *meaning;
} lines[] = {
#define CONFIG_GROUP(title)			{ title, NULL, NULL, NULL },
#define CONFIG_FILE(variable, allowed, meaning) { NULL, variable, allowed, meaning },
#define CONFIG(field, variable, kind, initial, allowed, meaning)                                   \
	{ NULL, variable, allowed, meaning },
#include "base/config.def"
};

static struct setting settings[CONFIG_ROWS + 1]; /* the first is PEERPIN_CONFIG_FILE */

/* "PEERPIN_PIN_LIMIT": "--pin-limit" */
static void setting_name_option(struct setting *setting)
{
	char *to = setting->option;

	*to++ = '-';
	*to++ = '-';
	for (const char *from = setting->variable + strlen("PEERPIN_"); *from; from++)
		*to++ = *from == '_' ? '-' : (char)(*from - 'A' + 'a');
}

static void setting_describe(void)
{
	const char *group = NULL;
	int row = 0;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct setting *setting;

		if (lines[i].group) {
			group = lines[i].group;
			continue;
		}
		if (row < CONFIG_ROWS && !strcmp(lines[i].variable, config_table[row].variable)) {
			setting = &settings[1 + row];
			setting->takes_value = config_table[row].kind != BOOL;
			setting->kind = config_table[row].kind;
			row++;
		} else {
			setting = &settings[0];
			setting->takes_value = true;
			setting->kind = FILE_NAME;
		}
		setting->group = group;
		setting->variable = lines[i].variable;
		setting->allowed = lines[i].allowed;
		setting->meaning = lines[i].meaning;
		setting->selected = true;
		setting_name_option(setting);
	}
}

struct setting *setting_get(int number)
{
	if (!settings[0].variable)
		setting_describe();
	return &settings[number + 1];
}

/* Format a size as a setting. */
static void setting_format_size(uint64_t size, char *text, size_t length)
{
	static const char suffixes[] = " KMGT";
	size_t i = 0;

	while (size && !(size % 1024) && i < sizeof(suffixes) - 2) {
		size /= 1024;
		i++;
	}
	snprintf(text, length, "%" PRIu64 "%.*s", size, i ? 1 : 0, &suffixes[i]);
}

static void setting_format_value(const struct config *config, int row, char *text, size_t length)
{
	const void *field = (const char *)config + config_table[row].offset;
	const char *string;

	switch (config_table[row].kind) {
	case BOOL:
		snprintf(text, length, "%d", *(const bool *)field);
		break;
	case LIMIT:
	case SHARE:
		if (*(const uint64_t *)field == CONFIG_AUTO) {
			snprintf(text, length, "auto");
			break;
		}
		if (*(const uint64_t *)field & CONFIG_SHARE) {
			snprintf(text, length, "%d%%",
				 (int)(*(const uint64_t *)field & ~CONFIG_SHARE));
			break;
		}
		/* fall through */
	case SIZE:
		setting_format_size(*(const uint64_t *)field, text, length);
		break;
	case TEXT:
	case FILE_NAME:
		string = *(const char *const *)field;
		snprintf(text, length, "%s", string ? string : "");
		break;
	default:
		snprintf(text, length, "%s",
			 config_word(config_table[row].kind, *(const unsigned int *)field));
	}
}

static void setting_format_place(const struct config_place *place, char *text, size_t length)
{
	static const char *const names[] = {
		[CONFIG_BUILT_IN] = "built in",
		[CONFIG_FROM_ENVIRONMENT] = "environment",
		[CONFIG_FROM_OPTION] = "option",
	};

	if (place->origin == CONFIG_FROM_FILE)
		snprintf(text, length, "%s:%u", place->file, place->line);
	else
		snprintf(text, length, "%s", names[place->origin]);
}

void settings_fill(const struct config *config, const struct config_place *places, const char *file,
		   enum config_origin origin)
{
	for (int i = CONFIG_ITSELF; i < CONFIG_ROWS; i++) {
		struct setting *setting = setting_get(i);

		if (i == CONFIG_ITSELF) {
			snprintf(setting->value, sizeof(setting->value), "%s", file ? file : "");
			setting->place.origin = file ? origin : CONFIG_BUILT_IN;
		} else {
			setting_format_value(config, i, setting->value, sizeof(setting->value));
			setting_format_value(&config_defaults, i, setting->initial,
					     sizeof(setting->initial));
			setting->place = places[i];
		}
		setting_format_place(&setting->place, setting->source, sizeof(setting->source));
		setting->differs = strcmp(setting->value, setting->initial) != 0;
	}
}
