/* SPDX-License-Identifier: BSD-3-Clause */
/* config_reader.h -- from names and values to settings, whatever they come from
 *
 * A reader is given one source after the other, the one that counts least first. What is bad or
 * unknown changes nothing, and is told in one line that names the place, the value and what is
 * allowed. Nothing is allocated; texts are pointed to, not copied. Any thread, each with a reader
 * of its own; but for config_read_file(), in the dlsym path too, if nobody listens to complaints
 * there.
 */
#ifndef PEERPIN_BASE_CONFIG_READER_H
#define PEERPIN_BASE_CONFIG_READER_H

#include "base/config.h"

/* The administrator's file. Not asked of the environment: its place is what makes it the
 * administrator's. */
#define CONFIG_SYSTEM_FILE "/etc/peerpin.conf"
#define CONFIG_SIZE_MOST   (UINT64_C(1) << 50) /* more memory than any host has */
#define CONFIG_FILE_MOST   16384 /* of a file, the rest is left out with a complaint */

enum config_kind {
	BOOL,
	SIZE,
	LIMIT,
	TEXT,
	FILE_NAME,
	PREREGISTER,
	GRANULARITY,
	ACCESS_MATCH,
	UNIQUE_KEYS,
	LEVEL,
	SUMMARY
};

/* The row of each setting, in the table's order. */
enum config_row_number {
#define CONFIG(field, variable, kind, initial, allowed, meaning) CONFIG_ROW_##field,
#include "base/config.def"
	CONFIG_ROWS
};

/* No pointer where a text will do: the dynamic linker relocates each in every process of a job. */
struct config_row {
	char variable[28];
	enum config_kind kind;
	size_t offset; /* in struct config */
	char allowed[104];
};

extern const struct config_row config_table[CONFIG_ROWS];
extern const struct config config_defaults;

/* The word of a kind for this value; NULL: the kind has no such value, or no words. */
const char *config_word(enum config_kind kind, unsigned int value);

enum config_origin {
	CONFIG_BUILT_IN,
	CONFIG_FROM_FILE,
	CONFIG_FROM_ENVIRONMENT,
	CONFIG_FROM_OPTION
};

struct config_place {
	enum config_origin origin;
	const char *file;  /* where it is from a file */
	unsigned int line; /* there, from 1; 0: the file as a whole */
};

struct config_reader {
	struct config *config;
	struct config_place *places;	    /* CONFIG_ROWS of them, told who set what; or NULL */
	void (*complain)(const char *line); /* or NULL */
	struct config_place place;	    /* what is being read */
	unsigned int complaints;	    /* so far */
};

/* One setting; `length` is that of the name, the value ends in a zero byte and stays. Returns
 * whether it is fine. */
bool config_put(struct config_reader *reader, const char *name, size_t length, const char *value);

/* Those entries "NAME=VALUE" that begin with PEERPIN_, up to a NULL. */
void config_read_environment(struct config_reader *reader, char *const *environment);

/* Lines NAME = VALUE; blank ones, and those that begin with #, say nothing. Blanks around both do
 * not count. The text ends in a zero byte, is written to, and stays: values are pointed to. */
void config_read_text(struct config_reader *reader, const char *name, char *text);

/* The same of a file, through `text`, of CONFIG_FILE_MOST + 1 bytes. Returns 0, or the errno value
 * for which it could not be read: what that means is told by the caller, since words for it are not
 * had without the dynamic linker's lock. Leaves errno as it was. */
int config_read_file(struct config_reader *reader, const char *name, char *text);

/* The present name of a variable of version 0.1, or NULL. */
const char *config_renamed(const char *name, size_t length);

/* The known variable that is most like this name, or NULL if none is. */
const char *config_nearest(const char *name, size_t length);

/* How many letters apart two words are, 64 at most. */
unsigned int config_distance(const char *one, size_t length, const char *other);

#endif
