/* SPDX-License-Identifier: BSD-3-Clause */
/* captures.c -- counts captures in progress, and delays their begins for calls that would end them
 *
 * A begin counts itself in `open_captures`, a call in `holds`, each before it reads the other
 * counter. So at least one of them reads the other's count: the call is then not made, or the begin
 * waits.
 */
#include "memory/memory.h"

#include "base/atomics.h"
#include "base/kernel.h"
#include "base/process.h"
#include "base/system.h"
#include "memory/keep.h"
#include "report/statistics.h"

/* More than a process begins. */
#define CAPTURES_UNKNOWN (1 << 30)

/* A begin waits for the calls that hold it off. The limit is far above their time: the driver may
 * make a call wait that waits for nothing by itself, say for room in a stream's queue. */
#define HOLD_NS	      1000000000u
#define HOLD_PAUSE_NS 1000

static _Atomic int open_captures; /* captures in progress; rather too many than too few */
static _Atomic unsigned int holds;

static __attribute__((noinline, cold)) void captures_await_holds(void)
{
	uint64_t end = system_clock() + HOLD_NS;

	while (load_seq_cst(&holds) && system_clock() < end)
		kernel_sleep(HOLD_PAUSE_NS);
}

bool captures_begin(void)
{
	if (process_is_passive() && !process_observes())
		return false;
	add_seq_cst(&open_captures, 1);
	if (load_seq_cst(&holds))
		captures_await_holds();
	return true;
}

CUresult captures_begun(bool counted, CUresult result)
{
	if (counted && result == CUDA_SUCCESS)
		statistics_count(captures);
	else if (counted)
		captures_ended();
	return result;
}

/* An end without a begin reveals a capture call of a newer driver, and others may follow. */
void captures_ended(void)
{
	if (subtract_seq_cst(&open_captures, 1) <= 0)
		captures_are_unknown();
}

bool captures_may_be_open(void)
{
	return load_seq_cst(&open_captures);
}

bool captures_hold_off(void)
{
	add_seq_cst(&holds, 1);
	if (!load_seq_cst(&open_captures))
		return true;
	captures_admit();
	return false;
}

void captures_admit(void)
{
	subtract_seq_cst(&holds, 1);
}

void captures_are_unknown(void)
{
	store_seq_cst(&open_captures, CAPTURES_UNKNOWN);
	keep_end();
}
