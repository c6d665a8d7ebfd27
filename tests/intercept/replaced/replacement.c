/* SPDX-License-Identifier: BSD-3-Clause */
/* replacement.c -- a preload that replaces one libc function, NAME, and finds the original by dlsym
 * at the first call, as caches, profilers and sanitizers do; compiled as C and as C++
 *
 * In C a call nested in the look-up is reported. In C++ it is an error of its own, of the
 * variable's initialisation. Up to 18 arguments, integers or pointers: those beyond a call's own
 * are words of its caller's stack.
 */
#include <dlfcn.h>
#include <unistd.h>

#define PARAMETERS                                                                                 \
	long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k,    \
		long l, long m, long n, long o, long p, long q, long r
#define ARGUMENTS a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r

typedef long function(PARAMETERS);

#define TEXT(name)   #name
#define STRING(name) TEXT(name)

#ifdef __cplusplus
extern "C"
#endif
	long replacement(PARAMETERS) __asm__(STRING(NAME));

static const char nested[] = "a nested call of " STRING(NAME) "\n";

long replacement(PARAMETERS)
{
#ifdef __cplusplus
	static function *original = (function *)dlsym(RTLD_NEXT, STRING(NAME));
#else
	static function *original;
	static int looks_up;

	if (!original) {
		if (looks_up) {
			write(2, nested, sizeof(nested) - 1);
			_exit(3);
		}
		looks_up = 1;
		original = (function *)dlsym(RTLD_NEXT, STRING(NAME));
		looks_up = 0;
	}
#endif
	return original(ARGUMENTS);
}
