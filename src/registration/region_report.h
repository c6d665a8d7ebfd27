/* SPDX-License-Identifier: BSD-3-Clause */
/* region_report.h -- log and trace lines of regions; without registration_mutex unless noted */
#ifndef PEERPIN_REGISTRATION_REGION_REPORT_H
#define PEERPIN_REGISTRATION_REGION_REPORT_H

#include "registration/methods.h"
#include "registration/objects.h"

struct errors_room;

/* Counts a failed registration by its errno, grouped by fix. With or without the lock. */
void region_count_failure(int error);

/* region_is_reported(): true if the log or trace needs start times. The others report an end: 0 or
 * -errno. */
bool region_is_reported(void);
void region_report_registered(const struct pin_request *request, int error,
			      const struct errors_text *failure, uint64_t start);
void region_report_ended(const struct region *region, int error, uint64_t start);

/* A refusal set the GPU's pin limit to `learnt` bytes; 0: unchanged. */
void region_report_pin_limit(int device, uint64_t learnt);

/* Logs a failed registration. `room` holds the known limits; the function completes it. */
void region_log_failure(const struct region *region, int error, struct errors_text failure,
			struct errors_room *room);

#endif
