#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_old_driver.sh -- old_driver.c under the preload, on a driver without cuGetProcAddress
program=tests/intercept/old_driver
[ -x "$program" ] || exit 77
PEERPIN_SUMMARY=0 LD_LIBRARY_PATH=$PWD/tests/intercept/old/.libs LD_PRELOAD=$PWD/src/.libs/libpeerpin.so exec "$program"
