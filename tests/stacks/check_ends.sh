#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_ends.sh -- start and end of programs of tests/stacks and of the adapter's machine, and their leftovers
# shellcheck disable=SC2016,SC2317 # programs are written here; functions are waited for
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
rdma=$here/../rdma
# shellcheck source=tests/launcher/checks
. "$here/../launcher/checks"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Waits for conditions; a loaded machine takes long.
wait_until() {
	local tries

	for ((tries = 0; tries < 15000; tries++)); do
		! "$@" || return 0
		sleep 0.02
	done
	return 1
}

has_started() {
	[[ -s $1 ]]
}

has_ended() {
	! kill -0 "$1" 2>/dev/null
}

# started FILE: the process with the id in FILE has started
started() {
	wait_until has_started "$1" && echo started
}

# ended FILE: the process has ended. Silent if it was never started.
ended() {
	[[ -s $1 ]] && wait_until has_ended "$(<"$1")" && echo ended
}

# program FILE LINE...: a program of these lines
program() {
	local file=$1

	mkdir -p "${file%/*}"
	printf '%s\n' '#!/bin/bash' "${@:2}" >"$file"
	chmod +x "$file"
}

# ---- a server that listens ----

# The function of "inside", with mock files instead of the kernel's.
# shellcheck source=/dev/null
. <(sed -n '/^listens() {/,/^}/p' "$here/inside" | sed "s,/proc/net,$tmp/net,g")
mkdir "$tmp/net"
head='  sl  local_address rem_address   st'
printf '%s\n' "$head" '   0: 00000000:1F90 00000000:0000 0A' '   1: 0100007F:4853 0100007F:1F90 01' >"$tmp/net/tcp"
is() {
	"$@" && echo yes || echo no
}
same 'a server listens where the kernel has no IPv6' yes "$(is listens tcp 8080)"
printf '%s\n' "$head" '   0: 00000000000000000000000000000000:4853 00000000000000000000000000000000:0000 0A' >"$tmp/net/tcp6"
same 'by IPv6, too' 'yes yes no' "$(is listens tcp 8080) $(is listens tcp 18515) $(is listens tcp 853)"
program "$tmp/bin/rdma" 'echo "cm_id 0 state LISTEN ps TCP src-addr 0.0.0.0:7174 dst-addr 0.0.0.0:0"' 'exec seq 100000'
same "or by rdma's own connections, however many there are" yes "$(PATH=$tmp/bin:$PATH is listens cm 7174)"
same 'of this port alone' no "$(PATH=$tmp/bin:$PATH is listens cm 717)"

# ---- rows ----

mkdir -p "$tmp/built/tests/stacks/.libs"
: >"$tmp/built/tests/stacks/.libs/verbs_witness.so"
# A copy of "inside" with a shorter time limit.
mkdir -p "$tmp/short/tests/stacks"
cp -r "$here/rows" "$here/pattern_rows" "$here/cuda" "$tmp/short/tests/stacks"

adapter=(env PATH="$tmp/bin:$PATH" RDMA_TEST_DEVICE=none RDMA_TEST_GID_INDEX=0)
program "$tmp/bin/ibv_rc_pingpong" '[[ ${*: -1} == localhost ]] || exit 0' 'exec sleep 600'
# Longer limits for a machine that is too slow for the server to end.
for limit in 1 8 64; do
	rm -rf "$tmp/slow"
	sed "s/^limit=300 .*/limit=$limit/" "$here/inside" >"$tmp/short/tests/stacks/inside"
	chmod +x "$tmp/short/tests/stacks/inside"
	"${adapter[@]}" "$tmp/short/tests/stacks/inside" "$tmp/built" "$tmp/slow" rc_pingpong 2>/dev/null
	has_started "$tmp/slow/rc_pingpong/without/server.timeout" || break
done
same 'a program whose time runs out has left that' yes "$(is has_started "$tmp/slow/rc_pingpong/without/client.timeout")"
same 'and its server, which had ended, has not' no "$(is has_started "$tmp/slow/rc_pingpong/without/server.timeout")"
program "$tmp/bin/ibv_rc_pingpong" 'echo a complaint >&2' 'kill -KILL $$'
"${adapter[@]}" "$here/inside" "$tmp/built" "$tmp/killed" rc_pingpong 2>/dev/null
same 'nor has one that was killed' '137 no' \
	"$(<"$tmp/killed/rc_pingpong/without/client.status") $(is has_started "$tmp/killed/rc_pingpong/without/client.timeout")"
same 'whose error output is its own' 'a complaint' "$(grep -v '^ERROR: ld.so: ' "$tmp/killed/rc_pingpong/without/client.err")"

# An aborted run leaves no program behind.
program "$tmp/bin/ibv_rc_pingpong" "echo \$\$ >$tmp/pid" 'exec sleep 100'
"${adapter[@]}" "$here/inside" "$tmp/built" "$tmp/ended" rc_pingpong &
row=$!
same 'a program has started' started "$(started "$tmp/pid")"
kill "$row"
wait "$row"
same 'a program ends with the run that is ended' ended "$(ended "$tmp/pid")"

# ---- scripts that provide the adapter ----

# The programs below end slowly, and report their end.
last=("trap 'kill \$child 2>/dev/null; sleep 1; : >$tmp/last; exit 143' TERM" 'sleep 100 &' 'child=$!' "echo \$\$ >$tmp/pid" 'wait')
waits_for_last() {
	local pid

	rm -f "$tmp/pid" "$tmp/last"
	"${@:2}" >/dev/null 2>&1 &
	pid=$!
	same "$1: it has started" started "$(started "$tmp/pid")"
	kill "$pid"
	wait "$pid"
	same "$1: what it runs has ended before it" yes "$(is test -e "$tmp/last")"
}

mkdir -p "$tmp/copy/tests/rdma" "$tmp/copy/tests/stacks" "$tmp/make"
cp -r "$here/run" "$here/rows" "$here/pattern_rows" "$here/cuda" "$here/judge" "$tmp/copy/tests/stacks"
program "$tmp/copy/tests/rdma/run" "${last[@]}"
program "$tmp/make/make" 'exit 0'
waits_for_last tests/stacks/run env PATH="$tmp/make:$PATH" STACKS_BUILD="$tmp" "$tmp/copy/tests/stacks/run" rc_pingpong
cp "$rdma/run" "$tmp/copy/tests/rdma"
printf '%s() { %s; }\n' active_adapter 'echo none' usable_gid_index 'echo 0' remove_soft_roce ':' >"$tmp/copy/tests/rdma/adapter"
program "$tmp/last_command" "${last[@]}"
waits_for_last tests/rdma/run "$tmp/copy/tests/rdma/run" "$tmp/last_command"

# The simulated adapter: its fabric ends with the command, also with one that is ended.
matches 'the simulated adapter must be built' "*nothing is built in $tmp/nowhere*=> 125" \
	"$(outcome "$rdma/run" --adapter sim --build "$tmp/nowhere" true)"
mkdir -p "$tmp/sim/src/sim/adapter/.libs"
matches 'which is said' "*no simulated adapter is built in $tmp/sim*=> 125" \
	"$(outcome "$rdma/run" --adapter sim --build "$tmp/sim" true)"
: >"$tmp/sim/src/sim/adapter/.libs/libibverbs.so.1"
# shellcheck disable=SC2016 # for the program that is written
program "$tmp/joins" 'mkdir "/tmp/peerpin-sim0-$EUID-$PEERPIN_SIM_ADAPTER_SEGMENT"' \
	"echo \"\$RDMA_TEST_KIND \$RDMA_TEST_DEVICE /tmp/peerpin-sim0-\$EUID-\$PEERPIN_SIM_ADAPTER_SEGMENT\" >$tmp/joined" "${last[@]}"
waits_for_last tests/rdma/run "$rdma/run" --adapter sim --build "$tmp/sim" "$tmp/joins"
read -r kind device folder <"$tmp/joined"
same 'a command knows it' 'sim sim0' "$kind $device"
same 'and its fabric has gone' no "$(is test -e "$folder")"

finish
