/* SPDX-License-Identifier: BSD-3-Clause */
/* config.h -- settings of this process
 *
 * Sources in order of precedence, lowest first: defaults, /etc/peerpin.conf, the file of
 * PEERPIN_CONFIG_FILE, the environment. The launcher turns options into variables. An invalid value
 * is ignored, so the next lower source applies; it never stops the program. A setuid program gets
 * the defaults: its caller controls environment and files.
 *
 * config_is_disabled_early() reads the environment alone. It may run in the first dlsym of the
 * process, before any constructor: it allocates nothing, takes no lock, waits for no thread, calls
 * neither libc nor the kernel, nor a function that another preload may replace (bash has a getenv
 * of its own). config_get() adds the files at the first CUDA or verbs call: a process without such
 * calls opens no file. If a file disables peerpin, dlsym still returns the entry points, which then
 * forward every call.
 *
 * Any thread. config_get() waits only for a thread that reads the files, which are short.
 */
#ifndef PEERPIN_BASE_CONFIG_H
#define PEERPIN_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A LIMIT that peerpin determines itself. */
#define CONFIG_AUTO UINT64_MAX

/* Flag of a SHARE that is a percentage; the other bits are its number. */
#define CONFIG_SHARE (UINT64_C(1) << 63)

enum preregister { PREREGISTER_AUTO, PREREGISTER_ALL, PREREGISTER_SYNC, PREREGISTER_OFF };
enum summary_mode { SUMMARY_NONE, SUMMARY_AUTO, SUMMARY_TABLE, SUMMARY_LINE };
enum granularity { GRANULARITY_64K, GRANULARITY_2M };
enum access_match { ACCESS_MATCH_EXACT, ACCESS_MATCH_SUPERSET };
enum unique_keys { UNIQUE_KEYS_AUTO, UNIQUE_KEYS_YES, UNIQUE_KEYS_NO };
enum domain_policy { DOMAIN_POLICY_LEARNED, DOMAIN_POLICY_ALL, DOMAIN_POLICY_NEAR };
enum log_level { LOG_NONE, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

/* Texts point into the environment or into the text of a file; NULL: not set, or empty. */
struct config {
	bool disable; /* also by PEERPIN_INCLUDE and PEERPIN_EXCLUDE */
	const char *include;
	const char *exclude;
	bool eager;
	enum preregister preregister;
	uint64_t min_size; /* bytes */
	enum granularity granularity;
	enum access_match access_match;
	enum unique_keys unique_keys;
	enum domain_policy domain_policy;
	const char *devices;	 /* NULL: all */
	const char *worker_cpus; /* a list, or "inherit"; NULL: auto */
	uint64_t pin_limit;	 /* bytes, or CONFIG_AUTO: the size of the GPU's BAR1 */
	uint64_t keep;		 /* bytes, or CONFIG_SHARE and a percentage of the GPU's memory */
	uint64_t keep_host;	 /* bytes */
	bool pointer_queries;
	enum log_level log_level;
	const char *log_file; /* a pattern; NULL: standard error */
	enum summary_mode summary;
	const char *stats_file; /* a pattern */
	const char *trace_file; /* a pattern */
	bool verify;
};

/* Return the settings from all sources. The first caller reads the files. */
const struct config *config_get(void);

/* Return true if the environment alone disables peerpin. For the dlsym path and constructors. Sets
 * the limit of log messages until config_get() does. */
bool config_is_disabled_early(void);

/* Log each invalid value and each unknown name. Called once, by process_activate(). */
void config_report(void);

/* Return true if a pattern of the comma-separated list matches: * stands for any text. */
bool config_is_listed(const char *name, const char *list);

/* Return true if `include` or `exclude` disables peerpin in the program (a base name). */
bool config_excludes(const struct config *config, const char *program);

#endif
