#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_compare.sh -- the comparison of tests/gpu/run detects differences
# shellcheck disable=SC2001 # patterns are sed's
set -u
command -v python3 >/dev/null || exit 77
compare=${srcdir:-.}/tests/gpu/compare
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"

good_oracle='begin 0x0 0 oracle 1
allocation 0x1000 4096 cuMemAlloc 1
free 0x1000 0 cuMemFree 1
allocation 0x1000 8192 cuMemAlloc 1
call 0x0 0 cuMemCreate 1
allocation 0x200000 2097152 cuMemMap 1
graph 0x900000 100 cuMemAllocAsync 1
graph-free 0x900000 0 cuMemFreeAsync 1
query 0x0 0 cuPointerGetAttribute 1
query-refused 0x0 0 cuPointerGetAttribute 1
query 0x0 0 cuPointerGetAttributes 1
call 0x0 0 cuMemHostAlloc 1
call 0x0 0 cuMemFreeHost 1
call 0x0 0 cuMemRelease 1
range-free 0x200000 4194304 cuMemUnmap 1'
good_trace='peerpin: <trace> [vm:1] allocated 0x1000 4096 device id 3
peerpin: <trace> [vm:1] freeing 0x1000 4096 device id 3
peerpin: <trace> [vm:1] allocated 0x1000 8192 device id 5
something of the program
peerpin: <trace> [vm:1] allocated 0x7000 8192 host id 6
peerpin: <trace> [vm:1] allocated 0x200000 2097152 mapped id 7, not for adapters
peerpin: <trace> [vm:1] freeing 0x200000 2097152 mapped id 7'

# Counters and histograms, whether 0 or not.
definitions=${srcdir:-.}/src/report/statistics.def
counters=$(sed -n 's/^\(STATISTIC\|TALLY\)(\([a-z_]*\),.*/\2/p' "$definitions")
histograms=$(sed -n 's/^HISTOGRAM(\([a-z_]*\),.*/\1/p' "$definitions")

# statistics [NAME VALUE]...: those of the good run, except the named ones; all others are 0
statistics() {
    local name text='{"pid": 1, "settings": {"PEERPIN_VERIFY": true}, "allocations": 3, "frees": 2, "allocations_device": 2, "allocations_mapped": 1,
"allocations_pool": 0, "allocated_bytes": 2109440, "missed_frees": 0, "verify_disagreements": 0, "verify_checks": 4, "bypasses": 0,
"untracked": 0, "untracked_frees": 1, "graph_allocations": 1, "host_allocations": 1,
"host_frees": 1, "captures": 0, "access_granted": 0, "access_removed": 0, "queries_answered": 1,
"queries_forwarded": 1, "host_requests": 0, "registrations": 0, "internal_errors": 0, "histograms": {"allocation_bytes": [0, 2, 1], "free_ns": []}}'

    for name in $counters; do
        [[ $text == *"\"$name\": "* ]] || text=${text/', "histograms"'/", \"$name\": 0, \"histograms\""}
    done
    for name in $histograms; do
        [[ $text == *"\"$name\": ["* ]] || text=${text%'}}'}", \"$name\": []}}"
    done
    while [ $# -gt 1 ]; do
        text=$(sed "s/\"$1\": [0-9]*/\"$1\": $2/" <<<"$text")
        shift 2
    done
    echo "$text"
}

# expect NAME STATUS ORACLE TRACE STATISTICS [TEXT [OTHERS]]: its output contains the text
expect() {
    echo "$3" >"$folder/oracle"
    echo "$4" >"$folder/trace"
    echo "$5" >"$folder/statistics"
    echo "${7-}" >"$folder/others"
    ends "$1" "$2" "${6-}" "$compare" "$folder/oracle" "$folder/trace" "$folder/statistics" ${7+"$folder/others"}
}

good=$(statistics)
expect 'all is intercepted' 0 "$good_oracle" "$good_trace" "$good" 'verification 0 disagreements in 4 checks; counters explained'
expect 'an allocation is missing' 1 "$good_oracle" "$(grep -v 'allocated 0x200000' <<<"$good_trace")" "$(statistics allocations 2)"
expect 'an allocation of another size' 1 "$good_oracle" "$(sed 's/0x1000 8192/0x1000 8191/' <<<"$good_trace")" "$good"
expect 'an end is missing' 1 "$good_oracle" "$(grep -v 'freeing 0x1000' <<<"$good_trace")" "$good"
expect 'an end that nobody saw' 1 "$good_oracle" "$good_trace
peerpin: <trace> [vm:1] freeing 0x1000 8192 device id 5" "$(statistics frees 3)"
expect 'an end when the program exits' 0 "$good_oracle" "$good_trace
oracle: the program exits: 1
peerpin: <trace> [vm:1] freeing 0x1000 8192 device id 5" "$(statistics frees 3)"
expect 'an end with its context' 0 "$good_oracle
context-end 0x0 0 cuCtxDestroy 1" "$good_trace
peerpin: <trace> [vm:1] freeing 0x1000 8192 device id 5" "$(statistics frees 3)"
expect 'a run in which nothing happened' 1 'begin 0x0 0 oracle 1' '' "$(statistics allocations 0)"
expect 'an oracle that did not begin' 1 "$(tail -n +2 <<<"$good_oracle")" "$good_trace" "$good"
# Each counter, one above its explanation, and the expected line.
for counter in allocations:4 frees:4 allocations_device:3 allocations_mapped:2 allocations_pool:1 allocated_bytes:2109441 untracked_frees:2 \
    host_allocations:2 host_frees:2 captures:1 access_granted:1 access_removed:1 \
    queries_answered:3 queries_forwarded:4 internal_errors:1 bypasses:1; do
    expect "too many ${counter%:*}" 1 "$good_oracle" "$good_trace" "$(statistics "${counter%:*}" "${counter#*:}")" \
        "${counter%:*}: ${counter#*:}, explained "
done
if [ ! -e /sys/class/infiniband ] || [ -z "$(ls /sys/class/infiniband)" ]; then
    expect 'registrations without an adapter' 1 "$good_oracle" "$good_trace" "$(statistics registrations 1)" 'registrations: 1'
    expect 'a histogram of frees' 1 "$good_oracle" "$good_trace" "${good/'"free_ns": []'/'"free_ns": [1]'}" 'histogram free_ns: 1'
fi
expect 'a counter that nobody knows' 1 "$good_oracle" "$good_trace" "${good/'"allocations"'/'"novelties": 1, "allocations"'}" 'novelties: 1'
expect 'a counter that is not there' 1 "$good_oracle" "$good_trace" "${good/'"allocations_pool"'/'"allocations_pond"'}" \
    'allocations_pool: not among the statistics'

# Two processes with lines in the same files, and equal addresses.
both() {
    printf '%s\n' "$1"
    sed 's/ 1$/ 2/; s/vm:1]/vm:2]/; s/"pid": 1/"pid": 2/' <<<"$1"
}

other=${good/'"pid": 1'/'"pid": 2'}
expect 'two processes' 0 "$(both "$good_oracle")" "$(both "$good_trace")" "$good" 'events 6 allocations, 4 frees' "$other"
expect 'a missed allocation' 1 "$(both "$good_oracle")" "$(both "$good_trace" | grep -v 'vm:2. allocated 0x200000')" \
    "$good" 'process 2: 0x200000' "$other"
expect 'one without statistics' 1 "$(both "$good_oracle")" "$(both "$good_trace")" "$good" 'process 2 has left no statistics'
finish
