#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_symbols.sh -- the simulated libibverbs and the stubs have the real libraries' symbols and nodes, and installed
# clients find all that they need
set -euo pipefail

# shellcheck source=tests/launcher/checks
. "$(dirname "$0")/../launcher/checks"

simulated=$PWD/src/sim/adapter/.libs
[[ -e $simulated/libibverbs.so.1 ]] || { echo "$simulated/libibverbs.so.1 is missing"; exit 1; }

# find_real NAME: the installed library, not the simulated one
find_real() {
	ldconfig -p 2>/dev/null | sed -n "s|.* => \(/.*/$1\)\$|\1|p" | head -n 1
}

# symbols LIBRARY: NAME@@NODE of each function that programs link today
symbols() {
	nm -D --defined-only --with-symbol-versions "$1" | awk '$2 != "A" && $3 ~ /@@/ { print $3 }' | sort
}

# nodes LIBRARY
nodes() {
	nm -D --defined-only --with-symbol-versions "$1" | awk '$2 == "A" { print $3 }' | sort
}

missing() {
	comm -13 <(printf '%s\n' "$1") <(printf '%s\n' "$2") | tr '\n' ' '
}

# Functions of the private nodes are for providers.
same_as_libibverbs() {
	local real

	real=$(find_real libibverbs.so.1)
	if [[ ! $real ]]; then
		skip 'the nodes of libibverbs: it is not installed'
		return
	fi
	same 'libibverbs: every node' '' "$(missing "$(nodes "$simulated/libibverbs.so.1")" "$(nodes "$real" | grep '^IBVERBS_[0-9]')")"
	same 'libibverbs: every function, in its node' '' \
		"$(missing "$(symbols "$simulated/libibverbs.so.1")" "$(symbols "$real" | grep '@IBVERBS_[0-9]')")"
}

# A release that is older than a stub lacks some of its functions, but those that it has are in the same nodes.
same_as_provider() {
	local real ours

	real=$(find_real "$1")
	if [[ ! $real ]]; then
		skip "the nodes of $1: it is not installed"
		return
	fi
	ours=$(symbols "$simulated/$1")
	same "$1: every node" '' "$(missing "$(nodes "$simulated/$1")" "$(nodes "$real")")"
	same "$1: functions are in their nodes" '' "$(missing "$(symbols "$real")" \
		"$(grep -F -f <(symbols "$real" | sed 's/@.*/@/') <<<"$ours" || :)")"
}

# What the loader of a program reports that binds everything at the start.
unresolved() {
	LD_LIBRARY_PATH=$simulated ldd -r "$1" 2>&1 | grep -E 'undefined symbol|not found' | sed 's/[[:space:]]*(.*//' | sort -u | head -n 20
}

clients_start() {
	local client found=0 library

	for client in ib_send_lat ib_write_bw ib_read_lat ib_atomic_bw ibv_rc_pingpong ibv_ud_pingpong ibv_srq_pingpong ibv_devices \
		ibv_asyncwatch rping fi_info fi_pingpong ucx_info ucx_perftest; do
		client=$(command -v "$client") || continue
		found=$((found + 1))
		same "$client finds every symbol" '' "$(unresolved "$client")"
	done
	for library in libuct_ib.so.0 libuct_rdmacm.so.0 librdmacm.so.1 libfabric.so.1; do
		for client in /usr/lib/*/"$library" /usr/lib/*/ucx/"$library" /usr/lib64/"$library" /usr/lib64/ucx/"$library"; do
			[[ -e $client ]] || continue
			found=$((found + 1))
			same "$client finds every symbol" '' "$(unresolved "$client")"
		done
	done
	((found)) || skip 'clients: none is installed'
}

same_as_libibverbs
for library in libmlx5.so.1 libefa.so.1 libhns.so.1; do same_as_provider "$library"; done
clients_start
finish
