#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_first.sh -- first.c under the preload: no deadlock in a process's first allocation
program=tests/intercept/first
[ -x tests/intercept/.libs/first ] && program=tests/intercept/.libs/first
[ -x "$program" ] || exit 77
status=0

first() { # first WAY...
    if PEERPIN_SUMMARY=0 LD_LIBRARY_PATH=$PWD/src/sim/.libs LD_PRELOAD=$PWD/src/.libs/libpeerpin.so \
        timeout 300 "$program" "$@"; then
        echo "ok $1"
    else
        echo "FAILED: $1: status $? (124: nobody went on)"
        status=1
    fi
}

first constructor "$PWD/tests/intercept/.libs/first_plugin.so"
PEERPIN_TRACE_FILE=/proc/none/trace first pipe
first allocator
exit "$status"
