/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_acs.c -- check of PCI configuration space: redirection of peer traffic
 *
 * Without root the kernel shows 64 bytes of configuration space; the capabilities lie behind
 * them.
 */
#include <string.h>

#include "tools/doctor/checks.h"
#include "tools/units.h"

#define HEADER_BYTES   64
#define FIRST_EXTENDED 0x100
#define EXTENDED_ACS   0x000d
#define ACS_CONTROL    6
/* bits that send peer traffic upstream: request redirect, completion redirect, egress control */
#define ACS_REDIRECTS (0x04 | 0x08 | 0x20)

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

static void checks_acs_add_once(char **list, const char *pci)
{
	if (!*list || !strstr(*list, pci))
		list_add(list, pci);
}

/* Adds each bridge between GPU and adapter that redirects or hides its capabilities.
 * Returns the number of bridges. */
static unsigned int checks_acs_bridges(struct host *host, const struct gpu *gpu,
				       const struct adapter *adapter, char **redirecting,
				       char **hidden)
{
	char bridges[BRIDGES_SIZE], pci[24];
	const char *at = bridges;
	unsigned int seen = 0;

	for (bridges_between(gpu, adapter, bridges); host_line(&at, pci, sizeof(pci)); seen++) {
		const struct reading *config =
			host_read(host, "/sys/bus/pci/devices/%s/config", pci);
		size_t acs = checks_acs_find_extended(config, EXTENDED_ACS);

		if (config->error || config->length <= HEADER_BYTES)
			checks_acs_add_once(hidden, pci);
		else if (acs && (checks_acs_word(config, acs + ACS_CONTROL) & ACS_REDIRECTS))
			checks_acs_add_once(redirecting, pci);
	}
	return seen;
}

/* The first 4 words of the list, and the number of the others. */
static const char *checks_acs_shorten(const char *list)
{
	unsigned int words = 1;
	size_t length = 0;

	for (const char *at = list; *at; at++) {
		if (*at == ' ' && words++ == 4)
			length = (size_t)(at - list);
	}
	return words > 4 ? text_of("%.*s +%u", (int)length, list, words - 4) : list;
}

void check_acs(struct host *host, struct finding *finding)
{
	const char *lockdown = host_text(host, "/sys/kernel/security/lockdown");
	char *redirecting = NULL, *hidden = NULL;
	bool known = false, seen = false;
	struct support support;

	EACH_GPU(host, gpu) {
		const struct adapter *chosen = adapter_of_gpu(host, gpu, &support);
		enum pci_path distance = chosen ? distance_between(gpu, chosen) : PCI_PATH_UNKNOWN;

		known |= distance != PCI_PATH_UNKNOWN;
		if (distance <= PCI_PATH_PHB)
			seen |= checks_acs_bridges(host, gpu, chosen, &redirecting, &hidden);
	}
	if (!known) {
		finding_add(finding, UNKNOWN, "%s", invisible_words(machine_of(host)));
	} else if (redirecting) {
		if (lockdown && !strstr(lockdown, "[none]"))
			finding_fix(
				finding,
				"ask your administrator: ACS off in the firmware, or lockdown off "
				"(the kernel is locked down: it refuses setpci)");
		else
			finding_fix(finding,
				    "%s (each of them; on virtual machines, Grace and data-direct "
				    "adapters run rdma_topo check first)",
				    as_root(host, "setpci -s %.*s ECAP_ACS+6.w=0000",
					    (int)strcspn(redirecting, " "), redirecting));
		finding_add(finding, WARN, "peer traffic is sent up to the root complex by %s",
			    checks_acs_shorten(redirecting));
		if (hidden)
			finding_add(finding, WARN, "others could not be read");
	} else if (hidden) {
		finding_problem(finding, UNKNOWN, fix_as_root_again(host, "acs"),
				"needs root to read the configuration of %s",
				checks_acs_shorten(hidden));
	} else {
		finding_add(
			finding, OK, "%s",
			seen ? "no bridge between GPU and adapter redirects"
			     : "no bridge that could redirect is visible between GPU and adapter");
	}
}
