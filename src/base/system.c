/* SPDX-License-Identifier: BSD-3-Clause */
/* system.c -- finds functions of libc in the objects that are loaded, by reading their symbol tables
 *
 * dl_iterate_phdr is the only function of the dynamic linker that has kept its name and version since the
 * beginning. It shows the objects of our own namespace; among those, dlsym is looked up by hand in libc, or in
 * libdl where that is a library of its own. The rest then is found by asking dlsym. No name of a version stands
 * here, nor any private function: both have come and gone (traps T1 and T2 of the sheet on interception).
 */
#include "base/system.h"

#include <errno.h>
#include <link.h>
#include <stddef.h>

#include "base/object.h"
#include "base/text.h"

typedef void *dlsym_function(void *handle, const char *symbol);
typedef void *dlvsym_function(void *handle, const char *symbol, const char *version);
typedef int dladdr_function(const void *address, Dl_info *object);
typedef void *dlopen_function(const char *file, int mode);
typedef int pthread_create_function(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
				    void *argument);

struct search {
	const char *symbol;
	void *found;
};

/* Called for each object; ends the walk once the symbol is there. */
static int search_object(struct dl_phdr_info *object, size_t size, void *argument)
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

static void *search_libc(const char *symbol)
{
	struct search search = { .symbol = symbol };

	dl_iterate_phdr(search_object, &search);
	return search.found;
}

static dlsym_function *get_dlsym(void)
{
	static dlsym_function *libc_dlsym; /* whoever looks stores the same */
	dlsym_function *function = __atomic_load_n(&libc_dlsym, __ATOMIC_ACQUIRE);

	if (!function) {
		function = (dlsym_function *)search_libc("dlsym");
		__atomic_store_n(&libc_dlsym, function, __ATOMIC_RELEASE);
	}
	return function;
}

const void *system_libc_dlsym(void)
{
	return (const void *)get_dlsym();
}

void *system_dlsym(void *handle, const char *symbol)
{
	dlsym_function *function = get_dlsym();

	return function ? function(handle, symbol) : NULL;
}

/* A function of the dynamic linker or of libpthread: the first definition in the program's scope, so that a
 * sanitizer's or profiler's thread functions are called as if this were linked. On an old system libdl may have
 * come in by a plug-in, out of that scope. */
static void *find(const char *symbol)
{
	void *found = system_dlsym(RTLD_DEFAULT, symbol);

	return found ? found : search_libc(symbol);
}

#define FIND(name)                                                                                           \
	({                                                                                                   \
		static name##_function *cached;                                                              \
		name##_function *function_ = __atomic_load_n(&cached, __ATOMIC_ACQUIRE);                     \
		if (!function_) {                                                                            \
			function_ = (name##_function *)find(#name);                                          \
			__atomic_store_n(&cached, function_, __ATOMIC_RELEASE);                              \
		}                                                                                            \
		function_;                                                                                   \
	})

void *system_dlvsym(void *handle, const char *symbol, const char *version)
{
	dlvsym_function *function = FIND(dlvsym);

	return function ? function(handle, symbol, version) : NULL;
}

bool system_dladdr(const void *address, Dl_info *object)
{
	dladdr_function *function = FIND(dladdr);

	return function && function(address, object);
}

void *system_find_library(const char *soname)
{
	dlopen_function *function = FIND(dlopen);

	return function ? function(soname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

int system_start_thread(void *(*run)(void *))
{
	pthread_create_function *function = FIND(pthread_create);
	pthread_attr_t attributes;
	pthread_t thread;
	int error;

	if (!function)
		return ENOSYS;
	error = pthread_attr_init(&attributes);
	if (error)
		return error;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	error = function(&thread, &attributes, run, NULL);
	pthread_attr_destroy(&attributes);
	return error;
}
