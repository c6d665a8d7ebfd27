/* SPDX-License-Identifier: BSD-3-Clause */
/* system.c -- finds libc functions in the symbol tables of loaded objects
 *
 * dl_iterate_phdr is the only function of the dynamic linker that has kept its name and version.
 * Its objects are those of this namespace. dlsym is looked up by hand in libc, or in a separate
 * libdl; dlsym then finds all else. No version name and no private function is used: both have come
 * and gone (facts/interception.md, traps T1 and T2).
 */
#include "base/system.h"

#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/object.h"
#include "base/text.h"

typedef void *dlsym_function(void *handle, const char *symbol);

struct search {
	const char *symbol;
	void *found;
};

/* Callback of dl_iterate_phdr: ends the walk once the symbol is found. */
static int system_search_object(struct dl_phdr_info *object, size_t size, void *argument)
{
	static const char *const libraries[] = { "libc.so.6", "libdl.so.2", "libpthread.so.0" };
	const char *name = text_file_name(object->dlpi_name ? object->dlpi_name : "");
	struct search *search = argument;
	struct object_tables tables;

	(void)size;
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		if (text_equals(name, libraries[i]) && object_read(object, &tables))
			search->found = object_find(&tables, search->symbol);
	}
	return search->found != NULL;
}

static void *system_search_libc(const char *symbol)
{
	struct search search = { .symbol = symbol };

	dl_iterate_phdr(system_search_object, &search);
	return search.found;
}

/* Defines system_find_name(), which returns the result of `search` and keeps it if not NULL. All
 * callers share one pointer, so that system_prepare() serves all. */
#define CACHED(name, type, search)                                                                 \
	static type *system_find_##name(void)                                                      \
	{                                                                                          \
		static type *cached; /* racing threads store equal values */                       \
		type *found = __atomic_load_n(&cached, __ATOMIC_ACQUIRE);                          \
                                                                                                   \
		if (!found) {                                                                      \
			found = (type *)(search);                                                  \
			__atomic_store_n(&cached, found, __ATOMIC_RELEASE);                        \
		}                                                                                  \
		return found;                                                                      \
	}

CACHED(dlsym, dlsym_function, system_search_libc("dlsym"))

/* Call the function; `otherwise`: the result where libc lacks it. */
#define CALL(name, otherwise, ...)                                                                 \
	({                                                                                         \
		name##_function *function = system_find_##name();                                  \
		function ? function(__VA_ARGS__) : (otherwise);                                    \
	})

const void *system_libc_dlsym(void)
{
	return (const void *)system_find_dlsym();
}

void *system_dlsym(void *handle, const char *symbol)
{
	return CALL(dlsym, NULL, handle, symbol);
}

/* Find a function of the dynamic linker or libpthread: the first definition in `scope`, so that a
 * sanitizer's or profiler's functions are called. On an old system a plug-in may have loaded libdl
 * outside the program's scope: search libc's objects then. */
static void *system_find_in(void *scope, const char *symbol)
{
	void *found = system_dlsym(scope, symbol);

	return found ? found : system_search_libc(symbol);
}

/* FUNCTION(name, result, parameters...) defines system_find_name(), which returns that function of
 * the program's scope or NULL. */
#define FUNCTION(name, result, ...)                                                                \
	typedef result name##_function(__VA_ARGS__);                                               \
	CACHED(name, name##_function, system_find_in(RTLD_DEFAULT, #name))

FUNCTION(dlvsym, void *, void *handle, const char *symbol, const char *version)
FUNCTION(dladdr, int, const void *address, Dl_info *object)
FUNCTION(dlopen, void *, const char *file, int mode)
FUNCTION(vsnprintf, int, char *to, size_t size, const char *format, va_list arguments)
FUNCTION(strerror, char *, int error)
FUNCTION(pthread_setcancelstate, int, int state, int *before)
FUNCTION(pthread_cond_wait, int, pthread_cond_t *condition, pthread_mutex_t *mutex)
FUNCTION(pthread_cond_broadcast, int, pthread_cond_t *condition)
FUNCTION(pthread_create, int, pthread_t *thread, const pthread_attr_t *attributes,
	 void *(*run)(void *), void *argument)
FUNCTION(pthread_detach, int, pthread_t thread)
FUNCTION(__cxa_atexit, int, void (*handler)(void *), void *argument, void *object)
/* Target of pthread_atfork, which is linked statically. */
FUNCTION(__register_atfork, int, void (*before)(void), void (*after)(void), void (*in_child)(void),
	 void *object)

/* libc's own: a definition in the program's scope may change the time. */
typedef int clock_gettime_function(clockid_t clock, struct timespec *now);
CACHED(clock_gettime, clock_gettime_function, system_search_libc("clock_gettime"))

void *system_dlvsym(void *handle, const char *symbol, const char *version)
{
	return CALL(dlvsym, NULL, handle, symbol, version);
}

bool system_dladdr(const void *address, Dl_info *object)
{
	return CALL(dladdr, 0, address, object);
}

void *system_find_library(const char *soname)
{
	return CALL(dlopen, NULL, soname, RTLD_LAZY | RTLD_NOLOAD);
}

void *system_next(const char *symbol)
{
	return system_find_in(RTLD_NEXT, symbol);
}

int system_format_list(char *to, size_t size, const char *format, va_list arguments)
{
	int saved_errno = errno, length;

	if (size)
		*to = '\0';
	length = CALL(vsnprintf, 0, to, size, format, arguments);
	errno = saved_errno;
	return length;
}

int system_format(char *to, size_t size, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = system_format_list(to, size, format, arguments);
	va_end(arguments);
	return length;
}

const char *system_error_text(int error)
{
	int saved_errno = errno;
	const char *text = CALL(strerror, "unknown error", error);

	errno = saved_errno;
	return text;
}

CACHED(program, char *, system_dlsym(RTLD_DEFAULT, "program_invocation_short_name"))

const char *system_program(void)
{
	char **name = system_find_program();

	return name && *name ? *name : "unknown";
}

const char *system_environment(const char *name)
{
	size_t length = text_length(name);

	for (char **variable = environ; variable && *variable; variable++) {
		if (text_begins(*variable, name) && (*variable)[length] == '=')
			return *variable + length + 1;
	}
	return NULL;
}

uint64_t system_clock(void)
{
	struct timespec now;

	if (CALL(clock_gettime, -1, CLOCK_MONOTONIC, &now))
		return kernel_time(CLOCK_MONOTONIC);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void system_prepare(void)
{
	system_find_clock_gettime();
	system_find_vsnprintf();
	system_find_strerror();
	system_find_pthread_setcancelstate();
	system_find_pthread_cond_wait();
	system_find_pthread_cond_broadcast();
}

int system_hold_cancellation(void)
{
	int state = PTHREAD_CANCEL_ENABLE;

	CALL(pthread_setcancelstate, 0, PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

void system_release_cancellation(int held)
{
	CALL(pthread_setcancelstate, 0, held, NULL);
}

void system_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	pthread_cond_wait_function *wait = system_find_pthread_cond_wait();
	int held = system_hold_cancellation();

	wait(condition, mutex);
	system_release_cancellation(held);
}

void system_wake(pthread_cond_t *condition)
{
	system_find_pthread_cond_broadcast()(condition);
}

void system_at_exit(void (*handler)(void *unused))
{
	/* No object handle: the library is never unloaded. */
	CALL(__cxa_atexit, 0, handler, NULL, NULL);
}

void system_at_fork(void (*before)(void), void (*after)(void), void (*in_child)(void))
{
	CALL(__register_atfork, 0, before, after, in_child, NULL);
}

int system_start_thread(void *(*run)(void *))
{
	pthread_t thread;
	int error = CALL(pthread_create, ENOSYS, &thread, NULL, run, NULL);

	if (!error)
		CALL(pthread_detach, 0, thread);
	return error;
}
