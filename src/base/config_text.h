/* SPDX-License-Identifier: BSD-3-Clause */
/* config_text.h -- settings as texts again */
#ifndef PEERPIN_BASE_CONFIG_TEXT_H
#define PEERPIN_BASE_CONFIG_TEXT_H

#include <stddef.h>

#include "base/config.h"

/* Writes VARIABLE=VALUE for each setting that is not its default, with `separator` between them, as
 * many as there is room for. Returns how many they are. */
unsigned int config_text_changed(const struct config *config, char separator, char *to,
				 size_t size);

#endif
