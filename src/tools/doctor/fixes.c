/* SPDX-License-Identifier: BSD-3-Clause */
/* fixes.c -- fixes that depend on the state of the host: each works in the state that was read */
#include <stdarg.h>
#include <string.h>

#include "tools/doctor/checks.h"
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
	const char *uid = host_text(host, "identity/uid");

	if (!uid || strcmp(uid, "0"))
		return text_of("sudo peerpin doctor --only %s", checks);
	return is_container(host) ? FIX_NO_CONTAINER
				  : "run it as root of the host: this root is one of a user "
				    "namespace, or a sandbox";
}

const char *fix_limit(struct host *host)
{
	int64_t limit = 0;

	if (!host_number(host, &limit, "option/limit"))
		limit = HOST_LIMIT;
	return text_of("peerpin doctor --limit %lld", (long long)limit * 10);
}

const char *fix_no_export(struct host *host)
{
	return driver_flavour(host) == FLAVOUR_OPEN
		       ? "ask your administrator: update the driver, or load nvidia-peermem (the "
			 "open kernel modules are installed, and export nothing)"
		       : "ask your administrator: install the driver's open kernel modules "
			 "(package nvidia-open)";
}
