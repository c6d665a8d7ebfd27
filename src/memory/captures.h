/* SPDX-License-Identifier: BSD-3-Clause */
/* captures.h -- captures of streams in progress: part of the memory layer's contract
 *
 * During a capture the driver refuses some calls, and ends the capture: frees, SYNC_MEMOPS and
 * waits for a whole context (measured). The first two only in the thread that captures and in
 * threads of its mode. Any thread; no lock.
 */
#ifndef PEERPIN_MEMORY_CAPTURES_H
#define PEERPIN_MEMORY_CAPTURES_H

#include <stdbool.h>

#include "memory/cuda_abi.h"

/* Call before the program begins to capture a stream, and with its return value and the driver's
 * result, which it returns; and after the end of a capture. The first call waits for other threads
 * between captures_hold_off() and captures_admit(). */
bool captures_begin(void);
CUresult captures_begun(bool counted, CUresult result);
void captures_ended(void);

/* True if a stream may be captured now: rather too often, but false for captures begun by an
 * unknown call. */
bool captures_may_be_open(void);

/* True: no capture is open, and none begins before captures_admit(), unless by an unknown call.
 * False: do not call captures_admit(). In between: one call into the driver, which may end
 * captures, and does not wait for the GPU. A wait could be for work that the capturing thread has
 * yet to allow. */
bool captures_hold_off(void);
void captures_admit(void);

/* The driver has reported a capture that is not counted: captures count as open from now on, and
 * nothing more is kept. */
void captures_are_unknown(void);

#endif
