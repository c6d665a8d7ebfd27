/* SPDX-License-Identifier: BSD-3-Clause */
/* readings.c -- prints readings of doctor's live readers on this machine
 *
 * readings [NAME=VALUE...] NAME...: records each NAME=VALUE (option/deep=on), reads each NAME, and
 * prints all recorded readings, one per line: name, "=" or "!ERROR", text with "|" for line ends.
 */
#include <stdio.h>
#include <string.h>

#include "tools/doctor/host.h"

static bool print(const char *name, const struct reading *reading, void *nothing)
{
	(void)nothing;
	if (reading->error)
		printf("%s !%s ", name, host_error_name(reading->error));
	else
		printf("%s = ", name);
	for (const char *c = reading->text; *c; c++)
		putchar(*c == '\n' ? '|' : *c);
	putchar('\n');
	return true;
}

int main(int argc, char **argv)
{
	struct host *host = host_live("");

	driver_add(host);
	verbs_add(host);
	probe_add(host);
	program_add(host);
	for (int i = 1; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (value) {
			*value = '\0';
			host_record(host, argv[i], "%s", value + 1);
		} else {
			host_read(host, "%s", argv[i]);
		}
	}
	host_each(host, print, NULL);
	host_free(host);
	return 0;
}
