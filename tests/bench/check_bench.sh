#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_bench.sh -- the benches complete, all answers are right
#
# On the simulated driver; times are not checked.
set -u
[ -x tests/bench/queries ] && [ -x tests/bench/registration ] || exit 77
here=${srcdir:-.}/tests/bench
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"
# 1000 registrations by dma-buf: 1000 descriptors in the simulated adapter; a common limit is 1024.
ulimit -S -n "$(ulimit -H -n)" 2>/dev/null || :

ends 'all benches run' 0 'tests/bench/run: registration' "$here/run" --sim "$folder/results" --quick
for result in queries registration; do
	ends "$result has left its result" 0 '"rows": [' cat "$folder/results/$result.json"
done
# Every kind of row: hits with and without the preload, times of the driver's functions, counts.
ends 'hits have something beside them' 0 '"case": ' grep -E '"case": "hit, 64KiB".*"peer": "without peerpin", "peer_ns": [1-9]' \
	"$folder/results/registration.json"
for mode in off auto; do
	ends "first requests have something beside them, $mode" 0 '"case": ' grep -E \
		"\"case\": \"first request by address, 64KiB of 256MiB, $mode\".*\"peer\": \"without peerpin\", \"peer_ns\": [1-9]" "$folder/results/registration.json"
done
if grep -q '^#define HAVE_UCX 1' config.h; then
	ends 'hits are beside the cache of UCX' 0 '"case": ' grep -E \
		'"case": "hit, 64KiB, beside UCX.s cache", "live": 10000,.*"peer": "UCX [0-9.]*", "peer_ns": [1-9]' \
		"$folder/results/registration.json"
fi
bare=(env PEERPIN_SUMMARY=0 "LD_LIBRARY_PATH=$PWD/src/sim/.libs:$PWD/src/sim/adapter/.libs")
added=$(grep -c '"case": "cuMem\(Alloc\|Free\) added, .*", "live": 0, "threads": 1, "ns": -\?[0-9.]*, "min_ns": -\?[0-9.]*' "$folder/results/registration.json")
ends 'the added time of each function stands for each mode, number of domains and pace' 0 '64 rows' echo "$added rows"
ends 'and is not added where there is no preload' 1 "no case has --only's pattern" "${bare[@]}" tests/bench/registration --quick --only 'added'
for mode in off sync auto all; do
	ends "cuMemAlloc has been timed, $mode" 0 '"case": ' grep -E \
		"\"case\": \"cuMemAlloc, 16 domains, with pauses, $mode\", .*\"peer_ns\": [1-9]" "$folder/results/registration.json"
done
ends 'without an adapter it is skipped' 77 'there is no adapter' \
	"${bare[@]}" RDMA_TEST_DEVICE=none tests/bench/registration --quick
ends 'a part that fails makes the bench fail' 1 'a part of the bench, hits failed' \
	"${bare[@]}" PEERPIN_SIM_ADAPTER_FAIL_AT=100 tests/bench/registration --quick --only 'hit, 1MiB' --threads 1
ends 'where addresses cannot be registered, dma-bufs are' 0 'hit, 1MiB' \
	"${bare[@]}" PEERPIN_SIM_ADAPTER_PEER=0 tests/bench/registration --quick --only 'hit*' --threads 1
queries=("${bare[@]}" tests/bench/queries --quick --threads 1)
ends '--only runs the named cases' 0 'GPU: BUFFER_ID' "${queries[@]}" --only 'GPU: BUF*'
ends 'a case that there is not' 1 "no case has --only's pattern" "${queries[@]}" --only nothing
ends 'a number that is none' 2 'wanted are numbers' "${queries[@]}" --threads 1,x
finish
