#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_demo.sh -- the judge of scripts/demo, and its second measurement
set -euo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/launcher/checks
. "$top/tests/launcher/checks"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# json NAME=VALUE...
json() {
	local word

	for word; do printf '  "%s": %s,\n' "${word%%=*}" "${word#*=}"; done
}

# write RUN NAME=VALUE...: the files of a run, two ranks
write() {
	local rank

	{
		echo '  "sizes": "100",'
		json rounds=8 first_us_100=900.5 again_us_100=20 addresses_reused=9 bytes_verified=10 "bytes_wrong=${wrong:-0}"
	} >"$tmp/results/$1.exchange"
	for rank in 0 1; do
		json phase{0,1}_gpu_by_{program,worker}=5 phase0_peerpin_{requests,hits,waited,synchronous_queued}=0 >"$tmp/results/$1.witness.$rank"
		json "${@:2}" >"$tmp/results/$1.peerpin.$rank"
	done
}

# judged NAME=VALUE...: the judgement of 200 requests with peerpin, the counts of each rank given
judged() {
	rm -rf "$tmp/results"
	mkdir "$tmp/results"
	write without
	write keep requests=0 hits=0 reused=9
	write with "requests=${requests:-100}" "$@" reused=0
	outcome "$top/tests/apps/compare" "$tmp/results"
}

judge() {
	local idle='waited=0 synchronous_queued=0 background_delays=0' busy='waited=0 synchronous_queued=0 background_delays=7' text

	# shellcheck disable=SC2086 # words
	{
	text=$(judged hits=95 $busy)
	matches 'both tables have headings' $'time in us, median of 8 rounds  *without  with peerpin   with --keep
exchange *100 bytes  *900 *\n\ncount after the first round  *without  with peerpin   with --keep\n*' "$text"
	matches 'most hits: right' '*190 hits in 200 requests *No CPU was idle (background_delays: 14).*=> 0' "$text"
	matches 'few hits on busy CPUs: right, with the reason' '*0 hits in 200 requests *No CPU was idle (background_delays: 14).*=> 3' \
		"$(judged hits=0 $busy)"
	matches 'few hits on idle CPUs: wrong' '*FAILED: 200 of 200 requests were no hits though a CPU was idle
=> 1' "$(judged hits=0 $idle)"
	matches 'requests before their background registration: right' $'*20 hits in 200 requests with peerpin\n180 requests preceded the end *=> 3' \
		"$(judged hits=10 waited=30 synchronous_queued=60 background_delays=0)"
	same 'idle CPUs have no reason' '' "$(judged hits=10 waited=30 synchronous_queued=60 background_delays=0 | grep 'No CPU')"
	matches 'no request: wrong' '*FAILED: no request reached peerpin *=> 1' "$(requests=0 judged hits=0 $idle)"
	matches 'wrong bytes: wrong' '*FAILED: with: 3 bytes are wrong*=> 1' "$(wrong=3 judged hits=0 $busy)"
	}
}

# A tree in which only scripts/demo is real. Each comparison takes its status from a file.
make_tree() {
	local file

	mkdir -p "$tmp"/tree/{scripts,build/scripts,tests/rdma,tests/apps}
	cp "$top/scripts/demo" "$tmp/tree/scripts/demo"
	cd "$tmp/tree"
	echo 'demo-programs:' >build/Makefile
	echo 'exit 0' | tee scripts/install-packages >scripts/build
	# shellcheck disable=SC2016 # expanded by the fake
	echo 'echo export PEERPIN_SIM_ADAPTER_DELAY=${PEERPIN_SIM_ADAPTER_DELAY:-456}' >build/scripts/peerpin
	cat >tests/rdma/run <<'TEXT'
while [ "$1" != tests/apps/exchange_pair ]; do shift; done
shift 3
echo "$PEERPIN_SIM_ADAPTER_DELAY: $*" >>runs
printf 'exchange_pair: %s\n' 'without peerpin' 'with peerpin' >&2
echo 'peerpin of with' >&2
case $* in *keep*) printf '%s\n' 'exchange_pair: with peerpin --keep 256M' 'peerpin of keep' >&2 ;; esac
TEXT
	cat >tests/apps/compare <<'TEXT'
echo table
status=$(head -n 1 statuses)
sed -i 1d statuses
exit "$status"
TEXT
	for file in scripts/install-packages scripts/build build/scripts/peerpin tests/rdma/run tests/apps/compare; do
		sed -i '1i #!/bin/bash' "$file"
		chmod +x "$file"
	done
}

# shown STATUS...: the demo, whose comparisons end so, and its runs
shown() {
	rm -f runs
	printf '%s\n' "$@" >statuses
	outcome scripts/demo
	printf '\n'
	cat runs
}

demonstration() {
	make_tree
	matches 'few hits: without and with peerpin once more' '*few hits: *once more*table*passed *=> 0
456: without with keep
456: without with' "$(shown 3 0)"
	matches 'few hits twice: right, and no gain' '*passed: all bytes are right; NO GAIN WAS SHOWN*=> 0
456: without with keep
456: without with' "$(shown 3 3)"
	matches 'many hits: one measurement, and the summary with peerpin alone' '*The summary with peerpin:
peerpin of with

*passed *=> 0
456: without with keep' "$(shown 0)"
	echo '9.0 9.0 9.0 99/400 4711' >busy
	echo '0.0 0.0 0.0 1/400 4711' >idle
	matches 'busy CPUs: a warning first' '*WARNING: 98 other processes run on *CPUs: no CPU is idle *passed *=> 0*' "$(DEMO_LOADAVG=busy shown 0)"
	same 'idle CPUs: no warning' '' "$(DEMO_LOADAVG=idle shown 0 | grep WARNING)"
	matches 'a wrong result: no second measurement' '*FAILED *=> 1
456: without with keep' "$(shown 1)"
	matches 'a wrong second result' '*FAILED *=> 1
456: without with keep
456: without with' "$(shown 3 1)"
	matches 'the delay is stated; a variable of the caller has another' '*GPU and adapter are simulated, a registration takes 7 us *=> 0
7: without with keep' "$(PEERPIN_SIM_ADAPTER_DELAY=7 shown 0)"
}

judge
demonstration
finish
