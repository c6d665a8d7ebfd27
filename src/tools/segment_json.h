/* SPDX-License-Identifier: BSD-3-Clause */
/* segment_json.h -- a process's mapped file as the JSON object that the process would have written itself */
#ifndef PEERPIN_TOOLS_SEGMENT_JSON_H
#define PEERPIN_TOOLS_SEGMENT_JSON_H

#include <jansson.h>

/* The first bytes of such a file: IMAGE_MAGIC of base/segment.h. */
#define SEGMENT_JSON_MAGIC "PEERPIN1"

/* The file is open as fd. "ended" says whether its process still runs. NULL with what is wrong, freed by the caller. */
json_t *segment_to_json(const char *path, int fd, char **wrong);

#endif
