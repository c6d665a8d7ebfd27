/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_client.c -- identifies protection domains whose client indexes registrations by key
 *
 * libfabric does (util_mr_map.c): it refuses a registration whose key it has. Registrations inside
 * one allocation have equal keys, so protection domains of libfabric need unique keys. Unique keys
 * cost hits, so protection domains of other clients do not get them.
 *
 * The client is the caller of ibv_alloc_pd: libfabric and its provider plug-ins allocate their
 * protection domains themselves. A wrong "other client" makes a libfabric registration fail, a
 * wrong "libfabric" costs hits. So an unidentified caller counts as libfabric while a libfabric is
 * loaded: a call that bypassed the wrapper, or came through an object that allocates for others.
 */
#include "intercept/verbs.h"

#include "base/config.h"
#include "base/loaded.h"
#include "base/process.h"
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

/* libfabric defines fi_getinfo, also inside another library (an MPICH that contains libfabric). A
 * provider plug-in defines fi_prov_ini. Names are for an object without a GNU hash table. */
static bool client_is_libfabric(const char *name, const struct object_tables *tables)
{
	return text_begins(name, "libfabric.so") || text_contains(name, "-fi.so") ||
	       object_find(tables, "fi_getinfo") || object_find(tables, "fi_prov_ini");
}

/* Another preload's wrapper, or librdmacm. */
static bool client_allocates_for_others(const struct object_tables *tables)
{
	return object_find(tables, "ibv_alloc_pd") || object_find(tables, "rdma_create_id");
}

enum client { UNIDENTIFIED, LIBFABRIC, OTHER };

static enum client client_of(const struct dl_phdr_info *object)
{
	const char *name = object_file_name(object);
	struct object_tables tables;

	if (!object_read(object, &tables))
		return OTHER;
	if (client_is_libfabric(name, &tables))
		return LIBFABRIC;
	return client_allocates_for_others(&tables) ? UNIDENTIFIED : OTHER;
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
	enum unique_keys mode = config_get()->unique_keys;
	enum client client = UNIDENTIFIED;

	if (mode != UNIQUE_KEYS_AUTO)
		return mode == UNIQUE_KEYS_YES;
	loaded_walk(client_check_caller, &client);
	if (client == UNIDENTIFIED)
		loaded_walk(client_check_loaded, &client);
	return client == LIBFABRIC;
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
