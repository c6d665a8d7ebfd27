/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.c -- linked to the driver: the functions that its references are bound to */
#include "rows.h"

extern const struct functions plugin_functions;
const struct functions plugin_functions = {
#define ENTRY_CUDA(symbol, ...) .symbol = symbol,
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
};
