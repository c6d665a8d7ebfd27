#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_queries.sh -- queries under the preload and without, on the simulated driver of this build
[ -x tests/intercept/check_queries ] || exit 77
program=tests/intercept/.libs/check_queries
[ -x "$program" ] || program=tests/intercept/check_queries
export PEERPIN_SUMMARY=0 LD_LIBRARY_PATH="$PWD/src/sim/.libs"
library=$PWD/src/.libs/libpeerpin.so
status=0
"$program" 20000 || status=1
for settings in PEERPIN_POINTER_QUERIES=0 'PEERPIN_POINTER_QUERIES=1 PEERPIN_HOST_POINTERS=0' \
    'PEERPIN_POINTER_QUERIES=1 PEERPIN_HOST_POINTERS=1' 'PEERPIN_POINTER_QUERIES=1 PEERPIN_HOST_POINTERS=1 PEERPIN_VERIFY=1'; do
    echo "$settings"
    # shellcheck disable=SC2086 # one word for each setting
    env $settings LD_PRELOAD="$library" "$program" 40000 || status=1
done
exit "$status"
