/* SPDX-License-Identifier: BSD-3-Clause */
/* config.h -- what the parts of peerpin-config share
 *
 * A setting is a row of base/config.def with what only people need of it, and with what holds now.
 * The number of rows is CONFIG_ROWS; PEERPIN_CONFIG_FILE, which is none, comes before them as
 * number CONFIG_ITSELF.
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
	bool takes_value; /* as an option; the others are given bare */
	char option[64];  /* "--min-size" */
	enum config_kind kind;
	char value[4096];  /* what holds */
	char initial[64];  /* what is built in */
	char source[4200]; /* where the value comes from, for people */
	struct config_place place;
	bool differs;  /* from what is built in */
	bool selected; /* to be printed */
};

/* From CONFIG_ITSELF to CONFIG_ROWS - 1. */
struct setting *setting_get(int number);

/* Fills in what holds. `file` is what PEERPIN_CONFIG_FILE says, from `origin`; NULL: nothing. */
void settings_fill(const struct config *config, const struct config_place *places, const char *file,
		   enum config_origin origin);

/* Each prints those that are selected on standard output. */
void print_table(void);
void print_values(void);
void print_markdown(void);
void print_manual(void);
void print_options(void);
bool print_json(char *const *complaints, size_t count); /* false: it was built without */

/* Says on standard error, in one line, if `library` cannot get into this program; false if so. */
bool inspect(const char *program, const char *library);

#endif
