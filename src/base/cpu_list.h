/* SPDX-License-Identifier: BSD-3-Clause */
/* cpu_list.h -- lists of CPUs as text: 0-7,16 */
#ifndef PEERPIN_BASE_CPU_LIST_H
#define PEERPIN_BASE_CPU_LIST_H

#include "base/kernel.h"
#include "base/text.h"

/* Numbers and ranges of the list's form in sysfs. Return false for any other text, and for a number
 * above the highest that the kernel supports. */
static inline bool cpu_list_parse(const char *text, struct kernel_cpus *cpus)
{
	uint64_t first, last;

	*cpus = (struct kernel_cpus){ 0 };
	do {
		if (!text_is_digit(*text))
			return false;
		first = last = text_number(&text);
		if (*text == '-' && text_is_digit(text[1])) {
			text++;
			last = text_number(&text);
		}
		if (first > last || last >= 64 * KERNEL_CPU_WORDS)
			return false;
		for (; first <= last; first++)
			cpus->words[first / 64] |= (uint64_t)1 << first % 64;
	} while (*text++ == ',');
	return !text[-1];
}

#endif
