#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_latency.sh -- the comparison of latencies tells a slower preload from noise, and what is measured runs
set -u
command -v python3 >/dev/null || exit 77
here=${srcdir:-.}/tests
# shellcheck source=tests/launcher/checks
. "$here/launcher/checks"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

# measured WITHOUT WITH: numbers of nanoseconds of one case
measured() {
	local number

	for number in $1; do printf 'without\ta call\t%s\n' "$number"; done >"$folder/measured"
	for number in $2; do printf 'with\ta call\t%s\n' "$number"; done >>"$folder/measured"
	"$here/gpu/latencies" --from "$folder/measured" 2>&1
	echo "=> $?"
}

matches 'the same' $'ok *a call*1.000*\n1 passed, 0 failed, 0 skipped\n=> 0' "$(measured '100 102 98 101 99' '100 99 101')"
matches 'slower, but no more than noise' '*=> 0' "$(measured '100 110 95 108 92' '108 109 107')"
matches 'one slow process without it is no noise' '*=> 1' "$(measured '100 101 99 100 100 900' '107 107 107')"
matches 'a ratio of 1.00' '*=> 0' "$(measured '1000 1000 1000 1000' '1004 1004 1004')"
matches 'slower than noise' $'not ok *a call*1.070*0 passed, 1 failed*\n=> 1' "$(measured '100 101 99 100 100' '107 107 107')"
matches 'faster' '*=> 0' "$(measured '100 101 99 100 100' '90 91 92')"
matches 'one slow process of the preload' '*=> 0' "$(measured '100 101 99 100 100' '100 100 200')"
matches 'nothing to compare with' '*not measured often enough*=> 1' "$(measured '100' '100')"
measured '100 101 99 100 100' '107 107 107' >/dev/null
matches 'as JSON' '{"rows": *{"case": "a call", "ok": false, *"ratio": 1.07, *' "$("$here/gpu/latencies" --json --from "$folder/measured")"

# On the simulated driver times say nothing of a GPU: here it is enough that all of it is measured.
if [[ -x tests/gpu/latency && ! -e /dev/nvidiactl ]]; then
	GPU_BUILD=$PWD LD_LIBRARY_PATH=$PWD/src/sim/.libs "$here/gpu/latencies" --rounds 1 >"$folder/out" 2>&1
	for case in 'event record ' 'event query ' 'copy to device, 8 B' 'copy to host, 64 KiB' 'copy inside, 16 MiB' \
		'copy to device, async, 16 MiB' 'copy to host, async, 8 B' 'copy inside, async, 64 KiB'; do
		matches "measured: $case" "*ok *$case*" "$(<"$folder/out")"
	done
	matches 'what is lacking is said' '*skipped: kernel launch: not with this driver*' "$(<"$folder/out")"
	matches 'all is counted' '*passed, * failed, 2 skipped' "$(tail -n 1 "$folder/out")"
	matches 'a program that is not there' '*No such file*' "$(GPU_BUILD=/nowhere "$here/gpu/latencies" --rounds 1 2>&1)"
else
	skip 'latency is not built, or there is a GPU'
fi
finish
