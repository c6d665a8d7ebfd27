/* SPDX-License-Identifier: BSD-3-Clause */
/* config.h -- the settings of this process, read once from its environment
 *
 * Promises: reading allocates nothing, takes no lock, calls nothing that another preload may have replaced
 * (bash has a getenv of its own), and can happen on the first dlsym of the process, before any constructor.
 * A bad value never stops the program: its default holds, and config_report() says so later, when the
 * library has found something to do. A setuid program gets the defaults. Any thread.
 */
#ifndef PEERPIN_BASE_CONFIG_H
#define PEERPIN_BASE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

enum eager_mode { EAGER_ASYNC, EAGER_SYNC, EAGER_OFF, EAGER_ALL };
enum summary_mode { SUMMARY_NONE, SUMMARY_AUTO, SUMMARY_TABLE, SUMMARY_LINE };
enum small_mode { SMALL_GRANULE, SMALL_BLOCK };
enum rights_mode { RIGHTS_EXACT, RIGHTS_SUPERSET };
enum log_level { LOG_NONE, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

struct config {
	bool disable;
	enum eager_mode eager;
	uint64_t min_size; /* bytes */
	enum small_mode small;
	enum rights_mode rights;
	const char *domains; /* points into the environment of the start; NULL: learned */
	uint64_t budget;     /* bytes; 0: as much as the GPU's BAR1 */
	enum log_level log;
	bool verify;
	bool queries;
	bool host_pointers;
	enum summary_mode summary;
	const char *stats; /* points into the environment of the start, or NULL */
};

/* The settings; never NULL. The first caller reads the environment. */
const struct config *config_get(void);

/* Logs each bad value and each unknown PEERPIN_ variable, once for each process. */
void config_report(void);

/* Reads `environment` (NULL-terminated "NAME=VALUE") into *config, defaults for what it lacks; calls
 * `complain` (may be NULL) with one line for each variable that is bad or unknown. Returns how many. */
unsigned int config_parse(struct config *config, char *const *environment,
			  void (*complain)(const char *line));

#endif
