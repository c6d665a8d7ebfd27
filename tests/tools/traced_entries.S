/* SPDX-License-Identifier: BSD-3-Clause */
/* traced_entries.S -- entries of the simulated driver's functions that record each call */
#ifdef __x86_64__
	.macro ENTRY name, count
	.globl	\name
	.type	\name, @function
\name:
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%r8
	pushq	%r9
	subq	$8, %rsp
	leaq	name_\name(%rip), %rdi
	leaq	8(%rsp), %rsi
	movl	$\count, %edx
	call	traced_call
	addq	$8, %rsp
	popq	%r9
	popq	%r8
	popq	%rcx
	popq	%rdx
	popq	%rsi
	popq	%rdi
	jmp	sim_\name
	.size	\name, . - \name
	.section .rodata
name_\name:
	.asciz	"\name"
	.text
	.endm

	.text
	/* Of at most 6 arguments, which registers hold. */
#define COUNT(...) COUNT_OF(__VA_ARGS__, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5, 4, 3, 2, 1)
#define COUNT_OF(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ...) p
#define FUNCTION(symbol, ...) ENTRY symbol, COUNT(__VA_ARGS__);
#include "memory/cuda_abi.def"
#undef FUNCTION
#endif

	.section .note.GNU-stack, "", %progbits
