/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.c -- a library linked to the driver: the targets of its references */
#include "rows.h"

extern const struct functions plugin_functions;
const struct functions plugin_functions = {
#define ENTRY_CUDA(symbol, ...) .symbol = symbol,
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
};
