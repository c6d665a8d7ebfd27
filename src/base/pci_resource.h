/* SPDX-License-Identifier: BSD-3-Clause */
/* pci_resource.h -- size of a GPU's BAR1, from the file `resource` of its PCI function in sysfs
 *
 * Header only, without libc: the library and doctor use the same code.
 */
#ifndef PEERPIN_BASE_PCI_RESOURCE_H
#define PEERPIN_BASE_PCI_RESOURCE_H

#include "base/text.h"

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
