/* SPDX-License-Identifier: BSD-3-Clause */
/* config_text.h -- settings as text */
#ifndef PEERPIN_BASE_CONFIG_TEXT_H
#define PEERPIN_BASE_CONFIG_TEXT_H

#include <stddef.h>

#include "base/config.h"

/* Write VARIABLE=VALUE for each setting that differs from its default, separated by `separator`;
 * omit those that do not fit. Return the number of such settings, omitted ones included. */
unsigned int config_text_changed(const struct config *config, char separator, char *to,
				 size_t size);

#endif
