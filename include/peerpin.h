/* SPDX-License-Identifier: BSD-3-Clause */
/* peerpin.h -- what a program or a test may ask the preloaded library
 *
 * No program needs this: the library works on unmodified ones. A program that wants to know whether it runs
 * under peerpin looks these up with dlsym(RTLD_DEFAULT, ...); they are absent where it is not loaded.
 */
#ifndef PEERPIN_H
#define PEERPIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version, "major.minor.patch"; static, never NULL. */
const char *peerpin_version(void);

/* The counter `name` (a key of the statistics' JSON) of this process, at this moment, through *value.
 * Returns 0, -ENOENT for a name that is none, -EINVAL for a null pointer. Any thread; takes no lock. */
int peerpin_statistic(const char *name, uint64_t *value);

#ifdef __cplusplus
}
#endif

#endif
