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
 * calls opens no file. The environment is that of the moment when the library was loaded (start.h).
 * If a file disables peerpin, dlsym still returns the entry points, which then forward every call.
 *
 * Any thread. config_get() waits only for a thread that reads the files, which are short.
 */
#ifndef PEERPIN_BASE_CONFIG_H
#define PEERPIN_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomics.h"

/* A LIMIT, or a SHARE, that peerpin determines itself. */
#define CONFIG_AUTO UINT64_MAX

/* Flag of a SHARE that is a percentage; the other bits are its number. */
#define CONFIG_SHARE (UINT64_C(1) << 63)

enum preregister { PREREGISTER_AUTO, PREREGISTER_EAGER, PREREGISTER_OFF };
enum summary_mode { SUMMARY_NONE, SUMMARY_AUTO, SUMMARY_TABLE, SUMMARY_LINE };
enum log_level { LOG_NONE, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

/* Type of each kind. Texts point into the copied environment (start.h) or into the text of a file;
 * NULL: not set, or empty. */
#define CONFIG_TYPE_BOOL	bool
#define CONFIG_TYPE_SIZE	uint64_t
#define CONFIG_TYPE_LIMIT	uint64_t
#define CONFIG_TYPE_SHARE	uint64_t
#define CONFIG_TYPE_TEXT	const char *
#define CONFIG_TYPE_FILE_NAME	const char * /* a pattern */
#define CONFIG_TYPE_PREREGISTER enum preregister
#define CONFIG_TYPE_LEVEL	enum log_level
#define CONFIG_TYPE_SUMMARY	enum summary_mode

/* `disable` is set by PEERPIN_INCLUDE and PEERPIN_EXCLUDE too. */
struct config {
#define CONFIG(field, variable, kind, initial, allowed, meaning) CONFIG_TYPE_##kind field;
#include "base/config.def"
};

/* NULL until the files have been read. For config_get() alone. */
extern _Atomic(const struct config *) config_settled;
const struct config *config_settle(void);

/* Return the settings from all sources. The first caller reads the files. */
static inline const struct config *config_get(void)
{
	const struct config *config = load_acquire(&config_settled);

	return __builtin_expect(config != NULL, 1) ? config : config_settle();
}

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
