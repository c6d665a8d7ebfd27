/* SPDX-License-Identifier: BSD-3-Clause */
/* local.c -- a program without the driver; a plug-in loads it with RTLD_LOCAL: there is no next
 * definition, only the driver's own */
#include "../matrix/rows.h"
#include "traps.h"

int main(int count, char **arguments)
{
	void *plugin = count == 3 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	void *rows_library = plugin ? dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL) : NULL;
	int (*begin)(void) = rows_library ? (int (*)(void))dlsym(rows_library, "rows_begin") : NULL;
	__typeof__(rows_run) *run =
		rows_library ? (__typeof__(run))dlsym(rows_library, "rows_run") : NULL;
	int passed = 0, failed = 0;

	if (!begin || !run || begin()) {
		printf("%s\n", dlerror());
		return 99;
	}
	run("plug-in of a program without the driver", dlsym(plugin, "plugin_functions"), &passed,
	    &failed);
	trap("T24", "where nothing is next, the driver itself is called",
	     PART(passed > 30) && PART(!failed));
	return 0;
}
