#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_access.sh -- access.c without and with the preload, on the real driver where there is a GPU
program=tests/gpu/access
[ -x tests/gpu/.libs/access ] && program=tests/gpu/.libs/access
[ -x "$program" ] || exit 77
libraries=$PWD/src/sim/adapter/.libs
if ! [ -e /dev/nvidiactl ]; then
	libraries=$libraries:$PWD/src/sim/.libs
	export PEERPIN_SIM_ADAPTER_REAL_DRIVER=1
fi
export PEERPIN_SUMMARY=0 LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
"$program" && LD_PRELOAD=$PWD/src/.libs/libpeerpin.so exec "$program"
