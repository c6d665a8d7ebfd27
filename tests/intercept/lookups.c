/* SPDX-License-Identifier: BSD-3-Clause */
/* lookups.c -- prints the results of look-ups from the program and from a library: equal with and
 * without the preload */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "lookup_library.h"

/* Precedes liblookup's definition, so that RTLD_NEXT from liblookup does not find it. */
const char *tool_of_library(void)
{
	return "program";
}

static void print(const char *how, const char *symbol, void *found)
{
	const char *file, *error = dlerror();
	Dl_info object;

	if (!found) {
		/* Omit the beginning, which names the caller, or the preload for its own names. */
		error = error && strstr(error, "undefined symbol")
				? strstr(error, "undefined symbol")
				: error;
		printf("%s %s: nothing, %s\n", how, symbol, error ? error : "no error");
		return;
	}
	if (!dladdr(found, &object)) {
		printf("%s %s: outside of every object\n", how, symbol);
		return;
	}
	file = strrchr(object.dli_fname, '/');
	printf("%s %s: %s\n", how, symbol, file ? file + 1 : object.dli_fname);
}

int main(void)
{
	static const char *const symbols[] = { "malloc", "calloc_of_library", "tool_of_library",
					       "getpid", "no_such_name", "cuMemFree_v2_not",
					       "library_next",
					       /* Names that only the preload exports. */
					       "cuMemFree_v2", "ibv_cmd_reg_mr",
					       "mlx5dv_devx_umem_reg" };
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	void *program = dlopen(NULL, RTLD_LAZY);

	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		print("program next", symbols[i], dlsym(RTLD_NEXT, symbols[i]));
		print("program default", symbols[i], dlsym(RTLD_DEFAULT, symbols[i]));
		print("library next", symbols[i], library_next(symbols[i]));
		print("library default", symbols[i], library_default(symbols[i]));
		print("libc", symbols[i], dlsym(libc, symbols[i]));
		if (symbols[i][0] != 'i' && symbols[i][0] != 'm')
			print("program's handle", symbols[i], dlsym(program, symbols[i]));
		print("versioned", symbols[i], dlvsym(RTLD_DEFAULT, symbols[i], "GLIBC_2.2.5"));
	}
	print("library next", "main", library_next("main"));
	return 0;
}
