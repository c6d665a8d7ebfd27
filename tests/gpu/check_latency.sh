#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_latency.sh -- the comparison of latencies distinguishes a slower preload from noise, and every case runs
set -u
command -v python3 >/dev/null || exit 77
here=${srcdir:-.}/tests
# shellcheck source=tests/launcher/checks
. "$here/launcher/checks"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

# side NAME NUMBERS
side() {
	local number times

	for number in $2; do
		for ((times = ${number%x*}; times > 0; times--)); do printf '%s\ta call\t%s\n' "$1" "${number#*x}"; done
	done
}

judged() {
	"$here/gpu/latencies" --from "$folder/measured" 2>&1
	echo "=> $?"
}

# measured WITHOUT WITH [EMPTY]: nanoseconds of one case; 7x100: 7 times 100
measured() {
	{ side without "$1" && side with "$2" && side empty "${3:-}"; } >"$folder/measured"
	judged
}

# many CASES NOISE FACTOR [EMPTY_FACTOR]: 18 processes of each side, with independent noise per case
many() {
	awk -v cases="$1" -v noise="$2" -v with_it="$3" -v empty="${4:-1}" 'BEGIN {
		seed = 2026
		split("without empty with", sides)
		factor[1] = 1; factor[2] = empty; factor[3] = with_it
		for (process = 0; process < 18; process++)
			for (side = 1; side <= 3; side++)
				for (number = 1; number <= cases; number++) {
					for (sum = draw = 0; draw < 4; draw++) {
						seed = seed * 16807 % 2147483647
						sum += seed / 2147483647 - 0.5
					}
					printf "%s\tcall %d\t%.3f\n", sides[side], number, 100 * number * factor[side] * exp(noise * sum)
				}
	}' >"$folder/measured"
	judged
}

quiet='2x98 2x99 2x100 2x101 2x102'
matches 'the same' $'ok *a call*1.000*\n1 passed, 0 failed, 0 skipped\n=> 0' "$(measured "$quiet" "$quiet")"
matches 'slower' $'not ok *a call*1.070*0 passed, 1 failed*\n=> 1' "$(measured "$quiet" 10x107)"
matches 'noise that would hide it' $'unsure *too noisy*0 passed, 0 failed, 1 skipped\n=> 1' \
	"$(measured '3x100 3x130' '3x100 3x130')"
matches 'nothing to compare with' '*not measured often enough*=> 1' "$(measured 1x100 1x100)"
matches 'slower than an empty preload, in what noise hides without one' \
	$'not ok *at most 1.[3-9]*; beside an empty preload 1.070, *=> 1' "$(measured '5x80 5x130' 10x107 "$quiet")"
# A bias common to all cases, too small to be significant in a single one.
matches 'nothing in common' $'*\nok     all cases *\n23 passed, 0 failed, 0 skipped\n=> 0' "$(many 22 0.07 1)"
matches '3 % more in all cases, and surely in none' $'*\nnot ok all cases  *1.0[23]*, 1 failed, *=> 1' "$(many 22 0.08 1.03)"

# Times on the simulated driver are meaningless: every case only has to run.
if [[ -x tests/gpu/latency && ! -e /dev/nvidiactl ]]; then
	GPU_BUILD=$PWD LD_LIBRARY_PATH=$PWD/src/sim/.libs "$here/gpu/latencies" --rounds 1 --seconds 0 >"$folder/out" 2>&1
	for case in 'event record ' 'all cases ' 'event query ' 'copy to device, 8 B' 'copy to host, 64 KiB' 'copy inside, 16 MiB' \
		'copy to device, async, 16 MiB' 'copy to host, async, 8 B' 'copy inside, async, 64 KiB'; do
		matches "measured: $case" "*[ke] *$case*" "$(<"$folder/out")"
	done
	matches 'a case that the driver lacks is named' '*skipped: kernel launch: not with this driver*' "$(<"$folder/out")"
	matches 'all is counted' '*passed, * failed, * skipped' "$(tail -n 1 "$folder/out")"
	matches 'a program that is not there' '*No such file*' "$(GPU_BUILD=/nowhere "$here/gpu/latencies" --rounds 1 2>&1)"
else
	skip 'latency is not built, or there is a GPU'
fi
finish
