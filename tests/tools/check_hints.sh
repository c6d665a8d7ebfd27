#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_hints.sh -- each row of tools/hints.def in peerpin report and peerpin top: one hint and one
# fix for one state; the table at exit has none
set -euo pipefail

here=$(dirname "$0")
# shellcheck source=tests/launcher/checks
. "$here/../launcher/checks"

table=$here/../../src/tools/hints.def
hinted=$PWD/tests/tools/hinted
report=$PWD/src/tools/peerpin-report
top=$PWD/src/tools/peerpin-top
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -m 700 "$tmp/peerpin"
snapshot=$tmp/peerpin/1073741824-1.stats
export XDG_RUNTIME_DIR=$tmp LC_ALL=C.UTF-8 PEERPIN_SIM_SHM=$tmp/shm

sync='PEERPIN_PREREGISTER=eager registers inside the allocation (52.3 µs longer)'
early='synchronous_queued=200 waited=90 registrations=300 registrations_background=10 background_ns=690000 program_ns=18000000 waited_ns=3000000'

# A state for each row, and for each fix: ID, words of hinted, the hint.
states="forwarded | forwarded=200 forwarded_failed=150 forwarded_address=50 | 150 of 300 requests are forwarded (registration failed): peerpin doctor --only probe
forwarded | forwarded=200 forwarded_capability=200 allocations_managed=1 | 200 of 300 requests are forwarded (memory not capable of GPUDirect RDMA): register memory of cudaMalloc in place of managed memory
forwarded | forwarded=200 forwarded_capability=200 | 200 of 300 requests are forwarded (memory not capable of GPUDirect RDMA): register memory of cudaMalloc, or of cuMemCreate with gpuDirectRDMACapable
no_idle_cpu | $early background_delays=28 | 290 of 300 requests preceded their registration, as no CPU was idle: $sync; or leave a CPU to each process
no_idle_cpu | $early background_delays=28 PEERPIN_PREREGISTER=eager | 290 of 300 requests preceded their registration, as no CPU was idle: leave a CPU to each process
no_idle_cpu | synchronous=300 never_used=9 background_delays=28 PEERPIN_PREREGISTER=eager | 300 of 300 requests preceded their registration, as no CPU was idle: leave a CPU to each process
early | $early | 290 of 300 requests preceded their registration, as they follow the allocation at once: $sync; or allocate earlier
early | $early PEERPIN_PREREGISTER=eager | 290 of 300 requests preceded their registration, as they follow the allocation at once: allocate earlier
pin_limit | synchronous=40 evictions=3 | 40 of 300 requests registered synchronously, and the pin limit evicted regions: PEERPIN_PIN_LIMIT is not set: the limit is the GPU's BAR1, the adapter, or RLIMIT_MEMLOCK (peerpin doctor)
pin_limit | synchronous=40 evictions=3 PEERPIN_PIN_LIMIT=1073741824 | 40 of 300 requests registered synchronously, and the pin limit evicted regions: raise PEERPIN_PIN_LIMIT, up to the GPU's BAR1 (peerpin doctor)
off | synchronous=300 PEERPIN_PREREGISTER=off | 300 of 300 requests registered synchronously, as PEERPIN_PREREGISTER=off: PEERPIN_PREREGISTER=auto, the default, registers before the request
first | synchronous=300 | 300 of 300 requests registered synchronously, the first of their protection domain: PEERPIN_PREREGISTER=eager registers from the first allocation on, for known clients
first | synchronous=300 never_used=9 protection_domains=20 | 300 of 300 requests registered synchronously, the first of their protection domain: PEERPIN_PREREGISTER=eager registers from the first allocation on, for known clients
synchronous | synchronous=300 never_used=9 | 300 of 300 requests registered synchronously, without a background registration before
synchronous | synchronous=300 PEERPIN_PREREGISTER=eager | 300 of 300 requests registered synchronously, without a background registration before"

# state WORD...: of a process with 300 requests; $hint: its hint in top, with the fix
state() {
	hint=$("$hinted" "$snapshot" requests=300 "$@" >"$tmp/table" && { "$top" --once --job hinted || :; } |
		sed -n '/^hint/{N;s/\n      \(.*\)/: \1/;s/\n.*//;s/^hint  //p}')
}

# Advice of the report, one "ID TEXT: FIX" a line, as top has it.
advice() {
	"$report" --json "$snapshot" | jq -r '.jobs[0].advice[] | "\(.id) \(.text | rtrimstr("."))\(if .fix == "" then "" else ": " + .fix end)"'
}

every_row() {
	local ids id words expected

	ids=$(sed -n 's/^HINT(\([a-z_]*\),.*/\1/p' "$table")
	same 'every row has a state' "$ids" "$(cut -d' ' -f1 <<<"$states" | uniq)"
	while IFS='|' read -r id words expected; do
		id=${id% } expected=${expected# }
		read -ra words <<<"$words"
		state "${words[@]}"
		same "$id in top (${words[*]})" "$expected" "$hint"
		[[ $id == forwarded ]] || same "$id in the report, alone" "$id $expected" "$(advice | grep -E "^(${ids//$'\n'/|}) ")"
	done <<<"$states"
}

every_fix() {
	local reason id

	while read -r reason; do
		id=${reason/forwarded_pin/over_pin}
		state "$reason=300"
		matches "$reason in top" '300 of 300 requests are forwarded (*): *' "$hint"
		same "$reason: one fix" "${hint#*): }" "$("$report" --json "$snapshot" | jq -r ".jobs[0].advice[] | select(.id == \"$id\").fix")"
	done < <(sed -n 's/^FIX(\([a-z_]*\),.*/\1/p' "$table")
	state forwarded_form=300
	same 'a reason without a fix' "300 of 300 requests are forwarded (dma-buf, extended or DEVX form): see THE TABLE AT EXIT in 'man 7 peerpin'" "$hint"
}

# States of 2 rows at once: the report has the hint of top, and no setting has 2 values in its fixes.
no_contradiction() {
	local -A words_of=([eager]=PEERPIN_PREREGISTER=eager)
	local id words one other list

	while IFS='|' read -r id words _; do words_of[${id% }]=$words; done < <(tac <<<"$states")
	for one in "${!words_of[@]}"; do
		for other in "${!words_of[@]}"; do
			[[ $one < $other && $one+$other != eager+off ]] || continue
			read -ra words <<<"${words_of[$one]} ${words_of[$other]} never_used=99"
			state "${words[@]}"
			list=$(advice)
			[[ $hint == *forwarded* ]] || matches "$one and $other: the hint is in the report" "*$hint*" "$list"
			same "$one and $other: one value for each setting" '' "$(grep -oE ': .*' <<<"${list//without PEERPIN/}" | grep -oE 'PEERPIN_[A-Z_]+=[A-Za-z0-9]+' | sort -u | cut -d= -f1 | uniq -d)"
		done
	done
}

# Whether there is a hint, and of two rows that of the more requests.
thresholds() {
	state requests=4 hits=2 synchronous=2
	same 'half of few requests hit: no hint' '' "$hint"
	state requests=4 hits=1 synchronous=3
	matches 'most of few requests miss' '3 of 4 requests *' "$hint"
	state hits=270 synchronous=30
	same 'a tenth of many requests: no hint' '' "$hint"
	state hits=269 synchronous=31
	matches 'more than a tenth of many requests' '31 of 300 requests *' "$hint"
	state synchronous=140 waited=150
	matches 'the hint is for the most requests' '150 of 300 requests preceded *' "$hint"
	state synchronous=160 waited=140
	matches 'of two rows, again' '160 of 300 requests registered *' "$hint"
	state waited=300 PEERPIN_PIN_LIMIT=4096 PEERPIN_PREREGISTER=eagerly PEERPIN_KEEP=1
	matches 'only the whole value is a setting' '*: PEERPIN_PREREGISTER=eager *' "$hint"
	state synchronous=300 evictions=1 PEERPIN_PIN_LIMITS=1
	matches 'only the whole name is a setting' '*: PEERPIN_PIN_LIMIT is not set: *' "$hint"
	state waited=300 PEERPIN_PIN_LIMIT=4096 PEERPIN_PREREGISTER=eager PEERPIN_KEEP=1
	matches 'a setting between others' '*: allocate earlier' "$hint"
	state requests=0
	same 'no request: no hint' '' "$hint"
}

# no_idle_cpu NAME YES-OR-NO WORD...: top says so or not
no_idle_cpu() {
	state "${@:3}"
	same "$1" "$2" "$("$top" --once --job hinted | grep -c '^registrations .*  no idle CPU (delays: 7)$' || :)"
}

no_idle_cpus() {
	no_idle_cpu 'delays of early requests' 1 requests=9000 hits=1 waited=6999 background_delays=7
	no_idle_cpu 'few delays' 0 requests=9000 hits=1 waited=7000 background_delays=7
	no_idle_cpu 'delays without an early request' 0 background_delays=7
	no_idle_cpu 'synchronous requests that were delayed' 1 requests=9000 synchronous=6999 background_delays=7
	no_idle_cpu 'first requests' 0 synchronous=15 background_delays=7
	no_idle_cpu 'early requests too few for a hint' 1 hits=290 waited=10 background_delays=7
	same 'these have no hint' '' "$hint"
}

# Each of several jobs has a hint of its own in top.
several_jobs() {
	state waited=300 job=one
	mv "$snapshot" "$tmp/peerpin/1-1.stats"
	state forwarded_failed=300 job=two
	same 'several jobs in top' "hint  one: 300 of 300 requests preceded their registration, as they follow the allocation at once
hint  two: 300 of 300 requests are forwarded (registration failed)" "$("$top" --once 1073741824 | grep ^hint)"
	rm "$tmp/peerpin/1-1.stats"
}

[[ -x $report ]] && command -v jq >/dev/null || exit 77
every_row
same 'the table at exit has no hint' '' "$(grep -i hint "$tmp/table" | grep -v '^peerpin ' || :)"
every_fix
no_contradiction
thresholds
no_idle_cpus
several_jobs
finish
