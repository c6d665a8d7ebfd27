/* SPDX-License-Identifier: BSD-3-Clause */
/* readings.c -- prints readings of doctor's live readers on this machine
 *
 * readings [NAME=VALUE...] NAME...: records each NAME=VALUE (option/deep=on), reads each NAME, and
 * prints all recorded readings, one per line: name, "=" or "!ERROR", text with "|" for line ends.
 */
#include <stdio.h>
#include <string.h>

#include "tools/doctor/host.h"

static void print(const struct reading *reading)
{
	if (reading->error)
		printf("%s !%s ", reading->name, host_error_name(reading->error));
	else
		printf("%s = ", reading->name);
	for (const char *c = reading->text; *c; c++)
		putchar(*c == '\n' ? '|' : *c);
	putchar('\n');
}

int main(int argc, char **argv)
{
	struct host *host = host_live("");

	for (int i = 1; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (value) {
			*value = '\0';
			host_record(host, argv[i], "%s", value + 1);
		} else {
			host_read(host, "%s", argv[i]);
		}
	}
	host_each(host, print);
	host_free(host);
	return 0;
}
