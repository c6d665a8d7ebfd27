#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_stacks.sh -- the parts of tests/stacks that need no adapter: verdicts on rows, and gpu_buffers.c
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/launcher/checks
. "$here/../launcher/checks"
command -v python3 >/dev/null || { echo 'SKIPPED: no python3'; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# shellcheck source=tests/stacks/results_of_rows
. "$here/results_of_rows"

host_row host
same 'a row with host memory passes' 'passed' "$(judged host)"
gpu_row gpu
same 'a row with GPU memory passes' 'passed' "$(judged gpu)"
matches 'the table has its numbers' "*gpu*yes*6/6*3*2*0/0*1.5/1.5*1.00*    peerpin: host GPUDirect RDMA used, hits 3/5*misses: synchronous 1, \
forwarded_flags 1*1 passed, 0 failed, 0 skipped*=> 0" \
	"$(outcome "$here/judge" "$tmp" gpu)"

gpu_row registers
echo 1-1 >"$tmp/registers/registers"
same 'the promised number of registrations' 'passed' "$(judged registers)"
matches 'the table has it, without and with peerpin' '*registrations of GPU memory: 1/1*' "$("$here/judge" "$tmp" registers)"
echo 2- >"$tmp/registers/registers"
same 'too few registrations' 'failed: without peerpin 1 registrations of GPU memory, not 2-' "$(judged registers)"
echo 0-0 >"$tmp/registers/registers"
same 'too many registrations' 'failed: without peerpin 1 registrations of GPU memory, not 0-0' "$(judged registers)"
gpu_row least
echo 'hits=60%requests hits=3' >"$tmp/least/least"
same 'a statistic that the row names' 'passed' "$(judged least)"
echo 'hits=4' >"$tmp/least/least"
same 'is too small' 'failed: with: 3 hits, less than 4' "$(judged least)"
echo 'hits=61%requests' >"$tmp/least/least"
same 'or too small a part of another' 'failed: with: 3 hits, less than 61%requests (5)' "$(judged least)"

# Most requests miss: 9 registrations by the program, 1 by the worker. 5 hits alone are no pass.
gpu_row share
echo yes >"$tmp/share/hits"
for mode in without with verified; do
	witness "$tmp/share/$mode/witness.1" gpu_by_program=9 gpu_by_worker=1 asked_gpu=20 host=0 registered=2 deregistered=2
done
witness "$tmp/share/without/witness.1" gpu_by_program=20 asked_gpu=20 host=0 registered=2 deregistered=2
echo 50 >"$tmp/share/share"
same 'half of the registrations where half are allowed' 'passed' "$(judged share)"
witness "$tmp/share/with/witness.1" gpu_by_program=9 gpu_by_worker=2 asked_gpu=20 host=0 registered=2 deregistered=2
same 'a row with too few hits fails' \
	'failed: with: 11 registrations of GPU memory, more than 50 % of 20 without peerpin' "$(judged share)"
: >"$tmp/share/share"
same 'unless it promises none' 'passed' "$(judged share)"

host_row silent
rm "$tmp"/silent/*/witness.*
same 'a program that made no verbs call fails' 'failed: it made no verbs call that registers' "$(judged silent)"
host_row silent_with
rm "$tmp"/silent_with/with/witness.*
same 'so does one that made none with peerpin' 'failed: with: 0 of 1 processes made verbs calls' "$(judged silent_with)"
echo 2 >"$tmp/silent_with/processes"
same 'or one of whose processes made none' 'failed: without: 1 of 2 processes made verbs calls' "$(judged silent_with)"
host_row unsent
witness "$tmp/unsent/without/witness.1" posted=0
same 'so does one that posted nothing' 'failed: it posted no work request' "$(judged unsent)"

host_row status
echo 139 >"$tmp/status/with/client.status"
same 'another status fails' 'failed: with: status 139, without peerpin 0' "$(judged status)"
host_row both
echo 1 | tee "$tmp/both/with/client.status" >"$tmp/both/without/client.status"
matches 'a program that fails by itself fails' 'failed: without peerpin: status 1*' "$(judged both)"
echo yes >"$tmp/both/fails"
same 'but not where that is what it is for' 'passed' "$(judged both)"

host_row output
echo 'moved 4095 bytes at 0x7f00aa in 1.25 s, 3276 a second' >"$tmp/output/with/client.out"
matches 'other output fails, if it is no time and no address' "failed: with: other output: *4096*4095*" "$(judged output)"
host_row mute
: | tee "$tmp"/mute/{without,with}/client.out
same 'no output is not the same output' 'failed: without peerpin it printed nothing' "$(judged mute)"
host_row complaint
echo 'connection lost' >>"$tmp/complaint/with/client.err"
matches 'so does other error output' "failed: with: other error output: *connection lost*" "$(judged complaint)"
echo 'connection (lost|closed)' >"$tmp/complaint/ignored"
same 'but not of lines that the row ignores' 'passed' "$(judged complaint)"
echo 'connection refused' >>"$tmp/complaint/with/client.err"
matches 'others still count' "failed: with: other error output: *connection refused*" "$(judged complaint)"

host_row raced
echo 'client DISCONNECT EVENT...' >>"$tmp/raced/without/client.err"
same 'but not what a thread prints only if the program has not ended yet' 'passed' "$(judged raced)"

host_row calls
witness "$tmp/calls/with/witness.2" registered=2 deregistered=2 peerpin_requests=0
matches 'with host memory each verbs call must be the same' 'failed: other verbs calls: *' "$(judged calls)"
host_row absent
witness "$tmp/absent/with/witness.2"
same 'and peerpin must have been there' 'failed: with: peerpin was not there' "$(judged absent)"
host_row taken
witness "$tmp/taken/with/witness.2" peerpin_requests=1
same "and have taken none of it for a GPU's" "failed: peerpin took host memory for a GPU's" "$(judged taken)"
host_row heard
echo 'peerpin: a line of its own' >>"$tmp/heard/with/client.err"
matches 'and have said nothing' 'failed: with: other error output: *a line of its own*' "$(judged heard)"

gpu_row missing
statistics "$tmp/missing/with/peerpin.1" requests=5 hits=0 synchronous=5 verify_checks=0
same 'a row whose buffers are used once may miss each time' 'passed' "$(judged missing)"
echo yes >"$tmp/missing/hits"
same 'one whose buffers come again may not' 'failed: with: nothing hit, though its buffers come again' "$(judged missing)"
echo idle >"$tmp/missing/hits"
same 'nor buffers that are all new' 'failed: with: nothing hit, though its buffers come again' "$(judged missing)"
statistics "$tmp/missing/with/peerpin.1" requests=5 hits=0 synchronous=5 background_delays=1 verify_checks=0
same 'unless no processor was idle' 'passed' "$(judged missing)"
echo all >"$tmp/missing/hits"
same 'a row whose requests all have to hit may miss none' 'failed: with: not every request hit' "$(judged missing)"
statistics "$tmp/missing/with/peerpin.1" requests=5 hits=5 verify_checks=0
same 'and passes if it does not' 'passed' "$(judged missing)"
for name in ranges pattern-ranges; do
	gpu_row "$name"
	statistics "$tmp/$name/with/peerpin.1" requests=5 hits=3 forwarded=2 forwarded_range=2
done
same 'a program may request more than its memory' 'passed' "$(judged ranges)"
same 'but not a pattern' 'failed: with: 2 requests for buffers were beyond their allocation' "$(judged pattern-ranges)"
# A row that promises that libfabric is loaded.
gpu_row beside
echo yes >"$tmp/beside/libfabric"
same 'a row beside libfabric fails without it' \
	'failed: without: libfabric was loaded at 0 of 1 requests for GPU memory' "$(judged beside)"
for mode in without with verified; do
	witness "$tmp/beside/$mode/witness.1" gpu_by_program=1 asked_gpu=2 asked_gpu_beside_libfabric=2 host=0 \
		registered=2 deregistered=2
done
same 'and passes with it' 'passed' "$(judged beside)"
witness "$tmp/beside/with/witness.1" gpu_by_program=1 asked_gpu=2 asked_gpu_beside_libfabric=1 host=0 \
	registered=2 deregistered=2
same 'at each request' 'failed: with: libfabric was loaded at 1 of 2 requests for GPU memory' "$(judged beside)"
gpu_row unexplained
statistics "$tmp/unexplained/with/peerpin.1" requests=5 hits=3 synchronous=1
same 'a miss without a reason fails' 'failed: with: 5 requests, of which hits and reasons explain 4' "$(judged unexplained)"
gpu_row unheard
statistics "$tmp/unheard/with/peerpin.1" requests=0
same 'no request at all fails' 'failed: with: no request reached peerpin' "$(judged unheard)"
gpu_row wrong
statistics "$tmp/wrong/verified/peerpin.1" requests=5 hits=5 verify_checks=7 verify_disagreements=1
same 'a disagreement fails' 'failed: verified: verification disagrees' "$(judged wrong)"
for counter in stale_keys stale_memory outlived; do
	gpu_row "$counter"
	witness "$tmp/$counter/with/witness.1" gpu_by_program=1 registered=2 deregistered=2 "sim_$counter=1"
	matches "as does what the simulated adapter counts: $counter" 'failed: with: 1 *' "$(judged "$counter")"
done
gpu_row outlived
witness "$tmp/outlived/without/witness.1" gpu_by_program=1 asked_gpu=1 host=0 registered=2 deregistered=2 sim_outlived=1
same 'but not without peerpin' passed "$(judged outlived)"
gpu_row unverified
statistics "$tmp/unverified/verified/peerpin.1" requests=5 hits=5
same 'as does no verification' 'failed: nothing was verified' "$(judged unverified)"
gpu_row left
witness "$tmp/left/with/witness.1" gpu_by_program=1 registered=3 deregistered=2
same 'as do registrations that are left' 'failed: with: registrations were left behind' "$(judged left)"
gpu_row refused
witness "$tmp/refused/with/witness.1" gpu_by_program=1 registered=2 deregistered=2 failed=1
same 'as do verbs calls that fail only with peerpin' \
	'failed: with: verbs calls failed that do not fail without peerpin' "$(judged refused)"
gpu_row broken
statistics "$tmp/broken/with/peerpin.1" requests=5 hits=5 internal_errors=1
same 'as does an error inside of peerpin' 'failed: with: internal errors' "$(judged broken)"
gpu_row undelivered
rm "$tmp/undelivered/with/peerpin.1"
same 'as do missing statistics' 'failed: with: no statistics' "$(judged undelivered)"
gpu_row alone
for mode in without with verified; do
	witness "$tmp/alone/$mode/witness.2" gpu_by_program=1
done
echo 2 >"$tmp/alone/processes"
same 'even of one process' 'failed: with: statistics of 1 processes, verbs calls of 2' "$(judged alone)"
printf '{ "jobs": [{ "processes": 2, "totals": { "requests": 5, "hits": 5 } }] }\n' \
	>"$tmp/alone/with/report.json"
echo yes >"$tmp/alone/fails"
for mode in without with verified; do
	echo 134 >"$tmp/alone/$mode/client.status"
done
statistics "$tmp/alone/verified/peerpin.2" requests=5 hits=5
same 'those of killed processes count as well' 'passed' "$(judged alone)"
sed -i 's/"requests": 5/"requests": 7/' "$tmp/alone/with/report.json"
same 'each may have been inside a request' 'passed' "$(judged alone)"
sed -i 's/"requests": 7/"requests": 8/' "$tmp/alone/with/report.json"
same 'but not inside two' 'failed: with: 8 requests, of which hits and reasons explain 5' "$(judged alone)"
sed -i 's/"requests": 8/"requests": 5/' "$tmp/alone/with/report.json"
echo 137 >"$tmp/alone/with/client.status"
same 'and how a job ends whose rank dies is all the same' 'passed' "$(judged alone)"
echo 0 >"$tmp/alone/with/client.status"
same 'but not whether it fails' 'failed: with: status 0, without peerpin 134' "$(judged alone)"
echo 134 >"$tmp/alone/with/client.status"
echo '{ "alloc_pd": 1,' >"$tmp/alone/with/witness.2-partial"
same 'what a process was killed writing does not' 'passed' "$(judged alone)"
echo 137 | tee "$tmp"/alone/{without,with,verified}/client.status >/dev/null
same 'as is by which status, so that it may be that of a killed process' 'passed' "$(judged alone)"
: >"$tmp/alone/with/client.timeout"
same 'if it is its own' 'passed' "$(judged alone)"
echo 'timeout: sending signal TERM' >"$tmp/alone/with/client.timeout"
same 'but not if time ran out instead' 'failed: with: its time ran out' "$(judged alone)"
gpu_row no_gpu
witness "$tmp/no_gpu/without/witness.1" registered=2 deregistered=2
same 'as does a program that has no GPU memory' 'failed: without peerpin no GPU memory was registered: nothing was shown' \
	"$(judged no_gpu)"
gpu_row half
echo 2 >"$tmp/half/processes"
for mode in without with verified; do
	witness "$tmp/half/$mode/witness.2" registered=1 deregistered=1
done
for mode in with verified; do
	statistics "$tmp/half/$mode/peerpin.2" requests=1 hits=1 verify_checks=1
done
same 'or has it in one of its processes alone' \
	'failed: without peerpin no GPU memory was registered in 1 of 2 processes: nothing was shown of them' "$(judged half)"
gpu_row idle
witness "$tmp/idle/with/witness.1" gpu_by_program=1 registered=2 deregistered=2 posted=0
same 'as does one that posts nothing with peerpin' 'failed: with: it posted no work request' "$(judged idle)"
gpu_row mute_gpu
echo 'a warning of its own' >"$tmp/mute_gpu/with/client.err"
same 'as does one without a summary line' 'failed: with: peerpin printed no summary line' "$(judged mute_gpu)"

# phases FOLDER PHASE...: of the witness's file; of each phase: registrations by the program and by peerpin's worker,
# deregistrations, and peerpin's requests and hits up to its end
phases() {
	local file=$1/witness.1 phase=0 counts
	shift
	for counts; do
		# shellcheck disable=SC2086 # numbers
		printf '"phase%d_gpu_by_program": %d, "phase%d_gpu_by_worker": %d, "phase%d_gpu_deregistrations": %d, "phase%d_peerpin_requests": %d, "phase%d_peerpin_hits": %d,\n' \
			$(for count in $counts; do echo "$phase $count"; done)
		phase=$((phase + 1))
	done >"$tmp/phases"
	sed -i -e '/^"phase/d' -e "1r $tmp/phases" "$file"
}

# kept_row NAME PHASE...: these phases are those with peerpin
kept_row() {
	local dir=$tmp/$1

	gpu_row "$1"
	echo yes >"$dir/keep"
	echo 1 >"$dir/settled"
	echo none >"$dir/requests"
	statistics "$dir/with/peerpin.1" requests=5 hits=3 synchronous=2 kept=4 reused=3
	phases "$dir/without" '2 0 0 0 0' '4 0 4 0 0' '0 0 2 0 0'
	phases "$dir/with" "${@:2}"
}

kept_row kept '1 2 0 5 3' '0 0 0 5 3' '0 0 3 9 9'
same 'a row with kept memory passes' 'passed' "$(judged kept)"
phases "$tmp/kept/without" '2 0 0 0 0' '4 0 0 0 0' '0 0 6 0 0'
matches 'not if its program frees no registered memory' 'failed: without peerpin later rounds *: nothing was shown' "$(judged kept)"
kept_row again '1 2 0 5 3' '1 0 0 5 3' '0 0 3 5 3'
matches 'nor if it registers again' 'failed: with: 1 registrations of GPU memory *' "$(judged again)"
kept_row ahead '1 2 0 5 3' '0 1 0 5 3' '0 0 3 5 3'
matches 'or peerpin does in the background' 'failed: with: 1 registrations of GPU memory *' "$(judged ahead)"
echo 2 >"$tmp/ahead/settled"
same 'where it may not' 'passed' "$(phases "$tmp/ahead/without" '0 0 0 0 0' '0 0 0 0 0' '4 0 4 0 0' '0 0 0 0 0'
	phases "$tmp/ahead/with" '1 2 0 5 3' '0 1 0 5 3' '0 0 0 5 3' '0 0 3 5 3'; judged ahead)"
kept_row ended '1 2 1 5 3' '0 0 0 5 3' '0 0 3 5 3'
matches 'nor if registrations end' 'failed: with: 1 deregistrations of GPU memory before the end' "$(judged ended)"
kept_row asked '1 2 0 3 1' '0 0 0 5 3' '0 0 3 5 3'
matches 'nor if the program requests them again' 'failed: with: UCX requested 2 registrations again' "$(judged asked)"
echo hits >"$tmp/asked/requests"
same 'unless it has no cache' 'passed' "$(judged asked)"
phases "$tmp/asked/with" '1 2 0 3 1' '0 0 0 5 2' '0 0 3 5 2'
matches 'where each has to hit' 'failed: with: 2 requests after *, of which 1 hit' "$(judged asked)"
phases "$tmp/asked/with"
matches 'nor without what the kernel saw' 'failed: phases of too few processes' "$(judged asked)"
: >"$tmp/asked/settled"
same 'if the row claims it' 'passed' "$(judged asked)"
statistics "$tmp/asked/with/peerpin.1" requests=5 hits=3 synchronous=2 kept=4 reused=0
matches 'memory must be reused in any case' 'failed: with: a process kept or reused no memory' "$(judged asked)"

mkdir "$tmp/elsewhere"
echo 'no sender' >"$tmp/elsewhere/skipped"
same 'a row that cannot run is skipped, with its reason' 'skipped: no sender' "$(judged elsewhere)"
matches 'and rows that are all skipped are no success' '*0 passed, 0 failed, 1 skipped*=> 1' "$(outcome "$here/judge" "$tmp" elsewhere)"
same 'a row that left nothing fails' 'failed: it was not run' "$(judged nothing)"
host_row cut
rm -r "$tmp/cut/with"
same 'as does one that was cut short' 'failed: it was not run to its end' "$(judged cut)"
matches 'and so does the whole' '*1 passed, 1 failed, 0 skipped*=> 1' "$(outcome "$here/judge" "$tmp" gpu nothing)"

matches 'unknown rows are refused' 'tests/stacks/run: no such row: nothing*=> 2' "$(outcome "$here/run" nothing)"
matches 'known ones are not' 'tests/stacks/run: unknown option: --wrong *=> 2' "$(outcome "$here/run" openmpi-rc --wrong)"
# The rows start Open MPI's own launcher, whichever MPI library mpicc is of.
mkdir "$tmp/make"
printf '#!/bin/sh\necho "$@"\nexit 1\n' >"$tmp/make/make"
printf '#!/bin/sh\n' >"$tmp/make/mpicc.openmpi"
chmod +x "$tmp"/make/*
matches "programs are built with the compiler of the launcher's library" '*MPICC=mpicc.openmpi*=> 2' \
	"$(PATH=$tmp/make:$PATH STACKS_BUILD=$tmp outcome "$here/run" openmpi-rc)"
# reason ROW PROGRAM...: why it cannot run with these programs alone, or its command
reason() {
	local program

	rm -rf "$tmp/path"
	mkdir "$tmp/path"
	ln -s "$(command -v sed)" "$(command -v dirname)" "$tmp/path"
	for program in "${@:2}"; do
		printf '#!/bin/sh\necho "%s"\n' "$says" >"$tmp/path/$program"
		chmod +x "$tmp/path/$program"
	done
	# shellcheck disable=SC2016 # for the shell that is started
	env PATH="$tmp/path" build="$tmp/rows" RDMA_TEST_DEVICE=none RDMA_TEST_GID_INDEX=0 "$BASH" -c '. "$0"
		if row "$1"; then echo "it runs ${client[0]##*/}"; else echo "$note"; fi' "$here/rows" "$1"
}
mkdir -p "$tmp/rows/tests/stacks/.libs"
says=''
same 'a row says what is missing, and what mends it' \
	'verbs_witness.so is not built: configure found no infiniband/verbs.h (scripts/install-packages stacks, then configure anew)' \
	"$(reason rc_pingpong ibv_rc_pingpong)"
: >"$tmp/rows/tests/stacks/.libs/verbs_witness.so"
same 'also of a program' 'no ibv_rc_pingpong (scripts/install-packages stacks)' "$(reason rc_pingpong)"
same 'if anything is' 'it runs ibv_rc_pingpong' "$(reason rc_pingpong ibv_rc_pingpong)"
same 'and of one that is to be built' \
	'patterns is not built: configure found no MPI compiler (scripts/install-packages stacks, then configure anew)' \
	"$(reason openmpi-osc mpirun.openmpi)"
same 'be it by MPICH' 'patterns.mpich is not built: there is no mpicc.mpich (scripts/install-packages stacks)' \
	"$(reason mpich mpiexec.hydra)"
printf '#!/bin/sh\n' >"$tmp/rows/tests/stacks/patterns"
chmod +x "$tmp/rows/tests/stacks/patterns"
says='HYDRA build details:'
same 'no other library is taken for Open MPI' 'mpirun is not of Open MPI (scripts/install-packages stacks)' \
	"$(reason openmpi-rc mpirun)"
same 'whose own launcher is the one that is taken' 'it runs mpirun.openmpi' "$(reason openmpi-rc mpirun.openmpi mpirun)"
says='mpirun (Open MPI) 4.1.4'
same 'or that of no other name' 'it runs mpirun' "$(reason openmpi-rc mpirun)"

# The source of the adapter is replaced, in a copy.
mkdir -p "$tmp/copy/tests/rdma" "$tmp/copy/tests/stacks" "$tmp/built"
cp -r "$here/run" "$here/rows" "$here/pattern_rows" "$here/cuda" "$here/judge" "$tmp/copy/tests/stacks"
printf '#!/bin/sh\n' >"$tmp/built/make"
# shellcheck disable=SC2016 # for the script that is written
printf '#!/bin/sh\necho "tests/rdma/run: $WORDS" >&2\nexit 125\n' >"$tmp/copy/tests/rdma/run"
chmod +x "$tmp/built/make" "$tmp/copy/tests/rdma/run"
matches 'no adapter is no failure' '*=> 77' "$(PATH=$tmp/built:$PATH STACKS_BUILD=$tmp WORDS='no machine' \
	outcome "$tmp/copy/tests/stacks/run" openmpi-rc)"
matches 'an adapter that dies is one' '*0 passed, 1 failed, 0 skipped*=> 1' "$(PATH=$tmp/built:$PATH STACKS_BUILD=$tmp \
	WORDS='adapter: rxe0' outcome "$tmp/copy/tests/stacks/run" openmpi-rc)"
matches 'help names the rows' '*openmpi-rc*pattern-crash*rping-gpu*=> 0' "$(outcome "$here/run" --help)"

# scripts/test, on a machine without MPI until this step installs it. Mocks record the order of its helpers' calls.
mkdir -p "$tmp/tree/scripts" "$tmp/tree/tests/stacks"
cp "$here/../../scripts/test" "$tmp/tree/scripts/test"
# shellcheck disable=SC2016 # for the scripts that are written
{
	printf '#!/bin/sh\n[ "$2" != stacks ] || touch installed\n' >"$tmp/tree/scripts/install-packages"
	printf '#!/bin/sh\n[ ! -e installed ] || touch configured\n' >"$tmp/tree/scripts/build"
	printf '#!/bin/sh\necho "rows $*" >>options\n[ -e configured ] || exec echo 0 passed, 0 failed, 1 skipped\necho 1 passed, 0 failed, 0 skipped\n' \
		>"$tmp/tree/tests/stacks/run"
}
chmod +x "$tmp"/tree/scripts/* "$tmp/tree/tests/stacks/run"
matches 'what scripts/test installs for them is built with' '*2 passed, 0 failed, 0 skipped*=> 0' \
	"$(outcome "$tmp/tree/scripts/test" stacks)"
same 'and it runs the short form natively and where the kernel decides' $'rows --short\nrows --soft-roce --short' \
	"$(cat "$tmp/tree/options")"
rm "$tmp/tree/options"
matches 'with --long all' '*stacks: 3 passed*all steps (* s)*=> 0' "$(outcome "$tmp/tree/scripts/test" --long stacks)"
same 'of both, and a few of the newest UCX with CUDA' $'rows \nrows --soft-roce\nrows --cuda --short' "$(cat "$tmp/tree/options")"
matches 'an unknown step is named' '*unknown step or option: stack*=> 2' "$(outcome "$tmp/tree/scripts/test" stack)"
# shellcheck source=tests/stacks/rows
same 'each row of the short form is a row' '' \
	"$(. "$here/rows" && comm -23 <(soft_roce_short_rows | sort) <(soft_roce_rows | sort))"
# shellcheck source=tests/stacks/rows
same 'and each row that it lacks natively' '' \
	"$(. "$here/rows" && comm -23 <(printf '%s\n' "${!short_rows_without[@]}" | sort) <(native_rows | sort))"
matches 'a row that the simulated adapter cannot run says why' 'the simulated adapter lacks *connection manager (--soft-roce)' \
	"$(RDMA_TEST_KIND=sim reason rping rping)"

# gpu_buffers.c replaces the program's allocations, and frees them.
if [[ -e tests/stacks/.libs/gpu_buffers.so && -x tests/stacks/allocate ]]; then
	for preload in gpu_buffers:5 gpu_maps:6; do
		text=$(PEERPIN_SUMMARY=table GPU_BUFFERS_MIN=4096 GPU_BUFFERS_MAX=100000 LD_LIBRARY_PATH=$PWD/src/sim/.libs \
			LD_PRELOAD=$PWD/src/.libs/libpeerpin.so:$PWD/tests/stacks/.libs/${preload%:*}.so tests/stacks/allocate 2>&1)
		matches "${preload%:*}: buffers come from the driver, and go back" \
			"*${preload#*:} of ${preload#*:} allocations  0 deregistrations  0 missed*" "$text"
		matches "and hold what is written to them" "*all kept*" "$text"
	done
else
	skip 'gpu_buffers: not built'
fi
finish
