/* SPDX-License-Identifier: BSD-3-Clause */
/* facts.c -- values of the host and its parts that a function computes, and the subjects of rules
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tools/doctor/rules.h"
#include "tools/units.h"

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
		if (*fact_pci(subject))
			return true;
	}
	return false;
}

const char *fact_gpu_label(const struct subject *subject)
{
	return subject->gpu->label;
}

const char *fact_adapter(const struct subject *subject)
{
	return subject->adapter->name;
}

const char *fact_ordinal(const struct subject *subject)
{
	return text_of("%d", subject->gpu->ordinal);
}

const char *fact_line(const struct subject *subject)
{
	return subject->line;
}

/* ---- the finding ---- */

const char *fact_check(const struct subject *subject)
{
	return subject->check;
}

const char *fact_text(const struct subject *subject)
{
	return finding_text(subject->finding);
}

const char *fact_nothing(const struct subject *subject)
{
	return truth(!finding_text(subject->finding));
}

const char *fact_failed(const struct subject *subject)
{
	return truth(subject->finding->result == FAIL);
}

const char *fact_warned(const struct subject *subject)
{
	return truth(subject->finding->result == WARN);
}

/* ---- the driver ---- */

/* "550.54.15": the module's version, or else from /proc/driver/nvidia/version: the number after
 * "Kernel Module". */
const char *fact_driver(const struct subject *subject)
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

const char *fact_flavour(const struct subject *subject)
{
	static const char *const names[] = { "none", "open", "proprietary", "unknown" };

	return names[driver_flavour(subject->host)];
}

const char *fact_cuda(const struct subject *subject)
{
	int64_t version;

	if (!host_number(subject->host, &version, "cuda/driver_version"))
		return NULL;
	return text_of("%d.%d", (int)version / 1000, (int)version % 1000 / 10);
}

const char *fact_driver_answers(const struct subject *subject)
{
	return truth(machine_of(subject->host)->driver_answers);
}

const char *fact_gpus(const struct subject *subject)
{
	return truth(machine_of(subject->host)->gpu_count);
}

const char *fact_gpus_on_bus(const struct subject *subject)
{
	const struct machine *machine = machine_of(subject->host);

	return truth(machine->gpu_count + machine->hidden_gpus);
}

const char *fact_cuda_lost(const struct subject *subject)
{
	const char *ended = host_text(subject->host, "cuda/ended");

	return ended && strcmp(ended, "ok") ? end_words(ended) : NULL;
}

const char *fact_hidden_gpus(const struct subject *subject)
{
	unsigned int count = machine_of(subject->host)->hidden_gpus;

	return count ? text_of("%u", count) : NULL;
}

const char *fact_longer_limit(const struct subject *subject)
{
	int64_t limit = 0;

	if (!host_number(subject->host, &limit, "option/limit"))
		limit = HOST_LIMIT;
	return text_of("%lld", (long long)limit * 10);
}

const char *fact_integrated(const struct subject *subject)
{
	return truth(subject->gpu ? gpu_is_integrated(subject->host, subject->gpu)
				  : gpus_are_integrated(subject->host));
}

/* ---- methods, and measurements ---- */

const char *fact_works(const struct subject *subject)
{
	return truth(every_gpu_works(subject->host));
}

const char *fact_dma_buf_suffices(const struct subject *subject)
{
	return truth(method_suffices(subject->host, METHOD_DMA_BUF));
}

const char *fact_proved(const struct subject *subject)
{
	return proof_of(subject->host, NULL, NULL, METHODS);
}

const char *fact_proved_dma_buf(const struct subject *subject)
{
	return proof_of(subject->host, NULL, NULL, METHOD_DMA_BUF);
}

const char *fact_proved_peer(const struct subject *subject)
{
	return proof_of(subject->host, NULL, NULL, METHOD_PEER_MEMORY);
}

const char *fact_proved_gpu(const struct subject *subject)
{
	return proof_of(subject->host, subject->gpu, NULL, METHODS);
}

const char *fact_proved_gpu_dma_buf(const struct subject *subject)
{
	return proof_of(subject->host, subject->gpu, NULL, METHOD_DMA_BUF);
}

const char *fact_proved_adapter(const struct subject *subject)
{
	return proof_of(subject->host, NULL, subject->adapter, METHODS);
}

const char *fact_proved_adapter_dma_buf(const struct subject *subject)
{
	return proof_of(subject->host, NULL, subject->adapter, METHOD_DMA_BUF);
}

const char *fact_proved_pair(const struct subject *subject)
{
	return proof_of(subject->host, subject->gpu, subject->adapter, METHODS);
}

const char *fact_dma_buf_open(const struct subject *subject)
{
	return truth(method_is_open(subject->host, METHOD_DMA_BUF));
}

/* ---- peer memory ---- */

const char *fact_peermem_of_other_driver(const struct subject *subject)
{
	const char *version = value_of(subject, "peermem_version");
	const char *driver = value_of(subject, "driver_module");

	return truth(version && driver && strcmp(version, driver));
}

/* Folders of modules-load.d(5). */
const char *fact_loaded_at_boot(const struct subject *subject)
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
