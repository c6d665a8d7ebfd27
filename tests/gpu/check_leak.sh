#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_leak.sh -- leak.c under the preload, with the simulated adapter: on the real driver where there is a GPU
program=tests/gpu/leak
[ -x tests/gpu/.libs/leak ] && program=tests/gpu/.libs/leak
[ -x "$program" ] || exit 77
libraries=$PWD/src/sim/adapter/.libs
[ -e /dev/nvidiactl ] || libraries=$libraries:$PWD/src/sim/.libs
PEERPIN_PREREGISTER=all PEERPIN_SUMMARY=0 LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
	LD_PRELOAD=$PWD/src/.libs/libpeerpin.so exec "$program"
