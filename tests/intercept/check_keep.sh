#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_keep.sh -- keep/: kept memory (PEERPIN_KEEP) on the simulated driver and adapter
#
# Arguments: a substring of the names of tests to run.
set -u
program=tests/intercept/keep/keep
[ -x tests/intercept/keep/.libs/keep ] && program=tests/intercept/keep/.libs/keep
[ -x "$program" ] || exit 77
export PEERPIN_SUMMARY=0 PEERPIN_LOG_LEVEL=none LD_LIBRARY_PATH=$PWD/src/sim/adapter/.libs:$PWD/src/sim/.libs
export KEEP_DEEPBIND=$PWD/tests/intercept/.libs/deepbind.so

out=$(LD_PRELOAD=$PWD/src/.libs/libpeerpin.so timeout 1800 "$program" "$@" 2>&1)
status=$?
passed=$(echo "$out" | grep -c '^ok ')
failed=$(echo "$out" | grep -c '^not ok ')
echo "$out" | grep -v '^ok '
[ "$(echo "$out" | sed -n 's/^1\.\.//p')" = "$((passed + failed))" ] || failed=$((failed + 1))
[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
