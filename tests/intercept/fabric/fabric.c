/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric.c -- a library named libfabric; its presence is all that is needed */
unsigned int fi_version(void);

unsigned int fi_version(void)
{
	return 1u << 16 | 17;
}
