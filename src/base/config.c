/* SPDX-License-Identifier: BSD-3-Clause */
/* config.c -- reads the settings when needed and keeps them */
#include "base/config.h"

#include <errno.h>
#include <sys/auxv.h>
#include <string.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/config_reader.h"
#include "base/kernel.h"
#include "base/loaded.h"
#include "base/log.h"
#include "base/once.h"
#include "base/start.h"
#include "base/text.h"

_Atomic(const struct config *) config_settled;
static struct config settled;
static once settling;

/* Messages about settings, kept until activation: a process without CUDA logs nothing. */
static char complaints[4096];
static size_t complaints_used;
static unsigned int complaints_lost;
static char named_file[4096]; /* PEERPIN_CONFIG_FILE */
static int system_file_error, named_file_error;

static _Atomic unsigned char disabled_early AT_START_DATA;
enum { EARLY_UNKNOWN, EARLY_ENABLED, EARLY_DISABLED };

/* Threads at the same time read the same: none waits for another, which a child would not have. */
static AT_START __attribute__((noinline, cold)) unsigned char config_read_early(void)
{
	struct config early = config_defaults;
	struct config_reader reader = { .config = &early };
	unsigned char answer;

	config_read_environment(&reader, loaded_auxiliary(AT_SECURE) ? NULL : start_environment());
	log_set_limit_early(early.log_level);
	answer = early.disable ? EARLY_DISABLED : EARLY_ENABLED;
	store_relaxed(&disabled_early, answer);
	return answer;
}

AT_START bool config_is_disabled_early(void)
{
	unsigned char answer = load_relaxed(&disabled_early);

	if (__builtin_expect(answer == EARLY_UNKNOWN, 0))
		answer = config_read_early();
	return answer == EARLY_DISABLED;
}

static void config_keep_complaint(const char *line)
{
	size_t length = text_length(line) + 1;

	if (complaints_used + length > sizeof(complaints)) {
		complaints_lost++;
		return;
	}
	text_copy(complaints + complaints_used, length, line);
	complaints_used += length;
}

/* Match a name with a pattern of a list; the pattern ends at a comma. After a mismatch only the
 * last star takes one more character: the stars before it have the shortest match, which leaves the
 * most. The time is the product of both lengths at most. */
static bool config_matches(const char *name, const char *pattern)
{
	const char *star = NULL,
		   *taken = NULL; /* behind the last star; its part of the name ends */

	while (*name) {
		if (*pattern == '*') {
			star = ++pattern;
			taken = name;
		} else if (*pattern == *name && *pattern != ',') {
			pattern++;
			name++;
		} else if (star) {
			pattern = star;
			name = ++taken;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern || *pattern == ',';
}

bool config_is_listed(const char *name, const char *list)
{
	while (list) {
		if (config_matches(name, list))
			return true;
		list = text_find(list, ',');
		list = list ? list + 1 : NULL;
	}
	return false;
}

bool config_excludes(const struct config *config, const char *program)
{
	return (config->include && !config_is_listed(program, config->include)) ||
	       config_is_listed(program, config->exclude);
}

/* Look up no symbol here: a waiting thread may hold the dynamic linker's lock. */
static void config_read(void)
{
	static char system_text[CONFIG_FILE_MOST + 1], named_text[CONFIG_FILE_MOST + 1];
	static struct config_place places[CONFIG_ROWS];
	struct config_reader reader = { .config = &settled,
					.places = places,
					.complain = config_keep_complaint };
	const char *name;
	ssize_t length;

	settled = config_defaults;
	complaints_used = 0;
	complaints_lost = 0;
	if (loaded_auxiliary(AT_SECURE))
		return; /* config_is_disabled_early() set the log limit of the defaults */
	system_file_error = config_read_file(&reader, CONFIG_SYSTEM_FILE, system_text);
	name = start_variable("PEERPIN_CONFIG_FILE");
	if (name && *name) {
		length = start_folder(name, named_file, sizeof(named_file));
		length = length < 0 ? 0 : length;
		text_copy(named_file + length, sizeof(named_file) - (size_t)length, name);
		named_file_error = config_read_file(&reader, named_file, named_text);
	}
	config_read_environment(&reader, start_environment());
	if (config_excludes(&settled, start_program()))
		settled.disable = true;
	log_set_limit(settled.log_level);
}

const struct config *config_settle(void)
{
	start_record(NULL);
	if (once_begin(&settling)) {
		config_read();
		store_release(&config_settled, &settled);
		once_end(&settling);
	}
	return &settled;
}

void config_report(void)
{
	config_get();
	if (system_file_error && system_file_error != -ENOENT && system_file_error != -ENOTDIR)
		log_message(LOG_WARN, "%s: cannot be read: %s", CONFIG_SYSTEM_FILE,
			    strerror(-system_file_error));
	if (named_file_error)
		log_message(LOG_WARN,
			    "PEERPIN_CONFIG_FILE=%s: cannot be read: %s. Name a file of settings.",
			    named_file, strerror(-named_file_error));
	for (const char *line = complaints; line < complaints + complaints_used;
	     line += text_length(line) + 1)
		log_message(LOG_WARN, "%s", line);
	if (complaints_lost)
		log_message(LOG_WARN, "and %u more complaints about settings; see peerpin config",
			    complaints_lost);
}
