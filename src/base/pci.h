/* SPDX-License-Identifier: BSD-3-Clause */
/* pci.h -- what sysfs shows of PCI functions: the path between a GPU and an adapter, the size of a
 * GPU's BAR1
 *
 * A device's sysfs path without links has one component per bridge above the device:
 * devices/pci0000:16/0000:16:01.0/0000:17:00.0. Header only, without libc: the library and doctor
 * use the same code.
 */
#ifndef PEERPIN_BASE_PCI_H
#define PEERPIN_BASE_PCI_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* Nearest first, as in nvidia-smi topo -m: one PCIe switch, several switches, a host bridge,
 * several host bridges of a NUMA node, across nodes. */
#define PCI_PATHS(PATH) PATH(PIX) PATH(PXB) PATH(PHB) PATH(NODE) PATH(SYS)

enum pci_path {
#define NUMBER(name) PCI_PATH_##name,
	PCI_PATHS(NUMBER)
#undef NUMBER
		PCI_PATH_UNKNOWN
};

/* Name where the adapter is software: it has no PCI function. */
#define PCI_PATH_NONE "none"

/* Return the name; "" for PCI_PATH_UNKNOWN. */
static inline const char *pci_path_name(enum pci_path path)
{
#define NAME(name) #name,
	static const char names[][5] = { PCI_PATHS(NAME) "" };
#undef NAME

	return names[path];
}

/* Return the length of the common beginning, in whole components. */
static inline size_t pci_path_common(const char *one, const char *other)
{
	size_t common = 0;

	for (size_t i = 0;; i++) {
		if ((!one[i] || one[i] == '/') && (!other[i] || other[i] == '/'))
			common = i;
		if (!one[i] || one[i] != other[i])
			return common;
	}
}

/* Count the components after the first `from` characters. */
static inline unsigned int pci_path_links(const char *path, size_t from)
{
	unsigned int number = 0;

	for (path += from; *path; path++)
		number += *path == '/';
	return number;
}

/* Classify two devices that meet below a host bridge after `common` characters. A switch is 2
 * bridges deep: its upstream port and its downstream ports. */
static inline enum pci_path pci_path_by_bridges(const char *one, const char *other, size_t common)
{
	return pci_path_links(one, common) <= 2 && pci_path_links(other, common) <= 2
		       ? PCI_PATH_PIX
		       : PCI_PATH_PXB;
}

#define PCI_RESOURCE_64_BIT 0x100000 /* flag: the range takes two lines, of which one is empty */

/* Read a hexadecimal number, with or without "0x"; move *text behind it. */
static inline uint64_t pci_resource_number(const char **text)
{
	uint64_t value = 0;

	while (**text == ' ')
		++*text;
	if (text_begins(*text, "0x"))
		*text += 2;
	for (;; ++*text) {
		char digit = text_lower(**text);

		if (text_is_digit(digit))
			value = value << 4 | (uint64_t)(digit - '0');
		else if (digit >= 'a' && digit <= 'f')
			value = value << 4 | (uint64_t)(digit - 'a' + 10);
		else
			return value;
	}
}

/* Return the bytes of BAR1, the range "FIRST LAST FLAGS" behind BAR0's lines. 0: none, or one to
 * which the firmware assigned no address. */
static inline uint64_t pci_resource_bar1(const char *text)
{
	unsigned int bar1 = 1;

	for (unsigned int line = 0; line <= bar1 && *text; line++) {
		uint64_t first = pci_resource_number(&text), last = pci_resource_number(&text);

		if (!line && pci_resource_number(&text) & PCI_RESOURCE_64_BIT)
			bar1 = 2;
		if (line == bar1)
			return first && last > first ? last - first + 1 : 0;
		while (*text && *text++ != '\n')
			;
	}
	return 0;
}

#endif
