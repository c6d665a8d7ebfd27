/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_client.c -- identifies the client of a protection domain: keys and access flags that it
 * needs
 *
 * The client is the caller of ibv_alloc_pd: UCX, libfabric and its provider plug-ins allocate their
 * protection domains themselves.
 *
 * libfabric indexes registrations by key (util_mr_map.c): it refuses a registration whose key it
 * has. Registrations inside one allocation have equal keys, so protection domains of libfabric need
 * unique keys. Unique keys cost hits, so protection domains of other clients do not get them. A
 * wrong "other client" makes a libfabric registration fail, a wrong "libfabric" costs hits. So an
 * unidentified caller counts as libfabric while a libfabric is loaded: a call that bypassed the
 * wrapper, or came through an object that allocates for others.
 *
 * Access flags (PEERPIN_PREREGISTER=eager): as observed with UCX 1.13, libfabric 1.17 and
 * perftest 4.5, and equal in their sources of 2026: UCT_IB_MEM_ACCESS_FLAGS (ib_md.h),
 * vrb_mr_cache_add_region() (verbs_mr.c), and by the verb that a program of perftest measures
 * (perftest_resources.c). A wrong set costs registrations that no client requests. It gives no peer
 * more access, since the client then gets no key of them.
 */
#include "intercept/verbs.h"

#include "base/config.h"
#include "base/loaded.h"
#include "base/process.h"
#include "base/start.h"
#include "base/text.h"
#include "intercept/entry_points.h"

static __thread const void *client_caller __attribute__((tls_model("initial-exec")));

const void *verbs_client_enter(const void *caller)
{
	const void *outer = client_caller;

	client_caller = caller;
	return outer;
}

void verbs_client_leave(const void *outer)
{
	client_caller = outer;
}

const void *verbs_client_caller(void)
{
	return client_caller;
}

/* libfabric defines fi_getinfo, also inside another library (an MPICH that contains libfabric). A
 * provider plug-in defines fi_prov_ini. Names are for an object without a GNU hash table. */
static bool client_is_libfabric(const char *name, const struct object_tables *tables)
{
	return text_begins(name, "libfabric.so") || text_contains(name, "-fi.so") ||
	       object_find(tables, "fi_getinfo") || object_find(tables, "fi_prov_ini");
}

/* The module that opens adapters, also inside another library. */
static bool client_is_ucx(const char *name, const struct object_tables *tables)
{
	return text_begins(name, "libuct") || object_find(tables, "uct_ib_md_open_common");
}

/* Another preload's wrapper, or librdmacm. */
static bool client_allocates_for_others(const struct object_tables *tables)
{
	return object_find(tables, "ibv_alloc_pd") || object_find(tables, "rdma_create_id");
}

enum client { UNIDENTIFIED, LIBFABRIC, UCX, PROGRAM, OTHER };

static enum client client_of(const struct dl_phdr_info *object)
{
	const char *name = object_file_name(object);
	struct object_tables tables;

	if (!object_read(object, &tables))
		return OTHER;
	if (client_is_libfabric(name, &tables))
		return LIBFABRIC;
	if (client_is_ucx(name, &tables))
		return UCX;
	if (client_allocates_for_others(&tables))
		return UNIDENTIFIED;
	return *name ? OTHER : PROGRAM;
}

/* These two store the client, and end the walk, at the caller's object and at libfabric. */
static int client_check_caller(struct dl_phdr_info *object, size_t size, void *client)
{
	(void)size;
	if (!object_contains(object, (uintptr_t)client_caller))
		return 0;
	*(enum client *)client = client_of(object);
	return 1;
}

static int client_check_loaded(struct dl_phdr_info *object, size_t size, void *client)
{
	(void)size;
	*(enum client *)client = client_of(object);
	return *(enum client *)client == LIBFABRIC;
}

bool verbs_client_indexes_keys(void)
{
	enum client client = UNIDENTIFIED;

	loaded_walk(client_check_caller, &client);
	if (client == UNIDENTIFIED)
		loaded_walk(client_check_loaded, &client);
	return client == LIBFABRIC;
}

#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define PERFTEST_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING)

/* The names of perftest's programs end in _bw or _lat. */
static int client_perftest_access(const char *program)
{
	static const struct {
		char begins[12];
		int access;
	} programs[] = {
		{ "ib_write_", PERFTEST_ACCESS | IBV_ACCESS_REMOTE_WRITE },
		{ "ib_read_", PERFTEST_ACCESS | IBV_ACCESS_REMOTE_READ },
		{ "ib_atomic_", PERFTEST_ACCESS | IBV_ACCESS_REMOTE_ATOMIC },
		{ "ib_send_", PERFTEST_ACCESS },
	};

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		if (text_begins(program, programs[i].begins))
			return programs[i].access;
	}
	return 0;
}

int verbs_client_access(const struct ibv_pd *pd)
{
	enum client client = OTHER;

	/* On others (EFA, iWARP) the same clients request other flags. */
	if (config_get()->preregister != PREREGISTER_EAGER ||
	    pd->context->device->transport_type != IBV_TRANSPORT_IB)
		return 0;
	loaded_walk(client_check_caller, &client);
	switch (client) {
	case LIBFABRIC:
	case UCX:
		return ALL_ACCESS;
	case PROGRAM:
		return client_perftest_access(start_program());
	case UNIDENTIFIED:
	case OTHER:
		break;
	}
	return 0;
}

bool verbs_client_is_entry(const char *symbol)
{
	return symbol[0] == 'i' && text_equals(symbol, "ibv_alloc_pd") &&
	       !process_is_passive_early();
}

void *verbs_client_entry(void *found)
{
	return found && found == entry_find_verbs(ENTRY_ibv_alloc_pd) ? (void *)ibv_alloc_pd
								      : found;
}
