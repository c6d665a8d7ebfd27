/* SPDX-License-Identifier: BSD-3-Clause */
/* pci_path.h -- the way over PCI between a GPU and an adapter: its names, and what paths in sysfs tell of it
 *
 * A device's path in sysfs, with no link left in it, has a component for each bridge that it is below:
 * devices/pci0000:16/0000:16:01.0/0000:17:00.0. Header only, and without libc: the library and doctor judge alike.
 */
#ifndef PEERPIN_BASE_PCI_PATH_H
#define PEERPIN_BASE_PCI_PATH_H

#include <stddef.h>

/* The nearest first, as nvidia-smi topo -m has them: over one PCIe switch, over several, over a host bridge, over several of one
 * NUMA node, across nodes. */
#define PCI_PATHS(PATH) PATH(PIX) PATH(PXB) PATH(PHB) PATH(NODE) PATH(SYS)

enum pci_path {
#define NUMBER(name) PCI_PATH_##name,
	PCI_PATHS(NUMBER)
#undef NUMBER
		PCI_PATH_UNKNOWN
};

/* "": it is unknown. */
static inline const char *pci_path_name(enum pci_path path)
{
#define NAME(name) #name,
	static const char names[][5] = { PCI_PATHS(NAME) "" };
#undef NAME

	return names[path];
}

/* The length of what both have in common: whole components. */
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

/* Components behind the first `from` characters. */
static inline unsigned int pci_path_links(const char *path, size_t from)
{
	unsigned int number = 0;

	for (path += from; *path; path++)
		number += *path == '/';
	return number;
}

/* Of two that meet below a host bridge, with so much in common. A switch is two bridges deep: its port upwards, and those
 * downwards. */
static inline enum pci_path pci_path_by_bridges(const char *one, const char *other, size_t common)
{
	return pci_path_links(one, common) <= 2 && pci_path_links(other, common) <= 2 ? PCI_PATH_PIX
										      : PCI_PATH_PXB;
}

#endif
