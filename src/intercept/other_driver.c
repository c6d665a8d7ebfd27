/* SPDX-License-Identifier: BSD-3-Clause */
/* other_driver.c -- detects a driver that peerpin does not serve: a second one, found by a look-up,
 * or one in another namespace, found in /proc/self/maps
 */
#include "intercept/other_driver.h"

#include "base/atomics.h"
#include "base/kernel.h"
#include "base/text.h"
#include "intercept/load_watch.h"
#include "memory/driver.h"

static _Atomic bool noted;

void other_driver_note(void)
{
	store_relaxed(&noted, true);
	load_watch_note();
}

bool other_driver_is_noted(void)
{
	return load_relaxed(&noted);
}

/* Line format: "from-to permissions offset device inode path". True for the first mapping of a
 * driver. */
static bool other_driver_is_line(const char *line)
{
	return text_contains(line, "/libcuda.so") && text_contains(line, " 00000000 ");
}

/* Number of mapped drivers, from /proc/self/maps. */
static unsigned int other_driver_count_mapped(void)
{
	int fd = kernel_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	char text[4096], line[512];
	unsigned int found = 0;
	size_t length = 0;
	ssize_t got;

	if (fd < 0)
		return 0;
	while ((got = kernel_read(fd, text, sizeof(text))) > 0) {
		for (ssize_t i = 0; i < got; i++) {
			if (text[i] != '\n') {
				/* Discard the rest of a longer line. */
				if (length < sizeof(line) - 1)
					line[length++] = text[i];
				continue;
			}
			line[length] = '\0';
			found += other_driver_is_line(line);
			length = 0;
		}
	}
	kernel_close(fd);
	return found;
}

const char *other_driver_find(void)
{
	static _Atomic bool reported;
	bool other = other_driver_is_noted();
	unsigned int before, mapped, after;

	if (load_relaxed(&reported))
		return NULL;
	before = driver_count();
	mapped = other_driver_count_mapped();
	after = driver_count();
	/* A driver that another thread loads or unloads meanwhile is not elsewhere. */
	if ((!other && (mapped <= before || mapped <= after)) || exchange_relaxed(&reported, true))
		return NULL;
	return other ? "a second libcuda is loaded in the process: calls into it bypass peerpin. "
		       "Load one libcuda, or close the first one before cuInit"
		     : "libcuda is loaded in another namespace (dlmopen): calls into it bypass "
		       "peerpin. Load it without dlmopen";
}
