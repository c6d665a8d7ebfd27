#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_adapter.sh -- adapter.c: the simulated adapter's faults and assertions, with the preload and
# without it
set -u
program=tests/intercept/adapter
[ -x tests/intercept/.libs/adapter ] && program=tests/intercept/.libs/adapter
[ -x "$program" ] || exit 77
library=$PWD/src/.libs/libpeerpin.so
adapter=$PWD/src/sim/adapter/.libs
export PEERPIN_SUMMARY=0 PEERPIN_LOG_LEVEL=none LD_LIBRARY_PATH=$adapter:$PWD/src/sim/.libs
# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"

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

matches 'a setting that is no number is reported' '*PEERPIN_SIM_ADAPTER_DELAY=soon is no number*' \
    "$(PEERPIN_SIM_ADAPTER_DELAY=soon "$program" 2>&1)"

# The preload can only be in between if the library's own calls go through the dynamic linker.
calls=$(readelf -rW "$adapter/libibverbs.so.1" | grep -cE 'JUMP_SLO.* (ibv_cmd_[a-z_]+|verbs_uninit_context|ibv_reg_mr_iova2)@')
same 'at least 10 of the functions are called through the dynamic linker' yes "$([ "$calls" -ge 10 ] && echo yes || echo "$calls")"
finish
