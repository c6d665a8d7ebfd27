/* SPDX-License-Identifier: BSD-3-Clause */
/* auditor.c -- an audit library (LD_AUDIT) that binds calls of cuMemFree_v2 to a function of its
 * own
 */
#include <link.h>
#include <string.h>

static int (*next_free)(unsigned long long address);

static int audited_free(unsigned long long address)
{
	return next_free(address);
}

unsigned int la_version(unsigned int version)
{
	return version;
}

unsigned int la_objopen(struct link_map *object, Lmid_t name_space, uintptr_t *cookie)
{
	(void)object, (void)name_space, (void)cookie;
	return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned int index, uintptr_t *from, uintptr_t *to,
		       unsigned int *flags, const char *name)
{
	(void)index, (void)from, (void)to, (void)flags;
	if (strcmp(name, "cuMemFree_v2"))
		return symbol->st_value;
	if (!next_free)
		next_free = (int (*)(unsigned long long))symbol->st_value;
	return (uintptr_t)audited_free;
}
