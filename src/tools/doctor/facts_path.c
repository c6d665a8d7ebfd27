/* SPDX-License-Identifier: BSD-3-Clause */
/* facts_path.c -- values of the PCIe path between GPU and adapter: distance, bridges that redirect
 *
 * Without root the kernel shows 64 bytes of configuration space; the capabilities lie behind
 * them.
 */
#include <string.h>

#include "tools/doctor/facts.h"
#include "tools/units.h"

/* ---- pairs ---- */

bool next_pair(struct subject *subject)
{
	struct support support;

	if (!next_gpu(subject))
		return false;
	subject->adapter = adapter_of_gpu(subject->host, subject->gpu, &support);
	subject->item = subject->adapter ? pair_name(subject->gpu, subject->adapter) : NULL;
	return true;
}

/* The first adapter that is closer to the GPU than the one to use; NULL: none. */
static const struct adapter *facts_path_closer(struct host *host, const struct gpu *gpu,
					       const struct adapter *chosen)
{
	EACH_ADAPTER(host, other) {
		if (distance_between(gpu, other) < distance_between(gpu, chosen))
			return other;
	}
	return NULL;
}

bool next_closer(struct subject *subject)
{
	while (next_pair(subject)) {
		subject->adapter = facts_path_closer(subject->host, subject->gpu, subject->adapter);
		if (!subject->adapter)
			continue;
		subject->item = subject->adapter->name;
		return true;
	}
	return false;
}

/* True if a GPU is, or is not, far from the closest adapter. */
bool facts_path_has(struct host *host, bool far)
{
	struct support support;

	EACH_GPU(host, gpu) {
		const struct adapter *chosen = adapter_of_gpu(host, gpu, &support);

		if (far == (distance_between(gpu, chosen) == PCI_PATH_SYS &&
			    !facts_path_closer(host, gpu, chosen)))
			return true;
	}
	return false;
}

/* ---- IOMMU ---- */

/* The kernel's command line has one of these options on: the last value counts. */
const char *facts_passthrough(const struct subject *subject)
{
	static const struct {
		const char *on, *off;
	} options[] = { { "iommu=pt", "iommu=nopt" },
			{ "iommu.passthrough=1", "iommu.passthrough=0" },
			{ "intel_iommu=off", "intel_iommu=on" },
			{ "amd_iommu=off", "amd_iommu=on" } };
	const char *line = host_text(subject->host, "/proc/cmdline");
	bool any = false;

	for (size_t i = 0; line && i < sizeof(options) / sizeof(options[0]); i++) {
		bool on = false;

		for (const char *at = line; *at; at += strcspn(at, " ")) {
			at += strspn(at, " ");
			if (!strncmp(at, options[i].on, strlen(options[i].on)))
				on = true;
			else if (!strncmp(at, options[i].off, strlen(options[i].off)))
				on = false;
		}
		any |= on;
	}
	return truth(any);
}

/* ---- ACS ---- */

#define HEADER_BYTES   64
#define FIRST_EXTENDED 0x100
#define EXTENDED_ACS   0x000d
#define ACS_CONTROL    6
/* bits that send peer traffic upstream: request redirect, completion redirect, egress control */
#define ACS_REDIRECTS (0x04 | 0x08 | 0x20)

static unsigned int facts_path_word(const struct reading *config, size_t at)
{
	const unsigned char *bytes = (const unsigned char *)config->text;

	return at + 1 < config->length ? bytes[at] | (unsigned int)bytes[at + 1] << 8 : 0;
}

/* Offset of an extended capability; 0: absent. */
static size_t facts_path_find_extended(const struct reading *config, unsigned int id)
{
	size_t at = FIRST_EXTENDED;

	for (unsigned int turns = 0;
	     at >= FIRST_EXTENDED && at + 4 <= config->length && turns < 256; turns++) {
		if (facts_path_word(config, at) == id)
			return at;
		at = facts_path_word(config, at + 2) >> 4;
	}
	return 0;
}

static void facts_path_add_once(char **list, const char *pci)
{
	if (!*list || !strstr(*list, pci))
		list_add(list, pci);
}

/* Adds each bridge between GPU and adapter that redirects or hides its capabilities.
 * Returns the number of bridges. */
static unsigned int facts_path_bridges(struct host *host, const struct gpu *gpu,
				       const struct adapter *adapter, char **redirecting,
				       char **hidden)
{
	char bridges[BRIDGES_SIZE], pci[24];
	const char *at = bridges;
	unsigned int seen = 0;

	for (bridges_between(gpu, adapter, bridges); host_line(&at, pci, sizeof(pci)); seen++) {
		const struct reading *config =
			host_read(host, "/sys/bus/pci/devices/%s/config", pci);
		size_t acs = facts_path_find_extended(config, EXTENDED_ACS);

		if (config->error || config->length <= HEADER_BYTES)
			facts_path_add_once(hidden, pci);
		else if (acs && (facts_path_word(config, acs + ACS_CONTROL) & ACS_REDIRECTS))
			facts_path_add_once(redirecting, pci);
	}
	return seen;
}

/* The first 4 words of the list, and the number of the others. */
const char *facts_path_shorten(const char *list)
{
	unsigned int words = 1;
	size_t length = 0;

	for (const char *at = list; at && *at; at++) {
		if (*at == ' ' && words++ == 4)
			length = (size_t)(at - list);
	}
	return words > 4 ? text_of("%.*s +%u", (int)length, list, words - 4) : list;
}

struct bridges facts_path_bridges_of(struct host *host)
{
	struct bridges bridges = { .known = false };
	struct support support;

	EACH_GPU(host, gpu) {
		const struct adapter *chosen = adapter_of_gpu(host, gpu, &support);
		enum pci_path distance = chosen ? distance_between(gpu, chosen) : PCI_PATH_UNKNOWN;

		bridges.known |= distance != PCI_PATH_UNKNOWN;
		if (distance <= PCI_PATH_PHB)
			bridges.seen |= facts_path_bridges(host, gpu, chosen, &bridges.redirecting,
							   &bridges.hidden);
	}
	return bridges;
}

const char *facts_path_first(const char *list)
{
	return list ? text_of("%.*s", (int)strcspn(list, " "), list) : NULL;
}
