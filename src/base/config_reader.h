/* SPDX-License-Identifier: BSD-3-Clause */
/* config_reader.h -- settings as text: reads them from the environment and from files
 *
 * Read the sources in order, the one of least precedence first. An invalid or unknown setting
 * changes nothing; one line reports its source, its value and the allowed values. Nothing is
 * allocated; texts are referenced, not copied. Any thread, each with a reader of its own. Except
 * config_read_file(), also in the dlsym path, without `complain`.
 */
#ifndef PEERPIN_BASE_CONFIG_READER_H
#define PEERPIN_BASE_CONFIG_READER_H

#include "base/config.h"

/* The administrator's file. A fixed name: only the administrator can write there. */
#define CONFIG_SYSTEM_FILE "/etc/peerpin.conf"
#define CONFIG_SIZE_MOST   (UINT64_C(1) << 50) /* above the memory of any host */
/* A lower size is a mistake: 4 is not meant as 4 bytes. */
#define CONFIG_SIZE_LEAST (UINT64_C(1) << 12) /* a page */
#define CONFIG_KEEP_LEAST (UINT64_C(2) << 20) /* a block of GPU memory */
#define CONFIG_FILE_MOST  16384 /* bytes of a file; the rest is ignored, with a message */

enum config_kind {
	BOOL,
	SIZE,
	LIMIT,
	SHARE,
	TEXT,
	FILE_NAME,
#define CONFIG_WORDS(kind, ...) kind,
#include "base/config.def"
};

/* Rows in the order of the table. */
enum config_row_number {
#define CONFIG(field, variable, kind, initial, allowed, meaning) CONFIG_ROW_##field,
#include "base/config.def"
	CONFIG_ROWS
};

/* Arrays instead of pointers: pointers are relocated at each process start. */
struct config_row {
	char variable[28];
	enum config_kind kind;
	size_t offset; /* in struct config */
	char allowed[104];
};

extern const struct config_row config_table[CONFIG_ROWS];
extern const struct config config_defaults;

/* Return the word for this value; NULL: the kind has no such value, or no words. */
const char *config_word(enum config_kind kind, unsigned int value);

/* Set the field of the row. `value` must stay. Return false if invalid. */
bool config_parse(struct config *config, const struct config_row *row, const char *value);

/* Write the meaning of a size that is refused as a mistake: " (4 bytes)"; else "". Return `to`. */
const char *config_mistake(const struct config_row *row, const char *value, char *to, size_t size);

/* Write VARIABLE=VALUE for each setting that differs from its default, separated by `separator`;
 * omit those that do not fit. Return the number of such settings, omitted ones included. */
unsigned int config_text_changed(const struct config *config, char separator, char *to,
				 size_t size);

/* Settings of former versions. */
struct config_gone {
	char variable[28];
	char instead[92];
};

enum config_origin {
	CONFIG_BUILT_IN,
	CONFIG_FROM_FILE,
	CONFIG_FROM_ENVIRONMENT,
	CONFIG_FROM_OPTION
};

struct config_place {
	enum config_origin origin;
	const char *file;  /* of CONFIG_FROM_FILE */
	unsigned int line; /* from 1; 0: the whole file */
};

struct config_reader {
	struct config *config;
	struct config_place *places; /* NULL, or the source of each of CONFIG_ROWS settings */
	void (*complain)(const char *line); /* receives messages; NULL: none */
	struct config_place place;	    /* current source */
	unsigned int complaints;	    /* number of messages */
};

/* Set one setting; `length`: of the name. `value` must stay. Return false if invalid or unknown. */
bool config_put(struct config_reader *reader, const char *name, size_t length, const char *value);

/* Read the entries NAME=VALUE that begin with PEERPIN_, up to NULL. */
void config_read_environment(struct config_reader *reader, char *const *environment);

/* Read lines NAME = VALUE; skip empty lines and those that begin with #. Blanks around names and
 * values are removed. `text` is modified and must stay: values are referenced. */
void config_read_text(struct config_reader *reader, const char *name, char *text);

/* Read the file into `text` (CONFIG_FILE_MOST + 1 bytes), as config_read_text(). Return 0
 * or -errno. The caller reports the error: its text needs the dynamic linker's lock. */
int config_read_file(struct config_reader *reader, const char *name, char *text);

/* Return the most similar variable; NULL: none is similar. */
const char *config_nearest(const char *name, size_t length);

/* Return the edit distance of two words, at most 64. */
unsigned int config_distance(const char *one, size_t length, const char *other);

#endif
