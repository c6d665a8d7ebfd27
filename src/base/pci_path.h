/* SPDX-License-Identifier: BSD-3-Clause */
/* pci_path.h -- PCI path between a GPU and an adapter: its name, derived from paths in sysfs
 *
 * A device's sysfs path without links has one component per bridge above the device:
 * devices/pci0000:16/0000:16:01.0/0000:17:00.0. Header only, without libc: the library and doctor
 * use the same code.
 */
#ifndef PEERPIN_BASE_PCI_PATH_H
#define PEERPIN_BASE_PCI_PATH_H

#include <stddef.h>

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

#endif
