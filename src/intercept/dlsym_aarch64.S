/* SPDX-License-Identifier: BSD-3-Clause */
/* dlsym_aarch64.S -- the exported dlsym
 *
 * A look-up with RTLD_NEXT depends on dlsym's return address. So the real dlsym is entered by a
 * branch, with the caller's return address in the link register. C cannot guarantee that.
 */
	.text
	.globl	dlsym
	.type	dlsym, %function
dlsym:
	.cfi_startproc
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	stp	x0, x1, [sp, #16]
	mov	x2, x30			/* caller */
	bl	dlsym_decide
	mov	x16, x0
	mov	x17, x1
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_restore x30
	.cfi_restore x29
	.cfi_def_cfa_offset 0
	cbz	x16, 1f
	br	x16
1:	mov	x0, x17
	ret
	.cfi_endproc
	.size	dlsym, . - dlsym

	.section .note.GNU-stack, "", %progbits
