/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter.h -- shared by tests of the simulated adapter, each in a process of its own */
#ifndef PEERPIN_TESTS_ADAPTER_H
#define PEERPIN_TESTS_ADAPTER_H

#include "ends/ends.h"

/* A test, with a context and a protection domain; it may require the adapter to abort. */
#define ADAPTER_TEST(name)                                                                         \
	static void name##_body(void);                                                             \
	static void name(unsigned int unused)                                                      \
	{                                                                                          \
		(void)unused;                                                                      \
		set_up();                                                                          \
		name##_body();                                                                     \
		require(!expected_abort);                                                          \
	}                                                                                          \
	static void name##_body(void)

extern const char *expected_abort;
/* The process ends well if it aborts with this text in its message. */
void expect_abort(const char *message);

uint64_t host(size_t size);
bool is_preloaded(void);

extern const struct test use_tests[];

#endif
