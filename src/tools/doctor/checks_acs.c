/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_acs.c -- checks of PCI configuration space: redirection of peer traffic, ordering
 *
 * Without root the kernel shows 64 bytes of configuration space; the capabilities lie behind
 * them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/groups.h"
#include "tools/doctor/host_internal.h"

#define HEADER_BYTES	64
#define FIRST_EXTENDED	0x100
#define EXTENDED_ACS	0x000d
#define CAPABILITY_PCIE 0x10
#define ACS_CONTROL	6
/* bits that send peer traffic upstream: request redirect, completion redirect, egress control */
#define ACS_REDIRECTS	 (0x04 | 0x08 | 0x20)
#define DEVICE_CONTROL	 8
#define RELAXED_ORDERING (1 << 4)

static unsigned int checks_acs_word(const struct reading *config, size_t at)
{
	const unsigned char *bytes = (const unsigned char *)config->text;

	return at + 1 < config->length ? bytes[at] | (unsigned int)bytes[at + 1] << 8 : 0;
}

/* Offset of an extended capability; 0: absent. */
static size_t checks_acs_find_extended(const struct reading *config, unsigned int id)
{
	size_t at = FIRST_EXTENDED;

	for (unsigned int turns = 0;
	     at >= FIRST_EXTENDED && at + 4 <= config->length && turns < 256; turns++) {
		if (checks_acs_word(config, at) == id)
			return at;
		at = checks_acs_word(config, at + 2) >> 4;
	}
	return 0;
}

static size_t checks_acs_find_capability(const struct reading *config, unsigned int id)
{
	size_t at = checks_acs_word(config, 0x34) & 0xfc;

	for (unsigned int turns = 0; at >= HEADER_BYTES && turns < 64; turns++) {
		if ((checks_acs_word(config, at) & 0xff) == id)
			return at;
		at = checks_acs_word(config, at) >> 8 & 0xfc;
	}
	return 0;
}

/* ---- ACS ---- */

struct bridges {
	struct host *host;
	char *redirecting; /* addresses, each once */
	char *hidden;
	unsigned int seen;
};

static void checks_acs_add_once(char **list, const char *pci)
{
	if (!*list || !strstr(*list, pci))
		list_add(list, pci);
}

static void checks_acs_bridge(const char *pci, void *argument)
{
	struct bridges *bridges = argument;
	const struct reading *config =
		host_read(bridges->host, "/sys/bus/pci/devices/%s/config", pci);
	size_t acs;

	bridges->seen++;
	if (config->error || config->length <= HEADER_BYTES) {
		checks_acs_add_once(&bridges->hidden, pci);
		return;
	}
	acs = checks_acs_find_extended(config, EXTENDED_ACS);
	if (acs && (checks_acs_word(config, acs + ACS_CONTROL) & ACS_REDIRECTS))
		checks_acs_add_once(&bridges->redirecting, pci);
}

/* Copy of the list's first word; the caller frees it. */
static char *checks_acs_first_word(const char *list)
{
	return need_text("%.*s", (int)strcspn(list, " "), list);
}

/* Cuts the list to 4 words and the number of further words. */
static void checks_acs_shorten(char *list)
{
	unsigned int words = 0, all = 1;
	char *cut = NULL;

	for (char *at = list; *at; at++) {
		all += *at == ' ';
		if (*at == ' ' && ++words == 4)
			cut = at;
	}
	if (cut && all > 4)
		sprintf(cut, " +%u", all - 4); /* shorter than the overwritten address */
}

void check_acs(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	struct bridges bridges = { .host = host };
	bool known = false;

	finding_read(finding, "/sys/bus/pci/devices/*/config: ACS control of each bridge between");
	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		struct answered answered;
		const struct adapter *chosen = adapter_of_gpu(host, &machine->gpus[i], &answered);

		known |= chosen && distance_between(&machine->gpus[i], chosen) != PCI_PATH_UNKNOWN;
		if (chosen && distance_between(&machine->gpus[i], chosen) <= PCI_PATH_PHB)
			each_bridge_between(&machine->gpus[i], chosen, checks_acs_bridge, &bridges);
	}
	if (!known) {
		finding_set(finding, VERDICT_UNKNOWN,
			    "there is no path between a GPU and an adapter to look at");
	} else if (bridges.redirecting) {
		char *first = checks_acs_first_word(bridges.redirecting);

		checks_acs_shorten(bridges.redirecting);
		finding_set(finding, VERDICT_WARN,
			    "peer traffic is sent up to the root complex by %s",
			    bridges.redirecting);
		finding_fix(finding,
			    "sudo setpci -s %s ECAP_ACS+6.w=0000 (each of them; on virtual "
			    "machines, Grace and "
			    "data-direct adapters ask rdma_topo check first)",
			    first);
		free(first);
	} else if (bridges.hidden) {
		checks_acs_shorten(bridges.hidden);
		finding_set(finding, VERDICT_UNKNOWN, "needs root to read the configuration of %s",
			    bridges.hidden);
		finding_fix(finding, "sudo peerpin doctor --only acs");
	} else if (!bridges.seen) {
		finding_set(finding, VERDICT_OK,
			    "no bridge that could redirect is visible between GPU and adapter");
	} else {
		finding_set(finding, VERDICT_OK, "no bridge between GPU and adapter redirects");
	}
	if (bridges.redirecting && bridges.hidden)
		finding_add(finding, VERDICT_WARN, "others could not be read");
	free(bridges.redirecting);
	free(bridges.hidden);
}

/* ---- ordering ---- */

static void checks_acs_device(struct host *host, const char *pci, const char *label,
			      struct groups *groups, struct finding *finding)
{
	const struct reading *config = host_read(host, "/sys/bus/pci/devices/%s/config", pci);
	unsigned int control, payload, request;
	size_t at;

	if (config->error) {
		groups_add(groups, VERDICT_UNKNOWN, label, "cannot be read");
		return;
	}
	if (config->length <= HEADER_BYTES) {
		groups_add(groups, VERDICT_UNKNOWN, label, "needs root");
		finding_fix(finding, "sudo peerpin doctor --only ordering");
		return;
	}
	at = checks_acs_find_capability(config, CAPABILITY_PCIE);
	if (!at) {
		groups_add(groups, VERDICT_UNKNOWN, label, "is not shown as PCI Express");
		return;
	}
	control = checks_acs_word(config, at + DEVICE_CONTROL);
	payload = 128u << (control >> 5 & 7);
	request = 128u << (control >> 12 & 7);
	groups_add(groups, VERDICT_OK, label, "relaxed ordering %s, payload %u, requests of %u",
		   control & RELAXED_ORDERING ? "on" : "off", payload, request);
}

void check_ordering(struct host *host, struct finding *finding)
{
	const struct machine *machine = machine_of(host);
	struct groups groups = { .count = 0 };

	finding_read(finding,
		     "/sys/bus/pci/devices/*/config: device control of the PCI Express capability");
	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		if (*machine->gpus[i].pci)
			checks_acs_device(host, machine->gpus[i].pci, machine->gpus[i].label,
					  &groups, finding);
	}
	for (unsigned int i = 0; i < machine->adapter_count; i++) {
		if (*machine->adapters[i].pci)
			checks_acs_device(host, machine->adapters[i].pci, machine->adapters[i].name,
					  &groups, finding);
	}
	if (groups.count)
		groups_say(&groups, finding);
	else
		finding_set(finding, VERDICT_UNKNOWN,
			    "neither a GPU nor an adapter is visible on the PCI bus");
}
