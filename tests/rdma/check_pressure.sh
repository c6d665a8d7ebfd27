#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_pressure.sh -- check_pressure.c under the preload, with the simulated driver and the present
# adapter
program=tests/rdma/check_pressure
[ -x tests/rdma/.libs/check_pressure ] && program=tests/rdma/.libs/check_pressure
PEERPIN_SUMMARY=0 LD_LIBRARY_PATH=$PWD/src/sim/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
	LD_PRELOAD=$PWD/src/.libs/libpeerpin.so${LD_PRELOAD:+:$LD_PRELOAD} exec "$program"
