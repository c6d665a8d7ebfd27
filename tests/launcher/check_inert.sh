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
		"$(outcome env LD_PRELOAD="$library" PEERPIN_LOG=warn PEERPIN_STATS="$tmp/stats" "$@")"
}

unchanged bash -c true
unchanged bash -c 'exit 3'
unchanged bash -c 'echo out; echo error >&2; (exit 5)'
unchanged sh -c 'ls / | sort | head -3'
unchanged python3 -c 1
unchanged python3 -c 'import ctypes; print(ctypes.CDLL(None).abs(-5))'
unchanged git --version
unchanged ssh -V
same 'no statistics without CUDA' '' "$(ls "$tmp")"
if command -v readelf >/dev/null; then
	same 'the library needs libc alone' 'libc.so.6' \
		"$(readelf --dynamic "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')"
else
	skip 'the library needs libc alone: no readelf'
fi
finish
