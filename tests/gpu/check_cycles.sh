#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_cycles.sh -- cycles.c under the preload, with the simulated adapter; on a GPU machine with
# the real driver
# GPU_CYCLES: number of cycles (default 10 000; simulated: 200). 20 cycles in verify mode precede, and 200 of the worker alone.
program=tests/gpu/cycles
[ -x tests/gpu/.libs/cycles ] && program=tests/gpu/.libs/cycles
[ -x "$program" ] || exit 77
libraries=$PWD/src/sim/adapter/.libs
cycles=10000
if [ ! -e /dev/nvidiactl ]; then
	libraries=$libraries:$PWD/src/sim/.libs
	cycles=200
fi
libraries=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
preload=$PWD/src/.libs/libpeerpin.so

status=0
env -u PEERPIN_STATS_FILE PEERPIN_VERIFY=1 PEERPIN_SUMMARY=0 LD_LIBRARY_PATH="$libraries" LD_PRELOAD="$preload" "$program" \
	--cycles 20 fixed reallocated freed-beside-another mapped threads || status=1
env -u PEERPIN_STATS_FILE PEERPIN_SUMMARY=0 LD_LIBRARY_PATH="$libraries" LD_PRELOAD="$preload" "$program" \
	--cycles 200 unrequested || status=1
PEERPIN_SUMMARY=0 LD_LIBRARY_PATH=$libraries LD_PRELOAD=$preload "$program" --cycles "${GPU_CYCLES:-$cycles}" "$@" || status=1
exit "$status"
