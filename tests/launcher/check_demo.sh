#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_demo.sh -- peerpin demo: its figures, busy CPUs, and faults
set -euo pipefail

# Run by make check in the build folder.
# shellcheck source=tests/launcher/command
. "$(dirname "$0")/command"

# numbers PATTERN: both columns of the first line with the text
numbers() {
	awk -v pattern="$1" '$0 ~ pattern { print $(NF - 1), $NF; exit }' <<<"$text"
}

# On a loaded machine there may be few hits: then the reason is part of the output.
figures() {
	local hits

	text=$(outcome "$peerpin" demo)
	matches 'simulation, delay and both sides are stated' $'*GPU and adapter are simulated. A registration takes 500 us, a setting *
time, us *without *with peerpin
a request for a registration, median *
count *' "$text"
	same 'a request without peerpin takes the delay' yes "$(numbers median | awk '{ print ($1 >= 500) ? "yes" : $0 }')"
	hits=$(numbers hits: | sed 's/.* //')
	same 'few hits have a reason' yes "$( ((hits >= 231)) || [[ $text == *"$hits hits in 256 requests: "* ]] && echo yes)"
	same 'without peerpin memory is freed under a registration, with it never' '16 0' "$(numbers outlived)"
	same 'no byte is wrong' '0 0' "$(numbers wrong)"
	matches 'the summary, and its lines explained' \
		$'*\npeerpin [0-9]*\nGPUDirect RDMA   *\nrequests  *144 *hits*\nfrees *\nfrees           each *=> 0' "$text"
	same 'no argument' $'peerpin: demo takes no argument: x\n=> 2' "$(outcome "$peerpin" demo x)"
}

# The environment of the caller has the delay alone.
settings() {
	matches 'a delay of the caller' '*A registration takes 100 us,*=> 0' \
		"$(PEERPIN_DISABLE=1 PEERPIN_SIM_ADAPTER_DELAY=100 outcome "$peerpin" demo)"
	matches 'a bad delay' '*peerpin demo: PEERPIN_SIM_ADAPTER_DELAY=10001 is not allowed (0 to 10000 us)
=> 2' "$(PEERPIN_SIM_ADAPTER_DELAY=10001 outcome "$peerpin" demo)"
}

# faulty FAULT [LIBRARY]: the demo with demo_faults.c, or another library; the number of runs with it
faulty() {
	rm -f "$tmp/runs"
	LD_LIBRARY_PATH=$simulated_adapter:$simulated PEERPIN_SIM_ADAPTER_DELAY=0 DEMO_FAULT=$1 DEMO_RUNS=$tmp/runs \
		outcome "$(built src/sim/peerpin-demo)" "${2-$PWD/tests/launcher/.libs/demo_faults.so:$library}"
	[[ ! -e $tmp/runs ]] || wc -l <"$tmp/runs"
}

faults() {
	local busy='0 hits in 256 requests: no CPU was idle (background_delays: [0-9]*).' again='The demo measures once more.'

	text=$(faulty busy)
	matches 'busy CPUs: measured twice, and stated' "$busy*$again*$busy*Run the demo again when a CPU is idle.*=> 0*4" "$text"
	text=$(faulty 'busy once')
	matches 'busy CPUs in the first measurement' "$busy*$again*=> 0*4" "$text"
	same 'then the second counts' 1 "$(grep -c 'hits in 256 requests: ' <<<"$text")"
	matches 'busy CPUs in the first round alone' '*0 hits in 256 requests: no CPU was idle (background_delays: 10).*=> 0*4' "$(faulty 'busy first')"
	matches 'few hits on idle CPUs' "*hits in 256 requests: the others preceded *$again*Run the demo again *=> 0*4" "$(faulty early)"
	matches 'no hit on idle CPUs' '*peerpin demo: no hit, though a CPU was idle *=> 1*4' "$(faulty 'no hit')"
	matches 'a wrong byte' '*peerpin demo: 2[0-9][0-9] bytes are wrong*=> 1*' "$(faulty byte)"
	matches 'a registration that outlived its memory' '*peerpin demo: 6 registrations outlived their memory*=> 1*' "$(faulty outlived)"
	matches 'a key of freed memory' '*peerpin demo: [0-9]* keys were valid after the free*=> 1*' "$(faulty key)"
	matches 'a forwarded request' '*peerpin demo: peerpin forwarded [0-9]* of 256 requests *=> 1*' "$(faulty forwarded)"
	matches 'a library that does nothing' '*peerpin demo: peerpin forwarded 256 of 256 requests *=> 1' \
		"$(faulty '' "$PWD/tests/launcher/empty.so")"
	matches 'a client that fails' '*peerpin demo: the client ended with status 0x*=> 1' \
		"$(PEERPIN_SIM_ADAPTER_FAIL_AT=9 faulty '' "$PWD/tests/launcher/empty.so")"
}

figures
settings
faults
finish
