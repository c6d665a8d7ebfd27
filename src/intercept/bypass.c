/* SPDX-License-Identifier: BSD-3-Clause */
/* bypass.c -- finds callers that reach the CUDA driver past us
 *
 * A plug-in opened with RTLD_DEEPBIND is bound to the driver and to libc before the program's own scope, so
 * neither our exports nor our dlsym are seen by it (trap T23). Nothing can be done about it that would be right;
 * but it can be read from its relocations, once they are bound. A second driver in another namespace is seen in
 * the list of mappings.
 */
#include "intercept/bypass.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/kernel.h"
#include "base/log.h"
#include "base/near.h"
#include "base/object.h"
#include "base/statistics.h"
#include "base/system.h"
#include "base/text.h"
#include "intercept/entry_points.h"
#include "intercept/load_watch.h"
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

#define UNBOUND_MAX 256

/* A call that will be bound when it is made: past us, if its slot then holds `past`. */
struct slot {
	_Atomic(const void *const *) place;
	_Atomic(const void *) past;
};

/* What the last look saw. look_lock guards it; the dynamic linker's own lock is taken with it held, which nobody
 * holds who calls us. */
static pthread_mutex_t look_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long long adds_seen, subs_seen;
static struct slot unbound[UNBOUND_MAX];
static unsigned int unbound_count; /* more than there is room for: some are only seen at the next full look */

/* The same for who only asks whether a look is due, without the lock: of the last look that is over. While one goes on
 * settled_adds is UNSETTLED, and `unbound` may change. */
#define UNSETTLED ULLONG_MAX
static _Atomic unsigned long long settled_adds = UNSETTLED, settled_subs;
static _Atomic unsigned int settled_count;

/* Whether that need not be asked, as long as no load is noted (load_watch.h): the first look has found that whatever is
 * loaded plainly comes to us, and that there is no other namespace, in which an auditor could load what it likes. */
static _Atomic bool plain_come_here;
static unsigned long long objects_seen, objects_loaded; /* here; in all namespaces */

#define set(place, value) atomic_store_explicit((place), (value), memory_order_relaxed)
#define get(place)	  atomic_load_explicit((place), memory_order_relaxed)

/* The driver's own libraries, and UCX's hooks, which are given the driver's functions on purpose; libc and the
 * dynamic linker have dlsym from themselves. */
static bool is_exempt(const char *name)
{
	static const char prefixes[][16] = { "libcuda.so", "libucm",	    "libucs",	"libc.so",
					     "libdl.so",   "libpthread.so", "ld-linux", "libpeerpin" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (text_begins(name, prefixes[i]))
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
		      const ElfW(Rela) * relocation)
{
	const char *symbol = tables->strings + tables->symbols[ELF64_R_SYM(relocation->r_info)].st_name;
	unsigned long type = ELF64_R_TYPE(relocation->r_info);
	const struct entry_point *row;
	const void *const *place;
	const void *past;

	if (type != RELOCATION_OF_CALL && type != RELOCATION_OF_ADDRESS && type != RELOCATION_OF_WORD)
		return false;
	row = entry_find(symbol);
	if (!row && !text_equals(symbol, "dlsym"))
		return false;
	past = row ? __atomic_load_n(entry_driver_of(row), __ATOMIC_ACQUIRE) : system_libc_dlsym();
	place = (const void *const *)(tables->base + relocation->r_offset);
	/* An object that another thread is just loading has not been relocated at all. */
	if (!*place || is_unbound(object, (uintptr_t)*place) ||
	    is_unbound(object, object->dlpi_addr + (uintptr_t)*place)) {
		if (unbound_count < UNBOUND_MAX) {
			set(&unbound[unbound_count].place, place);
			set(&unbound[unbound_count].past, past);
		}
		unbound_count++;
	}
	return past && *place == past;
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
	const char *name = text_file_name(object->dlpi_name ? object->dlpi_name : "");
	struct object_tables tables;
	bool past = false;

	(void)size;
	(void)argument;
	objects_seen++;
	objects_loaded = object->dlpi_adds - object->dlpi_subs;
	if (is_exempt(name) || !object_read(object, &tables))
		return 0;
	for (size_t i = 0; i < tables.call_count; i++)
		past |= goes_past(object, &tables, &tables.calls[i]);
	for (size_t i = 0; i < tables.data_count; i++)
		past |= goes_past(object, &tables, &tables.data[i]);
	if (!past)
		return 0;
	if (was_told(object->dlpi_addr))
		return 0;
	memory_verify_always();
	statistics_count(bypasses);
	log_message(LOG_WARN,
		    "%s was opened with RTLD_DEEPBIND: its calls to the CUDA driver are not seen, and every "
		    "use of "
		    "memory is checked with the driver from now on. Open it without RTLD_DEEPBIND.",
		    name);
	return 0;
}

static bool was_bound_past(const struct slot *slot)
{
	const void *past = get(&slot->past);

	return past && *get(&slot->place) == past;
}

/* Whether anything was loaded or unloaded, or a call has been bound past us, since the last look. While this runs
 * nothing is unloaded. */
static int has_changed(struct dl_phdr_info *object, size_t size, void *changed)
{
	unsigned int count = unbound_count < UNBOUND_MAX ? unbound_count : UNBOUND_MAX;
	bool found = object->dlpi_adds != adds_seen || object->dlpi_subs != subs_seen;

	(void)size;
	for (unsigned int i = 0; i < count && !found; i++)
		found = was_bound_past(&unbound[i]);
	adds_seen = object->dlpi_adds;
	subs_seen = object->dlpi_subs;
	*(bool *)changed = found;
	return 1;
}

/* "from-to rights offset device inode path", without the end of the line: the beginning of a driver? */
static bool begins_driver(const char *line)
{
	return text_contains(line, "/libcuda.so") && text_contains(line, " 00000000 ");
}

/* The number of drivers that are mapped, as /proc/self/maps tells. */
static unsigned int count_drivers(void)
{
	int fd = kernel_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	char text[4096], line[512];
	unsigned int found = 0;
	size_t length = 0;
	ssize_t got;

	if (fd < 0)
		return 0;
	while ((got = kernel_read(fd, text, sizeof(text))) > 0) {
		for (ssize_t i = 0; i < got; i++) {
			if (text[i] != '\n') {
				/* The rest of a longer line is of no interest. */
				if (length < sizeof(line) - 1)
					line[length++] = text[i];
				continue;
			}
			line[length] = '\0';
			found += begins_driver(line);
			length = 0;
		}
	}
	kernel_close(fd);
	return found;
}

static void look_for_namespaces(void)
{
	static bool told;

	if (count_drivers() < 2 || __atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		return;
	memory_verify_always();
	statistics_count(bypasses);
	log_message(LOG_WARN,
		    "a second libcuda is loaded, in a namespace of its own (dlmopen): calls into it are not "
		    "seen. Every use of memory is checked with the driver from now on.");
}

/* Found out once: the order of the program's scope never changes. */
static bool plain_loads_come_here(void)
{
	static _Atomic int known; /* 0: not yet; 1: they do */
	int come_here = get(&known);

	if (!come_here) {
		come_here = load_watch_come_here() ? 1 : -1;
		set(&known, come_here);
	}
	return come_here > 0;
}

/* Nothing can have come past us since the first look. */
static inline bool nothing_bypasses(void)
{
	return get(&plain_come_here) && !load_watch_are_noted();
}

static __attribute__((noinline, cold)) void look(void)
{
	int saved_errno = errno;
	static bool first = true;
	bool changed = false, come_here;

	/* These three without look_lock: they look up names, and who is just loading something holds the lock for that while
	 * constructors run, which may come here. */
	system_prepare();    /* for what the log may have to say within */
	entry_find_driver(); /* a program that only links has not asked for it yet */
	come_here = plain_loads_come_here();
	pthread_mutex_lock(&look_lock);
	dl_iterate_phdr(has_changed, &changed);
	if (changed) {
		set(&settled_adds, UNSETTLED);
		atomic_thread_fence(memory_order_release);
		unbound_count = 0;
		objects_seen = 0;
		dl_iterate_phdr(look_at, NULL);
		look_for_namespaces();
		if (first)
			set(&plain_come_here, come_here && objects_seen == objects_loaded);
		first = false;
	}
	set(&settled_subs, subs_seen);
	set(&settled_count, unbound_count);
	atomic_store_explicit(&settled_adds, unbound_count > UNBOUND_MAX ? UNSETTLED : adds_seen,
			      memory_order_release);
	pthread_mutex_unlock(&look_lock);
	errno = saved_errno;
}

/* Asked at each allocation: the slots that are not bound yet lie in as many lines of memory, all over the process. */
NEAR void bypass_scan(void)
{
	if (!nothing_bypasses())
		look();
}

static int is_as_settled(struct dl_phdr_info *object, size_t size, void *settled)
{
	unsigned long long adds = atomic_load_explicit(&settled_adds, memory_order_acquire);
	unsigned int count = get(&settled_count);
	bool same = object->dlpi_adds == adds && object->dlpi_subs == get(&settled_subs);

	(void)size;
	for (unsigned int i = 0; i < count && same; i++)
		same = !was_bound_past(&unbound[i]);
	atomic_thread_fence(memory_order_acquire);
	*(bool *)settled = same && get(&settled_adds) == adds;
	return 1;
}

bool bypass_is_settled(void)
{
	bool settled = false;

	if (nothing_bypasses())
		return true;
	dl_iterate_phdr(is_as_settled, &settled);
	return settled;
}
