#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_bench.sh -- the benches complete, all answers are right, and their results make a page
#
# On the simulated driver; times are not checked.
set -u
[ -x tests/bench/lookup ] && [ -x tests/bench/queries ] && [ -x tests/bench/registration ] || exit 77
here=${srcdir:-.}/tests/bench
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"
# 1000 registrations by dma-buf: 1000 descriptors in the simulated adapter; a common limit is 1024.
ulimit -S -n "$(ulimit -H -n)" 2>/dev/null || :

ends 'all benches run' 0 'tests/bench/run: registration' "$here/run" --sim "$folder/results" --quick
for result in lookup queries registration; do
	ends "$result has left its result" 0 '"rows": [' cat "$folder/results/$result.json"
done
if command -v python3 >/dev/null; then
	ends 'counts are on it' 0 '| granules | 16.0 |' \
		"$here/page" "$folder/results"/*.json
	ends 'a page comes of them' 0 "GPU: Open MPI's check" "$here/page" "$folder/results"/*.json
	ends 'the memory of an allocation is on it' 0 '| memory, 2MiB | 10,000 |' \
		"$here/page" "$folder/results"/*.json
fi
# Every kind of row: hits with and without the preload, times of the driver's functions, counts.
ends 'hits have something beside them' 0 '"case": ' grep -E '"case": "hit, 64KiB".*"peer": "without peerpin", "peer_ns": [1-9]' \
	"$folder/results/registration.json"
ends 'and so has the part of them that is the provider'"'"'s' 0 '"case": ' grep -E "\"case\": \"of these, the provider's struct: calloc and free\".*\"ns\": [0-9.]*[1-9].*\"peer\": \"without peerpin\", \"peer_ns\": [0-9.]*[1-9]" \
	"$folder/results/registration.json"
ends 'each thread hits a buffer of its own' 0 '"case": ' grep -E '"case": "hit, 64KiB, own buffer".*"ns": [1-9]' \
	"$folder/results/registration.json"
for mode in off auto; do
	ends "first requests have something beside them, $mode" 0 '"case": ' grep -E \
		"\"case\": \"first request by address, 64KiB of 256MiB, $mode\".*\"peer\": \"without peerpin\", \"peer_ns\": [1-9]" "$folder/results/registration.json"
done
ends 'exports after an allocation have something beside them' 0 '"case": ' grep -E \
	'"case": "export of 64KiB of 256MiB, first, again without peerpin".*"peer_ns": [1-9]' "$folder/results/registration.json"
ends 'a free beside hits is beside one without' 0 '"case": ' grep -E \
	'"case": "cuMemFree, registered, others hit".*"peer": "no thread hits", "peer_ns": [1-9]' "$folder/results/registration.json"
if grep -q '^#define HAVE_UCX 1' config.h; then
	ends 'hits are beside the cache of UCX' 0 '"case": ' grep -E \
		'"case": "hit, 64KiB, beside UCX.s cache", "live": 10000,.*"peer": "UCX [0-9.]*", "peer_ns": [1-9]' \
		"$folder/results/registration.json"
fi
bare=(env PEERPIN_SUMMARY=0 "LD_LIBRARY_PATH=$PWD/src/sim/.libs:$PWD/src/sim/adapter/.libs")
added=$(grep -c '"case": "cuMem\(Alloc\|Free\) added, .*", "live": 0, "threads": 1, "ns": -\?[0-9.]*, "min_ns": -\?[0-9.]*' "$folder/results/registration.json")
ends 'what is added to each function is told for each mode, number of domains and pace' 0 '64 rows' echo "$added rows"
ends 'and is not added where there is no preload' 1 "no case has --only's pattern" "${bare[@]}" tests/bench/registration --quick --only 'added'
for mode in off sync auto all; do
	ends "cuMemAlloc has been timed, $mode" 0 '"case": ' grep -E \
		"\"case\": \"cuMemAlloc, 16 domains, with pauses, $mode\", .*\"peer_ns\": [1-9]" "$folder/results/registration.json"
done
ends 'of small allocations the granules are counted' 0 '"case": ' grep -E \
	'"case": "many small: registrations, all".*"figure": [1-9][0-9]*[.]000, "unit": "", "peer_figure": 16.000' \
	"$folder/results/registration.json"
ends 'an LRU is beside what a pin limit makes of turns' 0 '"case": ' grep -E \
	'"case": "twice the pin limit, in turns: registrations, auto".*"peer": "LRU".*"peer_figure": 500.000' \
	"$folder/results/registration.json"
ends 'and what stays pinned is beside the pin limit' 0 '"case": ' grep -E \
	'"case": "twice the pin limit, in turns: most pinned, auto".*"peer": "pin limit".*"unit": " MiB", "peer_figure": 32.000' \
	"$folder/results/registration.json"
for pattern in 'PyTorch-like' 'per iteration' 'same sizes'; do
	ends "$pattern: hits are counted" 0 '"case": ' grep -E "\"case\": \"$pattern: hits, auto\".*\"unit\": \" %\"" \
		"$folder/results/registration.json"
done
ends 'without a preload there are no counts' 0 'hit, 1MiB, without peerpin' \
	"${bare[@]}" tests/bench/registration --quick --only 'hit*' --threads 1
ends 'without an adapter it is skipped' 77 'there is no adapter' \
	"${bare[@]}" RDMA_TEST_DEVICE=none tests/bench/registration --quick
ends 'a part that fails makes the bench fail' 1 'a part of the bench, hits failed' \
	"${bare[@]}" PEERPIN_SIM_ADAPTER_FAIL_AT=100 tests/bench/registration --quick --only 'hit, 1MiB' --threads 1
ends 'where addresses cannot be registered, dma-bufs are' 0 'hit, 1MiB' \
	"${bare[@]}" PEERPIN_SIM_ADAPTER_PEER=0 tests/bench/registration --quick --only 'hit*' --threads 1
ends 'only what is asked for' 0 'hot, mixed' tests/bench/lookup --quick --only 'hot, mix*' --threads 1
ends 'a case that there is not' 1 "no case has --only's pattern" tests/bench/lookup --quick --only nothing
ends 'an option that there is not' 2 '--help tells the options' tests/bench/lookup --fast
ends 'a number that is none' 2 'wanted are numbers' tests/bench/lookup --threads 1,x
ends 'more threads than CPUs' 2 'this process may use' tests/bench/lookup --threads 100000
ends 'an argument' 2 'takes options only' tests/bench/lookup quick
ends 'help' 0 '--only PATTERN' tests/bench/queries --help
finish
