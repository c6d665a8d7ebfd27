/* SPDX-License-Identifier: BSD-3-Clause */
/* entries_x86_64.S -- the exported entries of the driver's functions
 *
 * UCX hooks CUDA by patching the first bytes of a function, and moves these bytes elsewhere. It
 * supports few instructions. Compiler output has unsupported ones, tail jumps above all. Each entry
 * is therefore fixed code without effect, and a jump to the C function.
 *
 * SIM_NEWER_ENTRIES: entries begin like those of drivers 575 and newer, with `sub $imm8, %rsp`.
 * UCX 1.12.1 to 1.18.0 does not support this instruction (openucx/ucx#10627). Without it: stores
 * below the stack pointer, which all versions of UCX support.
 */
#ifdef __x86_64__
	.macro ENTRY name
	.globl	\name
	.type	\name, @function
	.p2align 5
\name:
	.cfi_startproc
#ifdef SIM_NEWER_ENTRIES
	subq	$0x18, %rsp
	.cfi_adjust_cfa_offset 0x18
	movq	%rbx, 0x8(%rsp)
	movq	%rbp, 0x10(%rsp)
	addq	$0x18, %rsp
	.cfi_adjust_cfa_offset -0x18
#else
	movq	%rbx, -0x18(%rsp)
	movq	%rbp, -0x10(%rsp)
	movq	%rbx, -0x18(%rsp)
#endif
	jmp	sim_\name
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.text
#define FUNCTION(symbol, ...) ENTRY symbol;
#include "memory/cuda_abi.def"
#undef FUNCTION
#endif

	.section .note.GNU-stack, "", %progbits
