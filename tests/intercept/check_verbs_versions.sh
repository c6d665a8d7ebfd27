#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_verbs_versions.sh -- verbs_versions.c under the preload, with known, newest, unknown and
# changed libibverbs
program=tests/intercept/.libs/verbs_versions
[ -x "$program" ] || exit 77
failed=0
for library in known newest unknown layout; do
    echo "libibverbs: $library"
    PEERPIN_SUMMARY=0 LD_LIBRARY_PATH=$PWD/src/sim/.libs:$PWD/tests/intercept/verbs/$library/.libs \
        LD_PRELOAD=$PWD/src/.libs/libpeerpin.so "$program" "$library" || failed=1
done
exit "$failed"
