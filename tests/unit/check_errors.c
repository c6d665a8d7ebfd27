/* SPDX-License-Identifier: BSD-3-Clause */
/* check_errors.c -- each failure has a cause and a fix that fit in a line; an ambiguous error
 * number is explained by further readings */
#include "suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "report/errors.h"

/* Bytes of the longest line beside cause and fix: prefix, addresses, lengths, the consequence, a
 * second cause. */
#define REST 560

CASE(errors);

TEST(errors, every_row_has_cause_and_cure_that_fit)
{
	struct errors_text text;
	unsigned int rows = 0;

	for (; errors_row(rows, &text); rows++) {
		ck_assert_msg(*text.name && *text.cause && *text.fix, "%s %d",
			      errors_call_name(text.call), text.number);
		ck_assert_msg(text.cause[strlen(text.cause) - 1] != '.', "%s ends in a full stop",
			      text.cause);
		ck_assert_msg(text.fix[strlen(text.fix) - 1] == '.',
			      "%s does not end in a full stop", text.fix);
		ck_assert_msg(strlen(text.cause) + strlen(text.fix) + REST < LOG_LINE_LENGTH,
			      "%s: too long", text.cause);
		ck_assert_int_gt(text.number, 0);
		for (unsigned int other = 0; other < rows; other++) {
			struct errors_text before;

			ck_assert(errors_row(other, &before));
			ck_assert_msg(before.call != text.call || before.number != text.number,
				      "%s twice", text.name);
		}
	}
	ck_assert_uint_gt(rows, 20);
	for (unsigned int call = 0; call < ERRORS_CALLS; call++)
		ck_assert(*errors_call_name((enum errors_call)call));
}

TEST(errors, a_call_has_its_own_rows_and_those_of_its_family)
{
	struct errors_text text = errors_look_up(ERRORS_REG_DMABUF, 524);

	ck_assert_str_eq(text.name, "ENOTSUPP");
	ck_assert_ptr_nonnull(strstr(text.cause, "PCI"));
	ck_assert_str_ne(errors_cause(ERRORS_REG_MR, EFAULT),
			 errors_cause(ERRORS_REG_DMABUF, EFAULT));
	text = errors_look_up(ERRORS_REG_MR, ENODEV);
	ck_assert_str_eq(text.name, "ENODEV");
	ck_assert_int_eq((int)text.call, ERRORS_REG_MR);
	ck_assert_str_eq(text.cause, errors_cause(ERRORS_KERNEL, ENODEV));
	ck_assert_str_eq(errors_fix(ERRORS_EXPORT, 802), errors_fix(ERRORS_CUDA, 802));
	/* Each call has its own family of error numbers. */
	ck_assert_str_eq(errors_look_up(ERRORS_EXPORT, ENODEV).name, "");
}

TEST(errors, what_is_unknown_says_its_number)
{
	struct errors_text text = errors_look_up(ERRORS_REG_MR, 4711);
	char description[128], small[8];

	errors_describe(&text, description, sizeof(description));
	ck_assert_str_eq(description,
			 "ibv_reg_mr: error 4711: peerpin has no text for this number");
	ck_assert(*text.fix);
	text = errors_look_up(ERRORS_EXPORT, 801);
	errors_describe(&text, description, sizeof(description));
	ck_assert_int_eq(
		strncmp(description,
			"cuMemGetHandleForAddressRange: CUDA_ERROR_NOT_SUPPORTED (801): ", 62),
		0);
	errors_describe(&text, small, sizeof(small));
	ck_assert_str_eq(small, "cuMemGe");
}

#define GIB ((uint64_t)1 << 30)

TEST(errors, readings_tell_which_room_is_missing)
{
	static const struct {
		struct errors_room room;
		const char *cause;
	} cases[] = {
		{ { GIB, 0, 65536, 32 * GIB, 10, 1000 }, "exceeds RLIMIT_MEMLOCK" },
		{ { GIB, 31 * GIB, UINT64_MAX, 32 * GIB, 10, 1000 }, "BAR1, which" },
		{ { GIB, 0, UINT64_MAX, 256u << 20, 10, 0 }, "BAR1, which" },
		{ { GIB, 0, UINT64_MAX, 32 * GIB, 990, 1000 }, "memory regions of the adapter" },
		{ { GIB, 0, UINT64_MAX, 32 * GIB, 10, 1000 }, "a limit is exhausted: " },
		{ { GIB, 0, UINT64_MAX, 0, 10, 0 }, "a limit is exhausted: " },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct errors_text text = errors_no_room(ERRORS_REG_MR, &cases[i].room);

		ck_assert_str_eq(text.name, "ENOMEM");
		ck_assert_msg(strstr(text.cause, cases[i].cause) != NULL, "%zu: %s", i, text.cause);
		ck_assert_uint_lt(strlen(text.cause) + strlen(text.fix) + REST, LOG_LINE_LENGTH);
	}
}

TEST(errors, readings_tell_why_there_are_no_pages)
{
	ck_assert_ptr_nonnull(
		strstr(errors_no_pages(false, false, true).cause, "nvidia-peermem is not loaded"));
	ck_assert_ptr_nonnull(
		strstr(errors_no_pages(true, true, false).cause, "does not support VMM memory"));
	ck_assert_ptr_nonnull(
		strstr(errors_no_pages(true, true, true).cause, "gpuDirectRDMACapable"));
	ck_assert_str_eq(errors_no_pages(true, false, true).cause,
			 errors_cause(ERRORS_REG_MR, EFAULT));
}

TEST(errors, the_limit_of_locked_memory_is_read)
{
	struct rlimit limit = { 4096, 4096 };
	bool all = errors_lockable() == UINT64_MAX;

	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	/* The limit does not bind a privileged process. */
	ck_assert(errors_lockable() == 4096 || (all && errors_lockable() == UINT64_MAX));
}

SUITE("errors")
