/* SPDX-License-Identifier: BSD-3-Clause */
/* config.h -- the settings of this process
 *
 * Where they come from, each counting for more than those before it: what is built in,
 * /etc/peerpin.conf, the file that PEERPIN_CONFIG_FILE names, the environment. An option of the
 * command is the environment by the time it gets here. A bad value counts as if it were not there,
 * so that what the next lower source says holds, and never stops the program: config_report() says
 * so when the library has found something to do. A setuid program gets what is built in; nothing is
 * read for it.
 *
 * There are two readings. The first, of the environment alone, can happen on the first dlsym of the
 * process, before any constructor: it allocates nothing, takes no lock, enters neither libc nor the
 * kernel, and calls nothing that another preload may have replaced (bash has a getenv of its own).
 * The second adds the files, and happens when a setting is first needed by a call of CUDA or verbs;
 * so a process that makes none of those opens no file. What lies between the two, and so knows the
 * environment alone, is what dlsym answers: where a file disables us, dlsym gives our entry points,
 * which then pass everything through.
 *
 * Any thread. config_get() never waits but for another thread that is reading the files, which are
 * short.
 */
#ifndef PEERPIN_BASE_CONFIG_H
#define PEERPIN_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A LIMIT that peerpin determines itself. */
#define CONFIG_AUTO UINT64_MAX

enum preregister { PREREGISTER_AUTO, PREREGISTER_ALL, PREREGISTER_SYNC, PREREGISTER_OFF };
enum summary_mode { SUMMARY_NONE, SUMMARY_AUTO, SUMMARY_TABLE, SUMMARY_LINE };
enum granularity { GRANULARITY_64K, GRANULARITY_2M };
enum access_match { ACCESS_MATCH_EXACT, ACCESS_MATCH_SUPERSET };
enum unique_keys { UNIQUE_KEYS_AUTO, UNIQUE_KEYS_YES, UNIQUE_KEYS_NO };
enum log_level { LOG_NONE, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

/* Texts point into the environment of the start or into what was read of a file; NULL: not set, or
 * empty. */
struct config {
	bool disable; /* true also where PEERPIN_INCLUDE or PEERPIN_EXCLUDE say so */
	const char *include;
	const char *exclude;
	enum preregister preregister;
	uint64_t min_size; /* bytes */
	enum granularity granularity;
	enum access_match access_match;
	enum unique_keys unique_keys;
	const char *domains; /* NULL: learned */
	uint64_t pin_limit;  /* bytes, or CONFIG_AUTO: the size of the GPU's BAR1 */
	bool pointer_queries;
	enum log_level log_level;
	const char *log_file; /* a pattern; NULL: standard error */
	enum summary_mode summary;
	const char *stats_file; /* a pattern */
	const char *trace_file; /* a pattern */
	bool verify;
};

/* The settings from all sources; never NULL. The first caller reads the files. */
const struct config *config_get(void);

/* What the environment alone says; never NULL. For the dlsym path and constructors. */
const struct config *config_early(void);

/* Logs each bad value and each unknown name. Called once, by process_activate(). */
void config_report(void);

/* Whether `include` and `exclude` leave this program, a base name, out. */
bool config_leaves_out(const struct config *config, const char *program);

#endif
