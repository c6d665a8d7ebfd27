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
same 'neither statistics nor a log, nor anything of its ranks, without CUDA' '' "$(ls "$tmp")"
if command -v readelf >/dev/null; then
	same 'the library needs libc alone' 'libc.so.6' \
		"$(readelf --dynamic "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')"
else
	skip 'the library needs libc alone: no readelf'
fi

# What it costs a program that never uses CUDA: bash -c true, beside itself without a preload and with one that does
# nothing. Instructions are counted, so they come out the same each time; times are medians of 200 whole processes, and
# the best of up to ten such runs, since whatever else the machine does only adds to them.
limited() { # limited NAME VALUE LIMIT
	same "$1: $2" "less than $3" "$(awk -v value="$2" -v limit="$3" \
		'BEGIN { print (value != "" && value + 0 < limit + 0 ? "" : "not ") "less than " limit }')"
}

# In a locale, as users have one: without, bash does half as much.
instructions() {
	env -i LC_ALL=C.UTF-8 LD_PRELOAD="$1" PATH="$PATH" valgrind --tool=callgrind --callgrind-out-file=/dev/null \
		bash -c true 2>&1 | sed -n 's/.*Collected : *//p'
}

if [[ -n ${VALGRIND_LIB:-} || -n ${LD_PRELOAD:-} ]] || ! command -v valgrind >/dev/null; then
	skip 'instructions of bash -c true: there is no valgrind'
else
	# The loader goes through a name's letters: what is measured is not to hang on where the tree lies.
	cp "$library" "$tmp/libpeerpin.so"
	cp tests/launcher/empty.so "$tmp/empty.so"
	without=$(instructions '') with=$(instructions "$tmp/libpeerpin.so") empty=$(instructions "$tmp/empty.so")
	more=$(awk -v a="$without" -v b="$with" 'BEGIN { printf "%.2f", (b / a - 1) * 100 }')
	echo "instructions of bash -c true: $without, with the library $with (+$more %), with an empty one $empty"
	limited 'instructions of bash -c true, per cent more' "$more" 4.5
fi
# Where more processes run than there are processors, any preload costs more, for the kernel's part of it: then an empty
# one, started in turn with ours, tells how much more.
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
