#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_ways.sh -- ways.c under the preload, on the simulated driver of this build
[ -x tests/intercept/.libs/ways ] || [ -x tests/intercept/ways ] || exit 77
program=tests/intercept/ways
[ -x tests/intercept/.libs/ways ] && program=tests/intercept/.libs/ways
PEERPIN_SUMMARY=0 LD_LIBRARY_PATH=$PWD/src/sim/.libs LD_PRELOAD=$PWD/src/.libs/libpeerpin.so exec "$program"
