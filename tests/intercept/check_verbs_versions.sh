#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_verbs_versions.sh -- verbs_versions.c under the preload: libibverbs of known and unknown
# versions are served; one that differs (verbs/libibverbs.h) is forwarded, with one line in the log
program=tests/intercept/.libs/verbs_versions
[ -x "$program" ] || exit 77
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# run LIBRARY CASE
run() {
    PEERPIN_SUMMARY=0 CK_RUN_CASE=$2 \
        LD_LIBRARY_PATH=$PWD/src/sim/.libs:$PWD/tests/intercept/verbs/$1/.libs \
        LD_PRELOAD=$PWD/src/.libs/libpeerpin.so "$program" "$1" >"$log" 2>&1 || failed=1
    cat "$log"
}

for library in known newest unknown; do
    echo "libibverbs: $library"
    run "$library" served
    ! grep 'this libibverbs differs' "$log" || failed=1
done
for fault in moved:memory key:memory errors:errors arguments:arguments deregistration:deregistrations; do
    echo "libibverbs: unknown, $fault"
    STANDIN_FAULT=${fault%:*}
    export STANDIN_FAULT
    run unknown refused
    [ "$(grep -c 'this libibverbs differs' "$log")" = 1 ] &&
        grep -q "this libibverbs differs .*, in its ${fault#*:}.*: registrations are forwarded" "$log" || failed=1
done
export PEERPIN_PREREGISTER=eager
for STANDIN_FAULT in context mark; do
    echo "libibverbs: unknown, $STANDIN_FAULT"
    run unknown unopened
    [ "$(grep -c 'this libibverbs differs .*, in its contexts: registrations are forwarded' "$log")" = 1 ] || failed=1
done
exit "$failed"
