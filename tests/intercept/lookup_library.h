/* SPDX-License-Identifier: BSD-3-Clause */
/* lookup_library.h -- look-ups made from inside a library */
#ifndef PEERPIN_TESTS_LOOKUP_LIBRARY_H
#define PEERPIN_TESTS_LOOKUP_LIBRARY_H

void *library_next(const char *symbol);
void *library_default(const char *symbol);
const char *tool_of_library(void);

#endif
