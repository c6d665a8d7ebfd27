#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_stacks.sh -- the parts of tests/stacks that need no adapter: verdicts on rows, reasons of rows, gpu_buffers.c
# shellcheck disable=SC2016 # texts for eval, and for scripts that are written
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/launcher/checks
. "$here/../launcher/checks"
command -v python3 >/dev/null || { echo 'SKIPPED: no python3'; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
build=$PWD

# ---- results as of rows that passed ----

# witness FILE SETTING...: verbs_witness.c's file, of a process that registers one buffer before it sends
witness() {
	local file=$1 name
	shift
	declare -A of=([alloc_pd]=1 [dealloc_pd]=1 [registered]=1 [deregistered]=1 [reregistered]=0 [failed]=0
		[gpu_by_program]=0 [gpu_by_worker]=0 [host]=1 [asked]=1 [asked_gpu]=0)
	for name; do
		of[${name%=*}]=${name#*=}
	done
	{
		echo '{'
		for name in "${!of[@]}"; do
			printf '"%s": %s,\n' "$name" "${of[$name]}"
		done
		echo '"end": 0 }'
	} >"$file"
}

# statistics FILE SETTING...: peerpin's file of that process
statistics() {
	local file=$1 name
	shift
	{
		echo '{ "program": "sender", "internal_errors": 0,'
		for name; do
			printf '"%s": %s,\n' "${name%=*}" "${name#*=}"
		done
		echo '"end": 0 }'
	} >"$file"
}

# run FOLDER STATUS OUTPUT: one run of a program alone
run() {
	mkdir -p "$1"
	echo "$2" >"$1/client.status"
	printf '%s\n' "$3" >"$1/client.out"
	echo 'a warning of its own' >"$1/client.err"
}

row() {
	mkdir -p "$tmp/$1"
	echo "$2" >"$tmp/$1/buffers"
	echo no >"$tmp/$1/fails"
	echo no >"$tmp/$1/hits"
	echo 1 >"$tmp/$1/processes"
	: >"$tmp/$1/note"
}

# host_row NAME, gpu_row NAME: rows that pass, for the checks below to spoil
host_row() {
	row "$1" host
	run "$tmp/$1/without" 0 'moved 4096 bytes at 0x7f00aa in 1.25 s, 3276 a second'
	run "$tmp/$1/with" 0 'moved 4096 bytes at 0x55e0bb in 0.75 s, 5461 a second'
	witness "$tmp/$1/without/witness.1"
	witness "$tmp/$1/with/witness.2" peerpin_requests=0 peerpin_registrations=0 peerpin_host_requests=1
}

gpu_row() {
	local mode

	row "$1" gpu
	for mode in without with verified; do
		run "$tmp/$1/$mode" 0 'all is well'
		[[ $mode == without ]] || echo 'peerpin: host GPUDirect RDMA used, hits 3/5' >>"$tmp/$1/$mode/client.err"
		witness "$tmp/$1/$mode/witness.1" gpu_by_program=1 asked_gpu=1 host=0 registered=2 deregistered=2
	done
	statistics "$tmp/$1/with/peerpin.1" requests=5 hits=3 synchronous=1 forwarded=1 forwarded_flags=1 verify_checks=0
	statistics "$tmp/$1/verified/peerpin.1" requests=5 hits=5 verify_checks=7 verify_disagreements=0
}

# One process judges all rows: each row asks it.
coproc JUDGE { exec python3 -c '
import os, runpy, sys
judge = runpy.run_path(sys.argv[1])["judge"]
for name in sys.stdin:
    row = judge(os.path.join(sys.argv[2], name.strip()), name.strip())
    verdict = "skipped" if row["skipped"] else "passed" if row["ok"] else "failed"
    print(verdict, row["note"], sep=": " if row["note"] else "", flush=True)' "$here/judge" "$tmp"; }
exec {ask}>&"${JUDGE[1]}" {answer}<&"${JUDGE[0]}" # for subshells, too

# judged ROW: whether it passed, otherwise the reason
judged() {
	local verdict

	echo "$1" >&"$ask"
	read -r verdict <&"$answer"
	echo "$verdict"
}

# ---- verdicts ----

rows=0
# verdict host|gpu VERDICT [SPOIL]: of a row that would pass, after SPOIL in its folder
verdict() {
	local name=row$((++rows))

	"$1_row" "$name"
	cd "$tmp/$name" && eval "${3-}" >/dev/null
	cd "$tmp" || exit
	matches "$2${3:+, after: $3}" "$2" "$(judged "$name")"
}
all='{without,with,verified}'
# each MODES FILE SETTING...: a witness of the same counts
each() {
	local mode

	for mode in $(eval "echo $1"); do witness "$mode/$2" "${@:3}"; done
}

verdict host passed
verdict gpu passed
# What the program itself does.
verdict host 'failed: it made no verbs call that registers' 'rm */witness.*'
verdict host 'failed: with: 0 of 1 processes made verbs calls' 'rm with/witness.*'
verdict host 'failed: with: status 139, without peerpin 0' 'echo 139 >with/client.status'
verdict host 'failed: without peerpin: status 1*' 'echo 1 | tee */client.status'
verdict host passed 'echo 1 | tee */client.status; echo yes >fails'
verdict host 'failed: with: other output: *4096*4095*' 'echo "moved 4095 bytes at 0x7f00aa in 1.25 s, 3276 a second" >with/client.out'
verdict host 'failed: without peerpin it printed nothing' ': | tee */client.out'
verdict host 'failed: with: other error output: *connection lost*' 'echo "connection lost" >>with/client.err'
verdict host passed 'echo "connection lost" >>with/client.err; echo "connection (lost|closed)" >ignored'
verdict host passed 'echo "client DISCONNECT EVENT..." >>without/client.err'
verdict host 'failed: it was not run to its end' 'rm -r with'
verdict host 'skipped: no sender' 'echo "no sender" >skipped'
# Host memory: peerpin changes nothing.
verdict host 'failed: other verbs calls: *' 'witness with/witness.2 registered=2 deregistered=2 peerpin_requests=0'
verdict host 'failed: with: peerpin was not there' 'witness with/witness.2'
verdict host "failed: peerpin took host memory for a GPU's" 'witness with/witness.2 peerpin_requests=1'
verdict host 'failed: with: other error output: *a line of its own*' 'echo "peerpin: a line of its own" >>with/client.err'
# GPU memory: each request is explained, nothing is left, and nothing is shown without GPU memory.
verdict gpu 'failed: with: 5 requests, of which hits and reasons explain 4' 'statistics with/peerpin.1 requests=5 hits=3 synchronous=1'
verdict gpu 'failed: with: no request reached peerpin' 'statistics with/peerpin.1 requests=0'
verdict gpu 'failed: verified: verification disagrees' 'statistics verified/peerpin.1 requests=5 hits=5 verify_checks=7 verify_disagreements=1'
verdict gpu 'failed: nothing was verified' 'statistics verified/peerpin.1 requests=5 hits=5'
verdict gpu 'failed: with: internal errors' 'statistics with/peerpin.1 requests=5 hits=5 internal_errors=1'
verdict gpu 'failed: with: no statistics' 'rm with/peerpin.1'
verdict gpu 'failed: with: statistics of 1 processes, verbs calls of 2' "each '$all' witness.2 gpu_by_program=1; echo 2 >processes"
verdict gpu 'failed: with: registrations were left behind' 'witness with/witness.1 gpu_by_program=1 registered=3 deregistered=2'
verdict gpu 'failed: with: the kernel lists 1 regions after the end' 'echo "dev rxe0 mrn 0" >with/regions'
verdict gpu 'failed: with: verbs calls failed that do not*' 'witness with/witness.1 gpu_by_program=1 registered=2 deregistered=2 failed=1'
verdict gpu 'failed: without peerpin no GPU memory was registered: nothing was shown' 'witness without/witness.1 registered=2 deregistered=2'
verdict gpu 'failed: with: peerpin printed no summary line' 'echo "a warning of its own" >with/client.err'
for counter in stale_keys stale_memory outlived; do
	verdict gpu 'failed: with: 1 *' "witness with/witness.1 gpu_by_program=1 registered=2 deregistered=2 sim_$counter=1"
done
verdict gpu passed 'witness without/witness.1 gpu_by_program=1 asked_gpu=1 host=0 registered=2 deregistered=2 sim_outlived=1'
# A killed process may have been inside one request.
killed="each '$all' witness.2 gpu_by_program=1; echo 2 >processes; echo yes >fails; echo 134 | tee */client.status >without/client.status"
killed+='; statistics verified/peerpin.2 requests=5 hits=5; report() { echo "{\"jobs\": [{\"processes\": 2, \"totals\": {\"requests\": $1, \"hits\": 5}}]}" >with/report.json; }'
verdict gpu passed "$killed; report 7; echo 137 >with/client.status"
verdict gpu 'failed: with: 8 requests, of which hits and reasons explain 5' "$killed; report 8"
verdict gpu 'failed: with: status 0, without peerpin 134' "$killed; report 5; echo 0 >with/client.status"
verdict gpu 'failed: with: its time ran out' "$killed; report 5; echo 'timeout: sending signal TERM' >with/client.timeout"
# What a row promises.
verdict gpu passed 'echo 1-1 >registers'
verdict gpu 'failed: without peerpin 1 registrations of GPU memory, not 2-' 'echo 2- >registers'
verdict gpu passed 'echo hits=60%requests hits=3 >least'
verdict gpu 'failed: with: 3 hits, less than 4' 'echo hits=4 >least'
verdict gpu 'failed: with: 3 hits, less than 61%requests (5)' 'echo hits=61%requests >least'
share="echo 50 >share; each '$all' witness.1 gpu_by_program=9 gpu_by_worker=1 asked_gpu=20 host=0 registered=2 deregistered=2"
share+='; witness without/witness.1 gpu_by_program=20 asked_gpu=20 host=0 registered=2 deregistered=2'
verdict gpu passed "$share"
verdict gpu 'failed: with: 11 registrations of GPU memory, more than 50 % of 20*' \
	"$share; witness with/witness.1 gpu_by_program=9 gpu_by_worker=2 asked_gpu=20 host=0 registered=2 deregistered=2"
misses='statistics with/peerpin.1 requests=5 hits=0 synchronous=5 verify_checks=0'
verdict gpu passed "$misses"
verdict gpu 'failed: with: nothing hit, though its buffers come again' "$misses; echo yes >hits"
verdict gpu passed 'echo idle >hits; statistics with/peerpin.1 requests=5 hits=0 synchronous=5 background_delays=1 verify_checks=0'
verdict gpu 'failed: with: not every request hit' "$misses; echo all >hits"
verdict gpu 'failed: without: libfabric was loaded at 0 of 1 requests*' 'echo yes >libfabric'
verdict gpu passed "echo yes >libfabric; each '$all' witness.1 gpu_by_program=1 asked_gpu=2 asked_gpu_beside_libfabric=2 host=0 registered=2 deregistered=2"
verdict gpu 'failed: with: no registration met RLIMIT_MEMLOCK: nothing was shown' 'echo 116 >memlock'
gpu_row pattern-ranges
statistics "$tmp/pattern-ranges/with/peerpin.1" requests=5 hits=3 forwarded=2 forwarded_range=2
same 'a pattern may not request more than its memory' 'failed: with: 2 requests for buffers were beyond their allocation' "$(judged pattern-ranges)"
# Memory that the adapter refuses: the program fails equally, and the summary has the reason.
usage='not used: dma-bufs of GPU memory were exported, none was registered'
refused="echo refused >fails; echo error=95 >refusal; echo '$usage' >usage; echo 1 | tee */client.status; echo error=95 | tee */client.err"
refused+="; each '$all' witness.1 asked_gpu=1 host=0 registered=0 deregistered=0"
refused+="; for mode in with verified; do statistics \$mode/peerpin.1 requests=0 exports=1; echo 'peerpin: host GPUDirect RDMA $usage, hits 0/0' >>\$mode/client.err; done"
verdict gpu passed "$refused"
verdict gpu "failed: with: the summary is '*no registration was requested*', not '$usage'" "$refused; sed -i 's/dma-bufs .*registered/no registration was requested/' with/client.err"
verdict gpu 'failed: with: status 0: nothing was refused' "$refused; echo 0 >with/client.status"
verdict gpu "failed: with: not each of 1 processes printed 'error=95'" "$refused; sed -i s/^error=95/error=14/ with/client.err"
verdict gpu 'failed: with: GPU memory was registered' "$refused; witness with/witness.1 asked_gpu=1 gpu_by_worker=1 host=0 registered=1 deregistered=1"

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
kept='echo yes >keep; echo 1 >settled; echo none >requests; statistics with/peerpin.1 requests=5 hits=3 synchronous=2 kept=4 reused=3'
kept+="; phases without '2 0 0 0 0' '4 0 4 0 0' '0 0 2 0 0'; phases with"
verdict gpu passed "$kept '1 2 0 5 3' '0 0 0 5 3' '0 0 3 9 9'"
verdict gpu 'failed: without peerpin later rounds *: nothing was shown' "$kept '1 2 0 5 3' '0 0 0 5 3' '0 0 3 9 9'; phases without '2 0 0 0 0' '4 0 0 0 0' '0 0 6 0 0'"
verdict gpu 'failed: with: 1 registrations of GPU memory *' "$kept '1 2 0 5 3' '1 0 0 5 3' '0 0 3 5 3'"
verdict gpu 'failed: with: 1 registrations of GPU memory *' "$kept '1 2 0 5 3' '0 1 0 5 3' '0 0 3 5 3'"
verdict gpu 'failed: with: 1 deregistrations of GPU memory before the end' "$kept '1 2 1 5 3' '0 0 0 5 3' '0 0 3 5 3'"
verdict gpu 'failed: with: UCX requested 2 registrations again' "$kept '1 2 0 3 1' '0 0 0 5 3' '0 0 3 5 3'"
verdict gpu 'failed: with: 2 requests after *, of which 1 hit' "$kept '1 2 0 3 1' '0 0 0 5 2' '0 0 3 5 2'; echo hits >requests"
verdict gpu 'failed: with: a process kept or reused no memory' "$kept '1 2 0 5 3' '0 0 0 5 3' '0 0 3 9 9'; statistics with/peerpin.1 requests=5 hits=3 synchronous=2 kept=4 reused=0"

gpu_row gpu
matches 'the table' "*gpu*yes*6/6*3*2*    peerpin: host GPUDirect RDMA used, hits 3/5*registrations of GPU memory: 1/1*\
misses: synchronous 1, forwarded_flags 1*1 passed, 1 failed, 0 skipped*=> 1" \
	"$(outcome "$here/judge" "$tmp" gpu nothing)"
cd "$build" || exit

# ---- rows ----

matches 'unknown rows are refused' 'tests/stacks/run: no such row: nothing*=> 2' "$(outcome "$here/run" nothing)"
matches 'known ones are not' 'tests/stacks/run: unknown option: --wrong *=> 2' "$(outcome "$here/run" openmpi-rc --wrong)"

# A folder of programs, which print $says, and of what is built.
mkdir -p "$tmp/path" "$tmp/built/tests/stacks/.libs" "$tmp/cuda/install/bin"
ln -s "$(command -v sed)" "$(command -v dirname)" "$(command -v ls)" "$tmp/path"
# reason ROW [NAME=VALUE]...: why it cannot run, or its command and settings
reason() {
	env PATH="$tmp/path" STACKS_CUDA="$tmp/cuda" build="$tmp/built" RDMA_TEST_DEVICE=none RDMA_TEST_GID_INDEX=0 "${@:2}" "$BASH" -c '. "$0"
		if row "$1"; then echo "it runs ${client[0]##*/}: ${settings[*]} share $share"; else echo "$note"; fi' "$here/rows" "$1"
}
# program FILE [TEXT]
program() {
	mkdir -p "$(dirname "$1")"
	printf '#!/bin/sh\necho "%s"\n' "${2-}" >"$1"
	chmod +x "$1"
}
matches 'a row names the missing build and its fix' 'verbs_witness.so is not built: *, then configure anew)' "$(reason rc_pingpong)"
: >"$tmp/built/tests/stacks/.libs/verbs_witness.so"
same 'also of a program' 'no ibv_rc_pingpong (scripts/install-packages stacks)' "$(reason rc_pingpong)"
program "$tmp/path/ibv_rc_pingpong"
matches 'if anything is' 'it runs ibv_rc_pingpong:*' "$(reason rc_pingpong)"
matches 'what the simulated adapter lacks' 'the simulated adapter lacks *connection manager (--soft-roce)' "$(reason rping RDMA_TEST_KIND=sim)"
program "$tmp/path/mpirun" 'HYDRA build details:'
matches 'and of one that is to be built' 'patterns is not built: configure found no MPI compiler *' "$(reason openmpi-osc)"
program "$tmp/built/tests/stacks/patterns"
matches 'no other library is taken for Open MPI' 'mpirun is not of Open MPI *' "$(reason openmpi-rc)"
program "$tmp/path/mpirun.openmpi" 'mpirun (Open MPI) 4'
matches 'whose own launcher is taken' 'it runs mpirun.openmpi:*' "$(reason openmpi-rc)"
same 'a row with CUDA without the builds says so' 'no mpirun with CUDA (tests/stacks/cuda/build)' "$(reason cuda-halo-bistro)"
program "$tmp/cuda/install/bin/mpirun" 'mpirun (Open MPI) 4'
matches "a row's mode is UCX's" '*UCX_MEM_CUDA_HOOK_MODE=reloc*share ' "$(reason cuda-halo-reloc)"
matches 'UCX without a cache registers each buffer again, which a row bounds' '*share 50' "$(reason cuda-halo-unhooked)"
same 'a UCX that is not built' 'no UCX 1.99.0 with CUDA (tests/stacks/cuda/build --ucx)' "$(reason ucx-1.99.0-random-dmabuf)"
mkdir -p "$tmp/cuda/ucx-1.99.0/lib" "$tmp/cuda/libfabric-2.99.0/lib"
matches "a row of a UCX has that UCX's libraries and settings" "*UCX_CUDA_COPY_DMABUF=n UCX_MEMTYPE_CACHE=n*" "$(reason ucx-1.99.0-random-address-keep-memtype)"
same 'a libfabric that is not built' 'no libfabric 2.99.0 with CUDA (tests/stacks/cuda/build --libfabric)' "$(reason libfabric2-2.99.0-random-dmabuf)"
program "$tmp/cuda/libfabric-2.99.0/bin/libfabric_random"
matches "a row of a libfabric has that libfabric's libraries and settings" "*$tmp/cuda/libfabric-2.99.0/lib*FI_HMEM_CUDA_USE_DMABUF=0* share 60" \
	"$(reason libfabric2-2.99.0-random-address-keep RDMA_TEST_KIND=sim)"
matches 'help lists the rows that are built' '*libfabric2-2.99.0-random-address-eagerly-keep*openmpi-rc*ucx-1.99.0-patterns-dmabuf-eagerly-keep*' \
	"$(STACKS_CUDA=$tmp/cuda "$here/run" --help | tr -s ' \n' ' ')"
# shellcheck source=tests/stacks/rows
same 'each row of a short form is a row' '' "$(. "$here/rows" && comm -23 <(soft_roce_short_rows | sort) <(soft_roce_rows | sort) &&
	comm -23 <(printf '%s\n' "${!short_rows_without[@]}" | sort) <(native_rows | sort))"

# The source of the adapter is replaced, in a copy.
mkdir -p "$tmp/copy/tests/rdma" "$tmp/copy/tests/stacks" "$tmp/make"
cp -r "$here/run" "$here/rows" "$here/pattern_rows" "$here/cuda" "$here/judge" "$tmp/copy/tests/stacks"
program "$tmp/make/make"
printf '#!/bin/sh\necho "tests/rdma/run: $WORDS" >&2\nexit 125\n' >"$tmp/copy/tests/rdma/run"
chmod +x "$tmp/copy/tests/rdma/run"
export PATH=$tmp/make:$PATH STACKS_BUILD=$tmp
matches 'no adapter is no failure' '*=> 77' "$(WORDS='no machine' outcome "$tmp/copy/tests/stacks/run" openmpi-rc)"
matches 'an adapter that dies is one' '*0 passed, 1 failed, 0 skipped*=> 1' "$(WORDS='adapter: rxe0' outcome "$tmp/copy/tests/stacks/run" openmpi-rc)"

# scripts/test, on a machine without MPI until this step installs it. Mocks record the order of its helpers' calls.
mkdir -p "$tmp/tree/scripts" "$tmp/tree/tests/stacks"
cp "$here/../../scripts/test" "$tmp/tree/scripts/test"
printf '#!/bin/sh\n[ "$2" != stacks ] || touch installed\n' >"$tmp/tree/scripts/install-packages"
printf '#!/bin/sh\n[ ! -e installed ] || touch configured\n' >"$tmp/tree/scripts/build"
printf '#!/bin/sh\necho "rows $*" >>options\n[ -e configured ] || exec echo 0 passed, 0 failed, 1 skipped\necho 1 passed, 0 failed, 0 skipped\n' \
	>"$tmp/tree/tests/stacks/run"
chmod +x "$tmp"/tree/scripts/* "$tmp/tree/tests/stacks/run"
matches 'what scripts/test installs for them is built with' '*2 passed, 0 failed, 0 skipped*=> 0' "$(outcome "$tmp/tree/scripts/test" stacks)"
matches 'with --long more' '*stacks: 3 passed*all steps (* s)*=> 0' "$(outcome "$tmp/tree/scripts/test" --long stacks)"
same 'the short form, and all rows, natively and where the kernel decides' \
	$'rows --short\nrows --soft-roce --short\nrows \nrows --soft-roce\nrows --cuda --short' "$(cat "$tmp/tree/options")"

# gpu_buffers.c replaces the program's allocations, and frees them.
if [[ -e tests/stacks/.libs/gpu_buffers.so && -x tests/stacks/allocate ]]; then
	for preload in gpu_buffers:5 gpu_maps:6; do
		text=$(PEERPIN_SUMMARY=table GPU_BUFFERS_MIN=4096 GPU_BUFFERS_MAX=100000 LD_LIBRARY_PATH=$PWD/src/sim/.libs \
			LD_PRELOAD=$PWD/src/.libs/libpeerpin.so:$PWD/tests/stacks/.libs/${preload%:*}.so tests/stacks/allocate 2>&1)
		matches "${preload%:*}: buffers come from the driver, and go back" \
			"*${preload#*:} of ${preload#*:} allocations  0 deregistrations  0 missed*" "$text"
		matches "and hold the bytes written to them" "*all kept*" "$text"
	done
else
	skip 'gpu_buffers: not built'
fi
finish
