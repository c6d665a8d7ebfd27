/* SPDX-License-Identifier: BSD-3-Clause */
/* load_watch_aarch64.S -- the exported dlopen, dlmopen and dlvsym
 *
 * Run path, namespace and next definition depend on the return address. So the real functions are
 * entered by a branch, as dlsym is (dlsym_*.S).
 */
	.macro LOADER name
	.globl	\name
	.type	\name, %function
	.p2align 4
\name:
	.cfi_startproc
	stp	x29, x30, [sp, #-48]!
	.cfi_def_cfa_offset 48
	.cfi_offset x29, -48
	.cfi_offset x30, -40
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	bl	\name\()_decide
	mov	x16, x0
	ldr	x2, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #48
	.cfi_restore x30
	.cfi_restore x29
	.cfi_def_cfa_offset 0
	cbz	x16, 1f
	br	x16
1:	mov	x0, xzr
	ret
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.text
	LOADER dlopen
	LOADER dlmopen
	LOADER dlvsym

	.section .note.GNU-stack, "", %progbits
