#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_ends.sh -- ends/: ends of registrations, waits for the worker, settings
#
# Arguments: substrings of the names of tests to run.
set -u
program=tests/intercept/ends/ends
[ -x tests/intercept/ends/.libs/ends ] && program=tests/intercept/ends/.libs/ends
[ -x "$program" ] || exit 77
library=$PWD/src/.libs/libpeerpin.so
export PEERPIN_SUMMARY=0 PEERPIN_LOG_LEVEL=none LD_LIBRARY_PATH=$PWD/src/sim/adapter/.libs:$PWD/src/sim/.libs

out=$(LD_PRELOAD=$library timeout 1800 "$program" "$@" 2>&1)
status=$?
passed=$(echo "$out" | grep -c '^ok ')
failed=$(echo "$out" | grep -c '^not ok ')
echo "$out" | grep -v '^ok '
[ "$(echo "$out" | sed -n 's/^1\.\.//p')" = "$((passed + failed))" ] || failed=$((failed + 1))
[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
