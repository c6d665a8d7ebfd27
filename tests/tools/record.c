/* SPDX-License-Identifier: BSD-3-Clause */
/* record.c -- prints a statistics segment as the record that peerpin report reads
 *
 * usage: record FILE
 */
#include <fcntl.h>
#include <stdio.h>

#include "tools/records.h"

int main(int count, char **words)
{
	int fd = count == 2 ? open(words[1], O_RDONLY | O_CLOEXEC) : -1;
	const char *wrong = NULL;
	json_t *json;

	if (fd < 0) {
		fprintf(stderr, "usage: record FILE (readable)\n");
		return 2;
	}
	json = segment_to_json(words[1], fd, &wrong);
	if (!json) {
		fprintf(stderr, "record: %s\n", wrong);
		return 1;
	}
	return json_dumpf(json, stdout, 0) || putchar('\n') < 0;
}
