#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_effects.sh -- effects.c under the preload, with verification and without, in each mode of
# PEERPIN_PREREGISTER
[ -x tests/intercept/effects ] || exit 77
program=tests/intercept/effects
[ -x tests/intercept/.libs/effects ] && program=tests/intercept/.libs/effects
export MATRIX_EXPORTER="$PWD/tests/intercept/exporter"
status=0
for settings in PEERPIN_VERIFY=1 PEERPIN_PREREGISTER=off; do
    # shellcheck disable=SC2086 # one setting is one word
    env $settings PEERPIN_SUMMARY=0 PEERPIN_LOG_LEVEL=none \
        LD_LIBRARY_PATH="$PWD/tests/intercept/verbs/known/.libs:$PWD/src/sim/.libs" \
        LD_PRELOAD="$PWD/src/.libs/libpeerpin.so" "$program" || status=1
done
exit "$status"
