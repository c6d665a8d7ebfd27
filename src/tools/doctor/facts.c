/* SPDX-License-Identifier: BSD-3-Clause */
/* facts.c -- values of the host and its parts that a function computes, and the subjects of rules
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tools/doctor/facts.h"
#include "tools/units.h"

#define FACT(name, expression)                                                                     \
	static const char *fact_##name(const struct subject *subject)                              \
	{                                                                                          \
		struct host *host = subject->host;                                                 \
		struct finding *finding = subject->finding;                                        \
		const struct gpu *gpu = subject->gpu;                                              \
		const struct adapter *adapter = subject->adapter;                                  \
                                                                                                   \
		(void)host, (void)finding, (void)gpu, (void)adapter;                               \
		return expression;                                                                 \
	}
#include "tools/doctor/facts.def"
#undef FACT

const struct fact facts[] = {
#define FACT(name, expression) { #name, fact_##name },
#include "tools/doctor/facts.def"
#undef FACT
	{ NULL, NULL },
};

/* ---- subjects ---- */

bool next_host(struct subject *subject)
{
	return !subject->number++;
}

bool next_gpu(struct subject *subject)
{
	const struct machine *machine = machine_of(subject->host);

	if (subject->number == machine->gpu_count)
		return false;
	subject->gpu = &machine->gpus[subject->number++];
	subject->item = subject->gpu->label;
	return true;
}

bool next_adapter(struct subject *subject)
{
	const struct machine *machine = machine_of(subject->host);

	if (subject->number == machine->adapter_count)
		return false;
	subject->adapter = &machine->adapters[subject->number++];
	subject->item = subject->adapter->name;
	return true;
}

bool next_device(struct subject *subject)
{
	const struct machine *machine = machine_of(subject->host);
	unsigned int number;

	while ((number = subject->number++) < machine->gpu_count + machine->adapter_count) {
		bool is_gpu = number < machine->gpu_count;

		subject->gpu = is_gpu ? &machine->gpus[number] : NULL;
		subject->adapter = is_gpu ? NULL : &machine->adapters[number - machine->gpu_count];
		subject->item = is_gpu ? subject->gpu->label : subject->adapter->name;
		if (*(subject->gpu ? subject->gpu->pci : subject->adapter->pci))
			return true;
	}
	return false;
}

bool next_preload(struct subject *subject)
{
	static const char *const sources[] = { "LD_PRELOAD", "/etc/ld.so.preload" };
	const char *lists[] = {
		host_text(subject->host, "environment/LD_PRELOAD"),
		reading_text(host_read(subject->host, "/etc/ld.so.preload")),
	};
	unsigned int number = 0;

	for (int i = 0; i < 2; i++) {
		char *copy = text_of("%s", lists[i] ? lists[i] : ""), *rest = NULL, *word;

		while ((word = strtok_r(copy, " :\n\t", &rest))) {
			copy = NULL;
			if (number++ < subject->number)
				continue;
			subject->number++;
			subject->line = word;
			subject->more = sources[i];
			return true;
		}
	}
	return false;
}

/* ---- numbers and words ---- */

int64_t facts_number(const struct subject *subject, const char *name)
{
	int64_t number;

	return value_number(subject, name, &number) ? number : 0;
}

const char *facts_count(int64_t number)
{
	return number ? NUMBER(number) : NULL;
}

const char *facts_differ(const struct subject *subject, const char *name, const char *other)
{
	const char *one = value_of(subject, name), *two = value_of(subject, other);

	return truth(one && two && strcmp(one, two));
}

int64_t facts_time_limit(struct host *host)
{
	int64_t limit;

	return host_number(host, &limit, "option/limit") ? limit : HOST_LIMIT;
}

/* ---- the driver ---- */

/* "550.54.15": the module's version, or else from /proc/driver/nvidia/version: the number after
 * "Kernel Module". */
const char *facts_driver(const struct subject *subject)
{
	const char *text = host_text(subject->host, "/sys/module/nvidia/version"), *at;

	if (text)
		return text;
	text = host_text(subject->host, "/proc/driver/nvidia/version");
	for (at = text ? strstr(text, "Kernel Module") : NULL; at && *at && *at != '\n'; at++) {
		if (at[0] == ' ' && text_is_digit(at[1]))
			return text_of("%.*s", (int)strspn(at + 1, "0123456789."), at + 1);
	}
	return text ? "" : NULL;
}

const char *facts_flavour(const struct subject *subject)
{
	static const char *const names[] = { "none", "open", "proprietary", "unknown" };

	return names[driver_flavour(subject->host)];
}

const char *facts_cuda(const struct subject *subject)
{
	int64_t version;

	if (!host_number(subject->host, &version, "cuda/driver_version"))
		return NULL;
	return text_of("%d.%d", (int)version / 1000, (int)version % 1000 / 10);
}

/* ---- peer memory ---- */

/* Folders of modules-load.d(5). */
const char *facts_loaded_at_boot(const struct subject *subject)
{
	static const char *const folders[] = { "/etc", "/run", "/usr/lib" };
	char name[128], line[128];

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		const char *names = host_text(subject->host, "%s/modules-load.d/", folders[i]);

		while (host_line(&names, name, sizeof(name))) {
			const char *text =
				host_text(subject->host, "%s/modules-load.d/%s", folders[i], name);

			while (host_line(&text, line, sizeof(line))) {
				if (!strchr("#;", line[strspn(line, " \t")]) &&
				    (strstr(line, "nvidia-peermem") ||
				     strstr(line, "nvidia_peermem")))
					return "1";
			}
		}
	}
	return NULL;
}
