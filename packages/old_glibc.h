/* SPDX-License-Identifier: BSD-3-Clause */
/* old_glibc.h -- included first in each file of a tarball's programs: functions that moved into libc
 * with glibc 2.34 keep the version that glibc 2.28 has in libdl and libpthread */
#ifndef __ASSEMBLER__
#if defined(__x86_64__)
#define OLD_GLIBC "GLIBC_2.2.5"
#else
#define OLD_GLIBC "GLIBC_2.17"
#endif
#define OLD(symbol) __asm__(".symver " #symbol "," #symbol "@" OLD_GLIBC)
OLD(dladdr);
OLD(dlerror);
OLD(dlopen);
OLD(dlsym);
OLD(dlvsym);
OLD(pthread_create);
OLD(pthread_detach);
OLD(pthread_once);
#endif
