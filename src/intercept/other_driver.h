/* SPDX-License-Identifier: BSD-3-Clause */
/* other_driver.h -- detects a driver that peerpin does not serve (memory/driver.h) */
#ifndef PEERPIN_INTERCEPT_OTHER_DRIVER_H
#define PEERPIN_INTERCEPT_OTHER_DRIVER_H

#include <stdbool.h>

/* Called when a look-up is about to return a function of another driver than the served one. Takes
 * no lock and allocates nothing. */
void other_driver_note(void);
bool other_driver_is_noted(void);

/* Return the text of a report that the driver's calls bypass peerpin, once; NULL: there is no such
 * driver, or it was reported. Reads a file. */
const char *other_driver_find(void);

#endif
