/* SPDX-License-Identifier: BSD-3-Clause */
/* auditor.c -- an auditor (LD_AUDIT), in a namespace of its own, that loads the driver there once a
 * plug-in is loaded */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

unsigned int la_version(unsigned int version)
{
	return version;
}

void la_activity(uintptr_t *cookie, unsigned int flag)
{
	static int loaded;
	const char *plugin = getenv("TRAPS_DEEPBIND");
	const struct link_map *object = (const struct link_map *)*cookie;

	for (; flag == LA_ACT_CONSISTENT && !loaded && plugin && object; object = object->l_next) {
		if (!strcmp(object->l_name, plugin)) {
			loaded = 1;
			dlopen(getenv("TRAPS_DRIVER"), RTLD_NOW);
		}
	}
}
