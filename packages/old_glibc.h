/* SPDX-License-Identifier: BSD-3-Clause */
/* old_glibc.h -- included first in each file of a tarball's programs: functions that moved into
 * libc with glibc 2.34 keep the version that glibc 2.28 has in libdl and libpthread */
#ifndef __ASSEMBLER__
#if defined(__x86_64__)
#define OLD_GLIBC    "GLIBC_2.2.5"
#define OLD_AFFINITY "GLIBC_2.3.4"
#define OLD_NAME     "GLIBC_2.12"
#else
#define OLD_GLIBC    "GLIBC_2.17"
#define OLD_AFFINITY OLD_GLIBC
#define OLD_NAME     OLD_GLIBC
#endif
#define OLD_OF(symbol, version) __asm__(".symver " #symbol "," #symbol "@" version)
#define OLD(symbol)		OLD_OF(symbol, OLD_GLIBC)
OLD(dladdr);
OLD(dlclose);
OLD(dlerror);
OLD(dlopen);
OLD(dlsym);
OLD(dlvsym);
OLD(pthread_create);
OLD(pthread_detach);
OLD(pthread_mutex_trylock);
OLD(pthread_once);
OLD(pthread_sigmask);
OLD(pthread_testcancel);
OLD_OF(pthread_setaffinity_np, OLD_AFFINITY);
OLD_OF(pthread_setname_np, OLD_NAME);
#endif
