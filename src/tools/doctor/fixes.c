/* SPDX-License-Identifier: BSD-3-Clause */
/* fixes.c -- fixes that depend on the state of the host: each works in the state that was read */
#include <stdarg.h>
#include <string.h>

#include "tools/doctor/rules.h"
#include "tools/units.h"

bool is_container(struct host *host)
{
	return host_has(host, "/.dockerenv?") || host_has(host, "/run/.containerenv?") ||
	       host_has(host, "/.singularity.d?");
}

const char *as_root(struct host *host, const char *format, ...)
{
	va_list arguments;
	const char *command;

	va_start(arguments, format);
	command = text_print(format, arguments);
	va_end(arguments);
	return text_of("%s%s",
		       is_container(host) ? "ask your administrator, on the host: " : "sudo ",
		       command);
}

const char *fix_as_root_again(struct host *host, const char *checks)
{
	const struct subject subject = { .host = host, .check = checks };

	return value_of(&subject, "again_as_root");
}

const char *fix_limit(struct host *host)
{
	return host_value(host, "fix_limit");
}

const char *fix_no_export(struct host *host)
{
	return host_value(host, "fix_no_export");
}

const char *peermem_fix(struct host *host)
{
	return host_value(host, "fix_peermem");
}
