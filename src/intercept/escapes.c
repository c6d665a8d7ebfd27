/* SPDX-License-Identifier: BSD-3-Clause */
/* escapes.c -- finds callers that reach the CUDA driver past us
 *
 * A plug-in opened with RTLD_DEEPBIND is bound to the driver and to libc before the program's own scope, so
 * neither our exports nor our dlsym are seen by it (trap T23). Nothing can be done about it that would be right;
 * but it can be read from its relocations, once they are bound. A second driver in another namespace is seen in
 * the list of mappings.
 */
#include "intercept/escapes.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/object.h"
#include "base/statistics.h"
#include "base/system.h"
#include "intercept/entry_points.h"
#include "memory/memory.h"

#if defined(__x86_64__)
#define RELOCATION_OF_CALL    R_X86_64_JUMP_SLOT
#define RELOCATION_OF_ADDRESS R_X86_64_GLOB_DAT
#define RELOCATION_OF_WORD    R_X86_64_64
#elif defined(__aarch64__)
#define RELOCATION_OF_CALL    R_AARCH64_JUMP_SLOT
#define RELOCATION_OF_ADDRESS R_AARCH64_GLOB_DAT
#define RELOCATION_OF_WORD    R_AARCH64_ABS64
#endif

/* What the last look saw; read and stored atomically. Two threads may look at once, and tell the same twice. */
static unsigned long long adds_seen;
static unsigned int looks, unbound_seen;

struct look {
	const void *libc_dlsym; /* what a caller has that does not ask us */
	unsigned int unbound;	/* calls that may go past us when they are made */
};

static const char *base_name(const char *path)
{
	const char *name = strrchr(path, '/');

	return name ? name + 1 : path;
}

/* The driver's own libraries, and UCX's hooks, which are given the driver's functions on purpose; libc and the
 * dynamic linker have dlsym from themselves. */
static bool is_exempt(const char *name)
{
	static const char *const prefixes[] = { "libcuda.so", "libucm",	       "libucs",   "libc.so",
						"libdl.so",   "libpthread.so", "ld-linux", "libpeerpin" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	}
	return false;
}

/* A call that was not made yet is bound to the object itself. */
static bool is_unbound(const struct dl_phdr_info *object, uintptr_t bound)
{
	for (ElfW(Half) i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];

		if (part->p_type == PT_LOAD && bound - (object->dlpi_addr + part->p_vaddr) < part->p_memsz)
			return true;
	}
	return false;
}

/* Whether what the object calls by `relocation` goes past us. */
static bool goes_past(const struct dl_phdr_info *object, const struct object_tables *tables,
		      const ElfW(Rela) * relocation, struct look *look)
{
	const char *symbol = tables->strings + tables->symbols[ELF64_R_SYM(relocation->r_info)].st_name;
	unsigned long type = ELF64_R_TYPE(relocation->r_info);
	const struct entry_point *row;
	const void *bound, *past;

	if (type != RELOCATION_OF_CALL && type != RELOCATION_OF_ADDRESS && type != RELOCATION_OF_WORD)
		return false;
	row = entry_find(symbol);
	if (!row && strcmp(symbol, "dlsym"))
		return false;
	past = row ? __atomic_load_n(row->driver, __ATOMIC_ACQUIRE) : look->libc_dlsym;
	bound = *(void *const *)(tables->base + relocation->r_offset);
	if (is_unbound(object, (uintptr_t)bound))
		look->unbound++;
	return past && bound == past;
}

/* Objects that were told of, by where they are loaded; beyond that many nobody needs to hear more. */
static bool was_told(ElfW(Addr) base)
{
	static ElfW(Addr) told[16];

	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		ElfW(Addr) empty = 0;

		if (__atomic_compare_exchange_n(&told[i], &empty, base, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			return false;
		if (empty == base)
			return true;
	}
	return true;
}

static int look_at(struct dl_phdr_info *object, size_t size, void *argument)
{
	const char *name = base_name(object->dlpi_name ? object->dlpi_name : "");
	struct object_tables tables;
	struct look *look = argument;
	bool past = false;

	(void)size;
	if (is_exempt(name) || !object_read(object, &tables))
		return 0;
	for (size_t i = 0; i < tables.call_count && !past; i++)
		past = goes_past(object, &tables, &tables.calls[i], look);
	for (size_t i = 0; i < tables.data_count && !past; i++)
		past = goes_past(object, &tables, &tables.data[i], look);
	if (!past)
		return 0;
	if (was_told(object->dlpi_addr))
		return 0;
	memory_distrust();
	statistics_count(escapes);
	log_message(
		LOG_WARN,
		"the calls of %s to the CUDA driver are not seen (it was opened with RTLD_DEEPBIND): what it "
		"frees is found out only afterwards, so every use is checked with the driver from now on. "
		"Open "
		"it without RTLD_DEEPBIND.",
		name);
	return 0;
}

static int read_adds(struct dl_phdr_info *object, size_t size, void *adds)
{
	(void)size;
	*(unsigned long long *)adds = object->dlpi_adds;
	return 1;
}

/* The number of drivers that are mapped: of lines of /proc/self/maps that name one at its beginning. */
static unsigned int count_drivers(void)
{
	static const char wanted[] = "/libcuda.so";
	char text[4096 + 1];
	unsigned int found = 0;
	size_t kept = 0;
	ssize_t got;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	while ((got = read(fd, text + kept, sizeof(text) - 1 - kept)) > 0) {
		char *line = text, *end;

		text[kept + (size_t)got] = '\0';
		for (; (end = strchr(line, '\n')); line = end + 1) {
			*end = '\0';
			/* "from-to rights offset device inode path" */
			if (strstr(line, wanted) && strstr(line, " 00000000 "))
				found++;
		}
		kept = strlen(line);
		memmove(text, line, kept);
		if (kept == sizeof(text) - 1)
			kept = 0; /* no line is that long */
	}
	close(fd);
	return found;
}

static void look_for_namespaces(void)
{
	static bool told;

	if (count_drivers() < 2 || __atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		return;
	memory_distrust();
	statistics_count(escapes);
	log_message(LOG_WARN,
		    "a second libcuda is loaded, in a namespace of its own (dlmopen): calls into it are not "
		    "seen. Every use of memory is checked with the driver from now on.");
}

void escapes_look(void)
{
	unsigned int count = __atomic_add_fetch(&looks, 1, __ATOMIC_RELAXED);
	struct look look = { .libc_dlsym = system_libc_dlsym() };
	unsigned long long adds = 0;
	int saved_errno = errno;

	/* What was unbound may be bound by now: it is looked at again, less and less often. */
	dl_iterate_phdr(read_adds, &adds);
	if (adds == __atomic_load_n(&adds_seen, __ATOMIC_RELAXED) &&
	    (!__atomic_load_n(&unbound_seen, __ATOMIC_RELAXED) || (count & (count - 1))))
		return;
	dl_iterate_phdr(look_at, &look);
	look_for_namespaces();
	__atomic_store_n(&unbound_seen, look.unbound, __ATOMIC_RELAXED);
	__atomic_store_n(&adds_seen, adds, __ATOMIC_RELAXED);
	errno = saved_errno;
}
