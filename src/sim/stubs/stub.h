/* SPDX-License-Identifier: BSD-3-Clause */
/* stub.h -- functions of a provider's library that every program may link, and none can use
 *
 * Clients are linked with libraries of providers, which require private functions of the real
 * libibverbs. In their place, beside the simulated adapter, are libraries with the functions that
 * clients link: each fails with EOPNOTSUPP. Arguments are ignored, so they are not declared.
 */
#ifndef PEERPIN_SIM_STUB_H
#define PEERPIN_SIM_STUB_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#define STUB(type, name, result)                                                                   \
	type name(void);                                                                           \
	type name(void)                                                                            \
	{                                                                                          \
		errno = EOPNOTSUPP;                                                                \
		return result;                                                                     \
	}

/* A new object; an error number; a number of bytes; whether a device is of the provider. */
#define STUB_OBJECT(name)    STUB(void *, name, NULL)
#define STUB_ERROR(name)     STUB(int, name, EOPNOTSUPP)
#define STUB_SIZE(name)	     STUB(long, name, -1)
#define STUB_PREDICATE(name) STUB(bool, name, false)

/* An end of an object that there cannot be. */
#define STUB_END(name)                                                                             \
	void name(void);                                                                           \
	void name(void)                                                                            \
	{                                                                                          \
	}

#endif
