/* SPDX-License-Identifier: BSD-3-Clause */
/* facts_rdma.c -- values of adapters that a function computes, their ports and devices */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/facts.h"
#include "tools/units.h"

#define CLASS "/sys/class/infiniband"

/* ---- subjects ---- */

/* The ports of each adapter in turn. `line`: the port; NULL: sysfs does not list them. */
bool next_port(struct subject *subject)
{
	static char port[16];
	static const char *rest;

	while (!subject->line || !host_line(&rest, port, sizeof(port))) {
		subject->line = NULL;
		if (!next_adapter(subject))
			return false;
		rest = host_text(subject->host, CLASS "/%s/ports/", subject->adapter->name);
		if (!rest)
			return true;
		subject->line = port;
	}
	subject->item = strcmp(port, "1") ? text_of("%s:%s", subject->adapter->name, port)
					  : subject->adapter->name;
	return true;
}

bool next_uverbs(struct subject *subject)
{
	const char *at = reading_text(host_read(subject->host, "/dev/infiniband/"));
	unsigned int number = 0;
	char name[64];

	while (host_line(&at, name, sizeof(name))) {
		if (strncmp(name, "uverbs", 6) || number++ < subject->number)
			continue;
		subject->number++;
		subject->item = subject->line = text_of("%s", name);
		return true;
	}
	return false;
}

/* ---- adapters ---- */

const char *facts_hardware(const struct subject *subject)
{
	EACH_ADAPTER(subject->host, adapter) {
		if (!adapter->software)
			return "1";
	}
	return NULL;
}

unsigned int facts_rdma_inactive(struct host *host)
{
	unsigned int count = 0;

	EACH_ADAPTER(host, adapter)
		count += adapter->ports == PORTS_INACTIVE;
	return count;
}

const char *facts_slow_link(const struct subject *subject)
{
	const char *speed = value_of(subject, "link_speed");
	const char *most = value_of(subject, "max_link_speed");
	int64_t width, widest;
	bool narrow = value_number(subject, "link_width", &width) &&
		      value_number(subject, "max_link_width", &widest) && width < widest;

	return truth(narrow || (speed && most && atof(speed) < atof(most)));
}

/* ---- libibverbs ---- */

const char *facts_uverbs_open(const struct subject *subject)
{
	const struct reading *adapter =
		host_read(subject->host, "/sys/class/infiniband_verbs/%s/ibdev", subject->line);
	int error = adapter->error
			    ? ENOENT
			    : host_read(subject->host, "verbs/%s/open", adapter->text)->error;

	return error == ENOENT ? NULL : error ? text_of("%s", host_error_name(error)) : "ok";
}

const char *facts_opened_adapter(const struct subject *subject)
{
	EACH_ADAPTER(subject->host, adapter) {
		if (!host_read(subject->host, "verbs/%s/open", adapter->name)->error)
			return adapter->name;
	}
	return NULL;
}
