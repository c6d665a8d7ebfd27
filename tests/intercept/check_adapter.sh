#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_adapter.sh -- adapter.c: the simulated adapter's faults and assertions, with the preload and without it
set -u
program=tests/intercept/adapter
[ -x tests/intercept/.libs/adapter ] && program=tests/intercept/.libs/adapter
[ -x "$program" ] || exit 77
library=$PWD/src/.libs/libpeerpin.so
adapter=$PWD/src/sim/adapter/.libs
export PEERPIN_SUMMARY=0 PEERPIN_LOG_LEVEL=none LD_LIBRARY_PATH=$adapter:$PWD/src/sim/.libs
passed=0
failed=0

# tests PRELOAD: under it, if it is not empty
tests() {
    local preload=$1 out good

    out=$(LD_PRELOAD=$preload timeout 600 "$program" 2>&1) || failed=$((failed + 1))
    good=$(echo "$out" | grep -c '^ok ')
    passed=$((passed + good))
    if [ "$(echo "$out" | sed -n 's/^1\.\.//p')" != "$good" ]; then
        failed=$((failed + 1))
        echo "FAILED: ${preload:-no preload}"
        echo "$out" | grep -v '^ok '
    fi
}

tests ''
tests "$library"
PEERPIN_PREREGISTER=sync tests "$library"

if PEERPIN_SIM_ADAPTER_DELAY=soon "$program" 2>&1 | grep -q 'PEERPIN_SIM_ADAPTER_DELAY=soon is no number'; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    echo 'FAILED: a setting that is no number is said to be none'
fi

# The preload can only be in between if the library's own calls go through the dynamic linker.
calls=$(readelf -rW "$adapter/libibverbs.so.1" | grep -cE 'JUMP_SLO.* (ibv_cmd_[a-z_]+|verbs_uninit_context|ibv_reg_mr_iova2)@')
if [ "$calls" -ge 10 ]; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    echo "FAILED: only $calls of the adapter's functions are called through the dynamic linker"
fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
