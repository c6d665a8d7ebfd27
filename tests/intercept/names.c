/* SPDX-License-Identifier: BSD-3-Clause */
/* names.c -- under the preload: look-ups of every exported driver function outside of the table
 * return the driver's own
 *
 * The names come from the driver's symbol table, so an installed driver is tested as a whole.
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
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

struct tables {
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *gnu_hash;
	const uint32_t *hash;
};

static void read_tables(const struct link_map *map, struct tables *tables)
{
	for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
		const void *value = (const void *)entry->d_un.d_ptr;

		if (entry->d_tag == DT_SYMTAB)
			tables->symbols = value;
		else if (entry->d_tag == DT_STRTAB)
			tables->strings = value;
		else if (entry->d_tag == DT_GNU_HASH)
			tables->gnu_hash = value;
		else if (entry->d_tag == DT_HASH)
			tables->hash = value;
	}
}

/* Number of symbols: only the hash tables have it. */
static uint32_t count_symbols(const struct tables *tables)
{
	const uint32_t *buckets, *chain;
	uint32_t last = 0;

	if (tables->hash)
		return tables->hash[1];
	if (!tables->gnu_hash)
		return 0;
	buckets = tables->gnu_hash + 4 + tables->gnu_hash[2] * 2;
	chain = buckets + tables->gnu_hash[0];
	for (uint32_t i = 0; i < tables->gnu_hash[0]; i++)
		last = buckets[i] > last ? buckets[i] : last;
	if (!last)
		return 0;
	while (!(chain[last - tables->gnu_hash[1]] & 1))
		last++;
	return last + 1;
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
	struct tables tables = { 0 };
	struct link_map *map;
	uint32_t count;

	if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map)) {
		printf("no driver: %s\n", dlerror());
		return 77;
	}
	read_tables(map, &tables);
	count = count_symbols(&tables);
	get_address = (__typeof__(get_address))dlsym(library, "cuGetProcAddress_v2");
	for (uint32_t i = 0; i < count; i++) {
		const ElfW(Sym) *symbol = &tables.symbols[i];
		const char *name = tables.strings + symbol->st_name;
		void *address = (void *)(map->l_addr + symbol->st_value), *found, *by_name = NULL;

		if (symbol->st_shndx == SHN_UNDEF || strncmp(name, "cu", 2) ||
		    ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
			continue;
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
