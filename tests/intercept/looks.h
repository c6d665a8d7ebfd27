/* SPDX-License-Identifier: BSD-3-Clause */
/* looks.h -- look-ups made from inside a library */
#ifndef PEERPIN_TESTS_LOOKS_H
#define PEERPIN_TESTS_LOOKS_H

void *looks_next(const char *symbol);
void *looks_default(const char *symbol);
const char *tool_of_looks(void);

#endif
