#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_inert.sh -- the preload changes nothing in programs that never use CUDA
set -euo pipefail

# shellcheck source=tests/launcher/checks
. "$(dirname "$0")/checks"

library=$(readlink -f src/.libs/libpeerpin.so)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for name in ${!PEERPIN_@}; do unset "$name"; done

unchanged() {
	if ! command -v "$1" >/dev/null; then
		skip "$*: there is no $1"
		return
	fi
	same "$*" "$(outcome "$@")" \
		"$(outcome env LD_PRELOAD="$library" PEERPIN_LOG_LEVEL=trace PEERPIN_LOG_FILE="$tmp/log" \
			XDG_RUNTIME_DIR="$tmp" PMIX_RANK=0 PMIX_NAMESPACE=check PEERPIN_STATS_FILE="$tmp/stats" "$@")"
}

unchanged bash -c true
unchanged bash -c 'exit 3'
unchanged bash -c 'echo out; echo error >&2; (exit 5)'
unchanged sh -c 'ls / | sort | head -3'
unchanged python3 -c 1
unchanged python3 -c 'import ctypes; print(ctypes.CDLL(None).abs(-5))'
unchanged git --version
unchanged ssh -V
same 'no statistics, log or files of ranks without CUDA' '' "$(ls "$tmp")"
if command -v readelf >/dev/null; then
	same 'the library needs libc alone' 'libc.so.6' \
		"$(readelf --dynamic "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')"
else
	skip 'the library needs libc alone: no readelf'
fi

# Cost in a program without CUDA: bash -c true, without a preload, with the library, and with an
# empty preload. Instruction counts are exact. Times are medians of 200 processes; the best of up to
# 10 runs counts, since other load only adds time.
limited() { # limited NAME VALUE LIMIT
	same "$1: $2" "less than $3" "$(awk -v value="$2" -v limit="$3" \
		'BEGIN { print (value != "" && value + 0 < limit + 0 ? "" : "not ") "less than " limit }')"
}

# With a locale, as users have: without one bash executes half as many instructions.
instructions() { # instructions PRELOAD [VARIABLE]
	env -i LC_ALL=C.UTF-8 LD_PRELOAD="$1" PATH="$PATH" "${@:2}" valgrind --tool=callgrind --callgrind-out-file=/dev/null \
		bash -c true 2>&1 | sed -n 's/.*Collected : *//p'
}

if [[ -n ${VALGRIND_LIB:-} || -n ${LD_PRELOAD:-} ]] || ! command -v valgrind >/dev/null; then
	skip 'instructions of bash -c true: there is no valgrind'
else
	# The loader reads each character of a path: short paths keep the count independent of the
	# build folder.
	cp "$library" "$tmp/libpeerpin.so"
	cp tests/launcher/empty.so "$tmp/empty.so"
	without=$(instructions '') with=$(instructions "$tmp/libpeerpin.so") empty=$(instructions "$tmp/empty.so")
	more=$(awk -v a="$without" -v b="$with" 'BEGIN { printf "%.2f", (b / a - 1) * 100 }')
	own=$(awk -v a="$without" -v b="$with" -v c="$empty" 'BEGIN { printf "%.2f", (b - c) / a * 100 }')
	echo "instructions of bash -c true: $without, with the library $with (+$more %), with an empty one $empty"
	# What the loader does for any preload depends on its version.
	limited 'instructions of bash -c true, per cent more than with an empty preload' "$own" 1.1
	bound=$(instructions "$tmp/libpeerpin.so" LD_BIND_NOW=1) empty=$(instructions "$tmp/empty.so" LD_BIND_NOW=1)
	own=$(awk -v a="$without" -v b="$bound" -v c="$empty" 'BEGIN { printf "%.2f", (b - c) / a * 100 }')
	limited 'with LD_BIND_NOW' "$own" 2.5
fi
# With more processes than processors any preload costs more in the kernel. The alternating empty
# preload shows how much.
best=
for _ in {1..10}; do
	line=$(tests/launcher/inert_cost "$library" "$PWD/tests/launcher/empty.so")
	echo "bash -c true: $line"
	[[ $line =~ ratio\ ([0-9.]+).*ratio\ ([0-9.]+) ]]
	best=$(awk -v ours="${BASH_REMATCH[1]}" -v empty="${BASH_REMATCH[2]}" -v best="$best" 'BEGIN {
		beside = ours / empty * 1.05
		least = ours < beside ? ours : beside
		printf "%.3f", best != "" && best < least ? best : least }')
	awk -v r="$best" 'BEGIN { exit !(r < 1.08) }' && break
done
limited 'time of bash -c true, ratio of medians, with what an empty preload takes at most 1.05' "$best" 1.08
finish
