/* SPDX-License-Identifier: BSD-3-Clause */
/* names.c -- under the preload: look-ups of every exported driver function outside of the table
 * return the driver's own
 *
 * Standard input has the functions of the driver's symbol table, so an installed driver is tested
 * as a whole: lines "VALUE NAME".
 */
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "memory/cuda_abi.h"

static const char *const rows[] = {
#define ENTRY_CUDA(symbol, ...) #symbol,
#include "intercept/entry_points.def"
#undef ENTRY_CUDA
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static bool is_row(const char *name)
{
	for (size_t i = 0; i < ROWS; i++) {
		if (!strcmp(rows[i], name))
			return true;
	}
	return false;
}

static bool is_in_driver(const struct link_map *map, void *address)
{
	Dl_info object;

	return dladdr(address, &object) && object.dli_fbase == (void *)map->l_addr;
}

static bool is_wrapped(void *library, void *address)
{
	for (size_t i = 0; i < ROWS; i++) {
		if (dlsym(library, rows[i]) == address)
			return true;
	}
	return false;
}

int main(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	__typeof__(cuGetProcAddress_v2) *get_address;
	unsigned int own = 0, wrapped = 0, bad = 0, by_names = 0;
	struct link_map *map;
	char name[256];
	size_t value;

	if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map)) {
		printf("no driver: %s\n", dlerror());
		return 77;
	}
	get_address = (__typeof__(get_address))dlsym(library, "cuGetProcAddress_v2");
	while (scanf("%zx %255s", &value, name) == 2) {
		void *address = (void *)(map->l_addr + value), *found, *by_name = NULL;

		found = dlsym(library, name);
		if (is_row(name)) {
			wrapped++;
			if (found == address || !found) {
				printf("%s is the driver's own\n", name);
				bad++;
			}
			continue;
		}
		own++;
		if (found != address) {
			printf("%s is not the driver's own\n", name);
			bad++;
		}
		/* The plain name may select a newer variant, which may be in the table. */
		if (get_address && get_address(name, &by_name, 13000, 0, NULL) == CUDA_SUCCESS &&
		    by_name) {
			by_names++;
			if (!is_in_driver(map, by_name) && !is_wrapped(library, by_name)) {
				printf("%s by name is neither the driver's nor a wrapper\n", name);
				bad++;
			}
		}
	}
	printf("%u names are the driver's own, %u are wrapped, %u were found by name\n", own,
	       wrapped, by_names);
	printf("%u passed, %u failed, 0 skipped\n", own + wrapped - bad, bad);
	return bad || own < 50 || wrapped < ROWS / 2;
}
