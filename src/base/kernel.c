/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel.c -- enters the kernel; a file of its own, so that unit tests can stand in for the kernel
 */
#include "base/kernel.h"

#include "base/start.h"

AT_START long kernel_enter(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	register long fourth __asm__("r10") = d;
	register long fifth __asm__("r8") = e;
	register long sixth __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long call __asm__("x8") = number;
	register long first __asm__("x0") = a;
	register long second __asm__("x1") = b;
	register long third __asm__("x2") = c;
	register long fourth __asm__("x3") = d;
	register long fifth __asm__("x4") = e;
	register long sixth __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(first)
			 : "r"(call), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
			 : "memory");
	return first;
#endif
}
