/* SPDX-License-Identifier: BSD-3-Clause */
/* key_holders.c -- whether registrations in a protection domain may have the same keys
 *
 * For most clients keys are what an adapter is given, and nothing else. libfabric also finds its registrations by them (ofi_rxm,
 * in domains with FI_ATOMIC): of two with the same key the second is refused. Whose a protection domain is, nobody says;
 * where libfabric is loaded and UCX's verbs transport is not, it is taken for libfabric's.
 */
#include "registration/internal.h"

#include <link.h>

#include "base/config.h"
#include "base/text.h"

struct loaded {
	bool libfabric, ucx;
};

static int look_at(struct dl_phdr_info *object, size_t size, void *argument)
{
	const char *name = text_file_name(object->dlpi_name ? object->dlpi_name : "");
	struct loaded *loaded = argument;

	(void)size;
	loaded->libfabric |= text_begins(name, "libfabric.so");
	loaded->ucx |= text_begins(name, "libuct_ib.so");
	return 0;
}

bool keys_have_one_holder(void)
{
	struct loaded loaded = { 0 };

	if (config_get()->keys != KEYS_AUTO)
		return config_get()->keys == KEYS_OWN;
	dl_iterate_phdr(look_at, &loaded);
	return loaded.libfabric && !loaded.ucx;
}
