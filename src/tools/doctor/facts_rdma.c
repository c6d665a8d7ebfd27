/* SPDX-License-Identifier: BSD-3-Clause */
/* facts_rdma.c -- values of adapters that a function computes, their ports and devices */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/rules.h"
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

const char *fact_port(const struct subject *subject)
{
	return subject->line;
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

const char *fact_adapters(const struct subject *subject)
{
	return truth(machine_of(subject->host)->adapter_count);
}

const char *fact_adapters_known(const struct subject *subject)
{
	return truth(machine_of(subject->host)->adapters_are_known);
}

const char *fact_hardware(const struct subject *subject)
{
	EACH_ADAPTER(subject->host, adapter) {
		if (!adapter->software)
			return "1";
	}
	return NULL;
}

const char *fact_software(const struct subject *subject)
{
	return truth(subject->adapter->software);
}

const char *fact_ports(const struct subject *subject)
{
	static const char *const names[] = { "unknown", "inactive", "active" };

	return names[subject->adapter->ports];
}

static unsigned int facts_rdma_inactive(struct host *host)
{
	unsigned int count = 0;

	EACH_ADAPTER(host, adapter)
		count += adapter->ports == PORTS_INACTIVE;
	return count;
}

const char *fact_inactive_ports(const struct subject *subject)
{
	return truth(facts_rdma_inactive(subject->host));
}

const char *fact_all_ports_inactive(const struct subject *subject)
{
	return truth(facts_rdma_inactive(subject->host) ==
		     machine_of(subject->host)->adapter_count);
}

const char *fact_slow_link(const struct subject *subject)
{
	const char *speed = value_of(subject, "link_speed");
	const char *most = value_of(subject, "max_link_speed");
	int64_t width, widest;
	bool narrow = value_number(subject, "link_width", &width) &&
		      value_number(subject, "max_link_width", &widest) && width < widest;

	return truth(narrow || (speed && most && atof(speed) < atof(most)));
}

/* ---- libibverbs ---- */

const char *fact_verbs_lost(const struct subject *subject)
{
	const char *ended = host_text(subject->host, "verbs/ended");

	return ended && strcmp(ended, "ok") ? end_words(ended) : NULL;
}

const char *fact_adapter_lost(const struct subject *subject)
{
	const struct reading *ended =
		host_read(subject->host, "verbs/%s/ended", subject->adapter->name);

	return !ended->error && strcmp(ended->text, "ok") ? end_words(ended->text) : NULL;
}

const char *fact_uverbs_open(const struct subject *subject)
{
	const struct reading *adapter =
		host_read(subject->host, "/sys/class/infiniband_verbs/%s/ibdev", subject->line);
	int error = adapter->error
			    ? ENOENT
			    : host_read(subject->host, "verbs/%s/open", adapter->text)->error;

	return error == ENOENT ? NULL : error ? text_of("%s", host_error_name(error)) : "ok";
}

const char *fact_opened_adapter(const struct subject *subject)
{
	EACH_ADAPTER(subject->host, adapter) {
		if (!host_read(subject->host, "verbs/%s/open", adapter->name)->error)
			return adapter->name;
	}
	return NULL;
}
