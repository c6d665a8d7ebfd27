/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric.c -- a library of libfabric's name, which is all that is asked of it */
unsigned int fi_version(void);

unsigned int fi_version(void)
{
	return 1u << 16 | 17;
}
