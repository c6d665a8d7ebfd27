/* SPDX-License-Identifier: BSD-3-Clause */
/* segment_json.h -- statistics segment of a process as the JSON object of that process */
#ifndef PEERPIN_TOOLS_SEGMENT_JSON_H
#define PEERPIN_TOOLS_SEGMENT_JSON_H

#include <jansson.h>

/* First bytes of a statistics segment: SEGMENT_MAGIC of report/segment.h. */
#define SEGMENT_JSON_MAGIC "PEERPIN1"

/* `fd` is open for reading `path`. Member "ended" is "exit", "running" or "killed". NULL: `*wrong`
 * is the reason, which the caller frees. */
json_t *segment_to_json(const char *path, int fd, char **wrong);

#endif
