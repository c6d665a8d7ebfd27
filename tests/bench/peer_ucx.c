/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_ucx.c -- UCX's registration cache, with registrations that do nothing and no memory events
 */
#include "peer.h"

#include <dlfcn.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <ucs/memory/rcache.h>

/* Registrations are aligned alike in both versions of the interface. */
#ifdef HAVE_UCS_RCACHE_PARAMS_T_ALIGNMENT
#define CREATE_ALIGNMENT .alignment = UCS_RCACHE_MIN_ALIGNMENT, .max_alignment = 4096,
#define GET_ALIGNMENT
#else
#define CREATE_ALIGNMENT
#define GET_ALIGNMENT UCS_RCACHE_MIN_ALIGNMENT,
#endif

/* Users keep their keys behind UCX's part of the struct. */
struct region {
	ucs_rcache_region_t cache;
	uint64_t key;
};

static ucs_rcache_t *cache;
static __typeof__(ucs_rcache_create) *create;
static __typeof__(ucs_rcache_get) *get;
static __typeof__(ucs_rcache_region_put) *put;

bool peer_begin(void)
{
	const char *(*version)(void);
	void *ucs = dlopen("libucs.so.0", RTLD_NOW), *ucp = dlopen("libucp.so.0", RTLD_NOW);

	if (!ucs || !ucp)
		return false;
	create = (__typeof__(create))dlsym(ucs, "ucs_rcache_create");
	get = (__typeof__(get))dlsym(ucs, "ucs_rcache_get");
	put = (__typeof__(put))dlsym(ucs, "ucs_rcache_region_put");
	version = (const char *(*)(void))dlsym(ucp, "ucp_get_version_string");
	return create && get && put && version && !strcmp(version(), UCX_VERSION);
}

static ucs_status_t register_region(void *context, ucs_rcache_t *in, void *key,
				    ucs_rcache_region_t *region, uint16_t flags)
{
	(void)context;
	(void)in;
	(void)flags;
	((struct region *)region)->key = *(uint64_t *)key;
	return UCS_OK;
}

static void deregister_region(void *context, ucs_rcache_t *in, ucs_rcache_region_t *region)
{
	(void)context;
	(void)in;
	(void)region;
}

static void dump_region(void *context, ucs_rcache_t *in, ucs_rcache_region_t *region, char *text,
			size_t size)
{
	(void)context;
	(void)in;
	(void)region;
	if (size)
		*text = '\0';
}

/* The key, or a value that spoils the sum. `key`: that of a new region. */
static inline uint64_t use(uint64_t address, uint64_t length, uint64_t *key)
{
	ucs_rcache_region_t *region;
	uint64_t found;

	if (get(cache, (void *)address, length, GET_ALIGNMENT PROT_READ | PROT_WRITE, key,
		&region) != UCS_OK)
		return 1;
	found = ((struct region *)region)->key;
	put(cache, region);
	return found;
}

void peer_make(const uint64_t *bases, const uint64_t *sizes, uint64_t *keys, uint64_t count)
{
	static const ucs_rcache_ops_t operations = { .mem_reg = register_region,
						     .mem_dereg = deregister_region,
						     .dump_region = dump_region };
	ucs_rcache_params_t parameters = { .region_struct_size = sizeof(struct region),
					   CREATE_ALIGNMENT.ops = &operations,
					   .flags = UCS_RCACHE_FLAG_NO_PFN_CHECK,
					   .max_regions = ULONG_MAX,
					   .max_size = SIZE_MAX,
					   .max_unreleased = SIZE_MAX };

	bench_require(create(&parameters, "bench", NULL, &cache) == UCS_OK, "UCX makes no cache");
	for (uint64_t i = 0; i < count; i++)
		bench_require(use(bases[i], sizes[i], &keys[i]) == keys[i],
			      "UCX registers something else");
}

uint64_t peer_use(const uint64_t *addresses, uint64_t addresses_count, uint64_t start,
		  uint64_t length, uint64_t count)
{
	uint64_t sum = 0, missed = 1, at = start;

	for (; count; count--) {
		sum += use(addresses[at], length, &missed);
		if (++at == addresses_count)
			at = 0;
	}
	return sum;
}
