/* SPDX-License-Identifier: BSD-3-Clause */
/* config.h -- interface between the parts of peerpin-config
 *
 * A setting is a row of base/config.def with its texts and its current value. PEERPIN_CONFIG_FILE
 * has no row: its number is CONFIG_ITSELF, below the CONFIG_ROWS rows.
 */
#ifndef PEERPIN_TOOLS_CONFIG_H
#define PEERPIN_TOOLS_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config_reader.h"

#define CONFIG_ITSELF (-1)

struct setting {
	const char *group;
	const char *variable;
	const char *allowed;
	const char *meaning;
	bool takes_value; /* as an option; false: a switch */
	char option[64];  /* "--min-size" */
	enum config_kind kind;
	char value[4096];  /* current */
	char initial[64];  /* default */
	char source[4200]; /* source of the value, as text */
	struct config_place place;
	bool differs;  /* from the default */
	bool selected; /* print this setting */
};

/* From CONFIG_ITSELF to CONFIG_ROWS - 1. */
struct setting *setting_get(int number);

/* Fill in the current values. `file`: PEERPIN_CONFIG_FILE, from `origin`; NULL: none. */
void settings_fill(const struct config *config, const struct config_place *places, const char *file,
		   enum config_origin origin);

/* Print the selected settings on standard output. */
void print_table(void);
void print_values(const struct setting *const *named, size_t count); /* 0: in the table's order */
void print_markdown(void);
void print_manual(void);
void print_options(void);
bool print_json(char *const *complaints, size_t count); /* false: built without jansson */

/* Return 0 if `library` can be preloaded into the command's programs: the first word's, or those
 * that a launcher starts. Otherwise print the reason on standard error, and return 1 for the first
 * word's program, 2 for one that a launcher starts. */
int inspect(char **command, const char *library);

/* True if the file that `program` names, in PATH or by a path, is linked to a shared runtime of
 * AddressSanitizer: such a program refuses to start behind another preload. */
bool inspect_has_asan(const char *program);

#endif
