/* SPDX-License-Identifier: BSD-3-Clause */
/* config.c -- when which source is read, and what is kept of it for the life of the process */
#include "base/config.h"

#include <errno.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/config_reader.h"
#include "base/kernel.h"
#include "base/log.h"
#include "base/system.h"
#include "base/text.h"

static struct config early, settled;
static int reading; /* of the environment: 0 not yet, 1 somebody is, 2 done */
static int settler; /* 0 the files are not read; the process that reads them; -1 done */

/* What there is to complain of, kept until somebody has found something to do. */
static char complaints[4096];
static size_t complaints_used;
static unsigned int complaints_lost;
static const char *own_file; /* what PEERPIN_CONFIG_FILE names */
static int system_file_error, own_file_error;

static char *const *trusted_environment(void)
{
	return getauxval(AT_SECURE) ? NULL : environ;
}

const struct config *config_early(void)
{
	int state = 0;

	if (__builtin_expect(__atomic_load_n(&reading, __ATOMIC_ACQUIRE) == 2, 1))
		return &early;
	if (__atomic_compare_exchange_n(&reading, &state, 1, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE)) {
		struct config_reader reader = { .config = &early };

		early = config_defaults;
		config_read_environment(&reader, trusted_environment());
		log_set_limit(early.log_level);
		__atomic_store_n(&reading, 2, __ATOMIC_RELEASE);
		return &early;
	}
	/* Another thread is at it; it calls nothing that could wait for us. */
	while (__atomic_load_n(&reading, __ATOMIC_ACQUIRE) != 2)
		;
	return &early;
}

static void keep_complaint(const char *line)
{
	size_t length = text_length(line) + 1;

	if (complaints_used + length > sizeof(complaints)) {
		complaints_lost++;
		return;
	}
	for (size_t i = 0; i < length; i++)
		complaints[complaints_used + i] = line[i];
	complaints_used += length;
}

/* A program name and one of the patterns of a list, which ends at a comma. */
static bool is_like(const char *name, const char *pattern)
{
	for (; *pattern && *pattern != ','; pattern++, name++) {
		if (*pattern == '*') {
			do {
				if (is_like(name, pattern + 1))
					return true;
			} while (*name++);
			return false;
		}
		if (!*name || *name != *pattern)
			return false;
	}
	return !*name;
}

static bool is_listed(const char *program, const char *list)
{
	while (list) {
		if (is_like(program, list))
			return true;
		list = text_find(list, ',');
		list = list ? list + 1 : NULL;
	}
	return false;
}

bool config_leaves_out(const struct config *config, const char *program)
{
	return (config->include && !is_listed(program, config->include)) ||
	       is_listed(program, config->exclude);
}

/* Others wait, and one of them may hold the dynamic linker's lock: so nothing is looked up here. */
static void settle(const char *program)
{
	static char system_text[CONFIG_FILE_MOST + 1], own_text[CONFIG_FILE_MOST + 1];
	struct config_reader reader = { .config = &settled, .complain = keep_complaint };

	settled = config_defaults;
	complaints_used = 0;
	complaints_lost = 0;
	if (getauxval(AT_SECURE))
		return; /* the limit of the log is that of the defaults, as it was read early */
	system_file_error = config_read_file(&reader, CONFIG_SYSTEM_FILE, system_text);
	own_file = system_environment("PEERPIN_CONFIG_FILE");
	if (own_file && *own_file)
		own_file_error = config_read_file(&reader, own_file, own_text);
	config_read_environment(&reader, environ);
	if (config_leaves_out(&settled, program))
		settled.disable = true;
	log_set_limit(settled.log_level);
}

/* The reader leaves its process behind, so that the child of a fork during it, in which that thread
 * does not go on, reads for itself. */
static const struct config *settle_once(void)
{
	const char *program = system_program();
	int me = kernel_process(), state = 0;

	system_prepare();
	while (state != -1) {
		if (state == me) {
			syscall(SYS_sched_yield);
			state = __atomic_load_n(&settler, __ATOMIC_ACQUIRE);
		} else if (__atomic_compare_exchange_n(&settler, &state, me, false,
						       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			settle(program);
			__atomic_store_n(&settler, -1, __ATOMIC_RELEASE);
			state = -1;
		}
	}
	return &settled;
}

const struct config *config_get(void)
{
	if (__builtin_expect(__atomic_load_n(&settler, __ATOMIC_ACQUIRE) == -1, 1))
		return &settled;
	return settle_once();
}

void config_report(void)
{
	config_get();
	if (system_file_error && system_file_error != ENOENT && system_file_error != ENOTDIR)
		log_message(LOG_WARN, "%s: cannot be read: %s", CONFIG_SYSTEM_FILE,
			    system_error_text(system_file_error));
	if (own_file_error)
		log_message(LOG_WARN,
			    "PEERPIN_CONFIG_FILE=%s: cannot be read: %s. Name a file of settings.",
			    own_file, system_error_text(own_file_error));
	for (const char *line = complaints; line < complaints + complaints_used;
	     line += text_length(line) + 1)
		log_message(LOG_WARN, "%s", line);
	if (complaints_lost)
		log_message(LOG_WARN, "and %u more complaints about settings; see peerpin config",
			    complaints_lost);
}
