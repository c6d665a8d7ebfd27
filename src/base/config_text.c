/* SPDX-License-Identifier: BSD-3-Clause */
/* config_text.c -- writes settings as they would be given */
#include "base/config_text.h"

#include "base/config_reader.h"
#include "base/system.h"
#include "base/text.h"

static const void *field_of(const struct config *config, const struct config_row *row)
{
	return (const char *)config + row->offset;
}

/* The value as a text, in `room` where it is none by itself. */
static const char *value_of(const struct config *config, const struct config_row *row, char *room,
			    size_t size)
{
	const void *field = field_of(config, row);
	const char *text;

	switch (row->kind) {
	case BOOL:
		return *(const bool *)field ? "1" : "0";
	case LIMIT:
		if (*(const uint64_t *)field == CONFIG_AUTO)
			return "auto";
		/* fall through */
	case SIZE:
		system_format(room, size, "%llu", (unsigned long long)*(const uint64_t *)field);
		return room;
	case TEXT:
	case FILE_NAME:
		text = *(const char *const *)field;
		return text ? text : "";
	default:
		return config_word(row->kind, *(const unsigned int *)field);
	}
}

unsigned int config_text_changed(const struct config *config, char separator, char *to, size_t size)
{
	unsigned int changed = 0;
	char room[24], other[24];
	size_t used = 0;

	if (size)
		*to = '\0';
	for (unsigned int i = 0; i < CONFIG_ROWS; i++) {
		const struct config_row *row = &config_table[i];
		const char *value = value_of(config, row, room, sizeof(room));
		int added;

		if (text_equals(value, value_of(&config_defaults, row, other, sizeof(other))))
			continue;
		added = system_format(to + used, size - used, "%s%s=%s",
				      changed ? (const char[]){ separator, '\0' } : "",
				      row->variable, value);
		changed++;
		/* One that does not fit is left out, not cut. */
		if (added > 0 && (size_t)added < size - used)
			used += (size_t)added;
		else
			to[used] = '\0';
	}
	return changed;
}
