#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_compare.sh -- the comparison of tests/gpu/run notices what it is for
set -u
command -v python3 >/dev/null || exit 77
compare=${srcdir:-.}/tests/gpu/compare
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
passed=0
failed=0

good_oracle='begin 0x0 0 oracle
birth 0x1000 4096 cuMemAlloc_v2
death 0x1000 0 cuMemFree_v2
birth 0x1000 8192 cuMemAlloc_v2
birth 0x200000 2097152 cuMemMap
graph 0x900000 100 cuMemAllocAsync
range-death 0x200000 4194304 cuMemUnmap'
good_trace='peerpin: <trace> [vm:1] born 0x1000 4096 device id 3
peerpin: <trace> [vm:1] ended 0x1000 4096 device id 3
peerpin: <trace> [vm:1] born 0x1000 8192 device id 5
something of the program
peerpin: <trace> [vm:1] born 0x200000 2097152 mapped id 7, not for adapters
peerpin: <trace> [vm:1] ended 0x200000 2097152 mapped id 7'

statistics() { # statistics BIRTHS UNSEEN DISAGREEMENTS [UNTRACKED [GRAPHS]]
    echo "{\"births\": $1, \"unseen_frees\": $2, \"verify_disagreements\": $3, \"escapes\": 0,
        \"untracked\": ${4:-0}, \"graph_allocations\": ${5:-1},
        \"access_begun\": 0, \"access_ended\": 0, \"verify_checks\": 1}"
}

# expect NAME STATUS ORACLE TRACE STATISTICS
expect() {
    local status=0

    echo "$3" >"$folder/oracle"
    echo "$4" >"$folder/trace"
    echo "$5" >"$folder/statistics"
    "$compare" "$folder/oracle" "$folder/trace" "$folder/statistics" >"$folder/out" 2>&1 || status=$?
    if [ "$status" -eq "$2" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $1: status $status"
        cat "$folder/out"
    fi
}

good=$(statistics 3 0 0)
expect 'all is heard' 0 "$good_oracle" "$good_trace" "$good"
expect 'a birth is missing' 1 "$good_oracle" "$(grep -v 'born 0x200000' <<<"$good_trace")" "$(statistics 2 0 0)"
expect 'a birth of another size' 1 "$good_oracle" "$(sed 's/0x1000 8192/0x1000 8191/' <<<"$good_trace")" "$good"
expect 'an end is missing' 1 "$good_oracle" "$(grep -v 'ended 0x1000' <<<"$good_trace")" "$good"
expect 'an end of a mapping is missing' 1 "$good_oracle" "$(grep -v 'ended 0x200000' <<<"$good_trace")" "$good"
expect 'an end that nobody saw' 1 "$good_oracle" "$good_trace
peerpin: <trace> [vm:1] ended 0x1000 8192 device id 5" "$good"
expect 'an end when the program exits' 0 "$good_oracle" "$good_trace
oracle: the program exits
peerpin: <trace> [vm:1] ended 0x1000 8192 device id 5" "$good"
expect 'an end with its context' 0 "$good_oracle
context-end 0x0 0 cuCtxDestroy_v2" "$good_trace
peerpin: <trace> [vm:1] ended 0x1000 8192 device id 5" "$good"
expect 'an unseen free' 1 "$good_oracle" "$good_trace" "$(statistics 3 1 0)"
expect 'a disagreement' 1 "$good_oracle" "$good_trace" "$(statistics 3 0 1)"
expect 'something that could not be recorded' 1 "$good_oracle" "$good_trace" "$(statistics 3 0 0 1)"
expect 'a captured allocation that was taken for memory' 1 "$good_oracle" "$good_trace" "$(statistics 3 0 0 0 0)"
expect 'a run in which nothing happened' 1 'begin 0x0 0 oracle' '' "$(statistics 0 0 0 0 0)"
expect 'an oracle that did not begin' 1 "$(tail -n +2 <<<"$good_oracle")" "$good_trace" "$good"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
