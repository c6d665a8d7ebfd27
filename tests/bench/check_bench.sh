#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_bench.sh -- the benches run to their end, all answers are right, and a page comes of what they print
#
# On the simulated driver; how long anything took is not looked at.
set -u
[ -x tests/bench/lookup ] && [ -x tests/bench/queries ] || exit 77
here=${srcdir:-.}/tests/bench
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
passed=0
failed=0

# expect NAME STATUS TEXT COMMAND...: it ends so, with TEXT somewhere in what it prints.
expect() {
	local name=$1 wanted=$2 text=$3 status=0

	shift 3
	"$@" >"$folder/out" 2>&1 || status=$?
	if [ "$status" -eq "$wanted" ] && grep -qF -- "$text" "$folder/out"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: $name: status $status"
		cat "$folder/out"
	fi
}

expect 'all benches run' 0 'tests/bench/run: queries-off' "$here/run" --sim "$folder/results" --quick
for result in lookup queries queries-off; do
	expect "$result has left its result" 0 '"rows": [' cat "$folder/results/$result.json"
done
if command -v python3 >/dev/null; then
	expect 'a page comes of them' 0 "GPU: Open MPI's check, off" "$here/page" "$folder/results"/*.json
	expect 'the memory of an allocation is on it' 0 '| memory, 2MiB | 10,000 |' \
		"$here/page" "$folder/results"/*.json
fi
expect 'only what is asked for' 0 'hot, mixed' tests/bench/lookup --quick --only 'hot, mix*' --threads 1
expect 'a case that there is not' 1 "no case has --only's pattern" tests/bench/lookup --quick --only nothing
expect 'an option that there is not' 2 '--help tells the options' tests/bench/lookup --fast
expect 'a number that is none' 2 'wanted are numbers' tests/bench/lookup --threads 1,x
expect 'more threads than CPUs' 2 'this process may use' tests/bench/lookup --threads 100000
expect 'an argument' 2 'takes options only' tests/bench/lookup quick
expect 'help' 0 '--only PATTERN' tests/bench/queries --help
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
