#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_hardware.sh -- tests/hardware/run without GPU and adapter, and with stubs of all programs
set -u
here=${srcdir:-.}/tests/hardware
# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"
for name in ${!PEERPIN_@}; do unset "$name"; done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# A build folder of stubs, controlled by STUB_ variables.
mkdir -p "$tmp/bin" "$tmp/build/src/.libs" "$tmp/build/src/tools" "$tmp/build/scripts" "$tmp/build/tests/rdma" \
	"$tmp/build/tests/hardware/.libs" "$tmp/build/tests/bench"
: >"$tmp/build/src/.libs/libpeerpin.so"
stub() { # stub FILE: makes a program of the text on standard input
	{ printf '#!/bin/sh\n' && cat; } >"$tmp/$1"
	chmod +x "$tmp/$1"
}
stub bin/rdma </dev/null
stub build/scripts/peerpin <<<'echo peerpin 0.0'
stub build/src/tools/peerpin-doctor <<'TEXT'
[ "$1" != --quiet ] || { echo readings >"$3"; exit 0; }
printf '{\n  "conclusion": "A \\"pretended\\" host.",\n}\n'
exit "${STUB_DOCTOR:-0}"
TEXT
stub build/tests/hardware/methods <<'TEXT'
echo "dma-buf: ${STUB_DMA_BUF:-yes}"
echo "peer memory: ${STUB_PEER:-yes}"
TEXT
stub build/tests/hardware/.libs/without_dma_buf.so </dev/null
cat >"$tmp/client" <<'TEXT'
method=registrations_dma_buf
case $LD_PRELOAD in *without_dma_buf*) method=registrations_peer_memory ;; esac
[ "${STUB_WRONG_METHOD:-}" != yes ] || method=registrations_peer_memory
unset LD_PRELOAD
printf '{\n  "%s": 3,\n}\n' "$method" >"$(echo "$PEERPIN_STATS_FILE" | sed "s/%p/$$/")"
echo '100%: Checks: 2, Failures: 0, Errors: 0'
TEXT
stub build/tests/rdma/check_rdma <"$tmp/client"
stub build/tests/rdma/check_pressure <"$tmp/client"
stub build/tests/hardware/leak <"$tmp/client"
stub build/tests/bench/registration <<'TEXT'
echo '{"case": "hit, 1MiB", "live": 1, "threads": 1, "ns": 50.0, "min_ns": 1, "peer": "without peerpin", "peer_ns": 90000.0, "r": 1}'
TEXT
echo 'driver=/bin/sh driver_kind=real adapter=mlx5_9 adapter_kind=hardware' >"$tmp/machine"
: >"$tmp/output"

pretend() { # pretend [VARIABLE=VALUE...] [OPTION...]: runs the stubs; output: $tmp/output, file: $file
	local -a settings=()

	while [[ ${1:-} == [A-Z]*=* ]]; do
		settings+=("$1")
		shift
	done
	rm -rf "$tmp/out"
	status=0
	env PATH="$tmp/bin:$PATH" HARDWARE_MACHINE="$tmp/machine" "${settings[@]}" "$here/run" --build "$tmp/build" \
		--output "$tmp/out" "$@" >"$tmp/output" 2>&1 </dev/null || status=$?
	file=$(echo "$tmp"/out/peerpin-hardware-*.tar.*)
}

step() { # step NAME: its result and reason
	sed -n "s/^$1 \\{2,\\}\\(.*[^ ]\\) \\{2,\\}[0-9][0-9]*  \\(.*\\)/\\1: \\2/p" "$tmp/output"
}

verdict() {
	sed -n 's/^verdict: //p' "$tmp/output"
}

# ---- use ----

matches 'help' 'usage: tests/hardware/run*=> 0' "$(outcome "$here/run" --help)"
matches 'an unknown step' "*no step 'clients'*=> 2" "$(outcome "$here/run" --build "$tmp/build" --only clients)"
matches 'nothing built' '*nothing is built in*=> 2' "$(outcome "$here/run" --build "$tmp")"

# ---- names in docs/hardware.md and in the table of machines ----

documents=("${srcdir:-.}/docs/hardware.md" "${srcdir:-.}/tests/README.md")
# shellcheck disable=SC2016 # the documents' own backquotes
targets=$(grep -oh '`make [a-z-]*`\|^ *make [a-z-]*' "${documents[@]}" | sed 's/.*make \([a-z-]*\).*/\1/' | grep -vx check | sort -u)
# shellcheck disable=SC2016
steps=$(sed -n '/^| step |/,/^$/s/^| \(`.*`\) | .*/\1/p' "${documents[0]}" | sed 's/ |.*//' | tr -d '`' | tr ',' '\n' | tr -d ' ' | sort)
while read -r path; do
	[[ -e ${srcdir:-.}/$path || -e ${srcdir:-.}/$path.c || -e ${srcdir:-.}/$path.in ]] || same "documents name $path" there missing
done < <(grep -oh '\(tests\|scripts\|docs\)/[a-zA-Z0-9_./-]*[a-zA-Z0-9_]' "${documents[@]}" | sort -u)
while read -r target; do
	grep -qs "^$target:" "${srcdir:-.}"/{tests/*/local.mk,tests/*/*.mk,packages/local.mk} || same "documents name make $target" there missing
done <<<"$targets"
same 'docs/hardware.md has each step' "$("$here/run" --list | awk '{ print $1 }' | sort)" "$steps"

# ---- missing parts are never OK ----

echo "driver='' driver_kind=none adapter='' adapter_kind=none" >"$tmp/nothing"
pretend HARDWARE_MACHINE="$tmp/nothing"
same 'neither GPU nor adapter' 3 "$status"
same 'no step that needs them is OK' 'NOT POSSIBLE: no GPU, or no driver for it; no active RDMA adapter that this user may open' \
	"$(step clients-dma-buf)"
same 'nothing is OK but the doctor' 2 "$(grep -c '  OK' "$tmp/output")"
same 'the verdict' 'NOT PROVED: the decisive steps could not be run' "$(verdict)"
rm -rf "$tmp/out"
status=0
"$here/run" --build "$PWD" --output "$tmp/out" --simulated --adapter no-such --only methods,readings >"$tmp/output" 2>&1 || status=$?
same 'the build itself, without an adapter' 3 "$status"
matches 'the simulated driver is detected' '*GPU driver: simulated  adapter: none (none)*' "$(<"$tmp/output")"
matches 'the adapter that was named is missing' 'NOT POSSIBLE: no-such is not active here*' "$(step methods)"

# ---- make check-hardware, and the archive for a host without a compiler ----

export MAKEFLAGS=
matches 'the target runs the build' "*tests/hardware/run --build $PWD*" "$(make -n check-hardware 2>&1)"
if [[ -x src/tools/peerpin-doctor ]] && make -s hardware-archive >"$tmp/output" 2>&1; then
	cp peerpin-hardware.tar.gz "$tmp"
	(cd "$tmp" && tar -xzf peerpin-hardware.tar.gz)
	status=0
	(cd "$tmp" && peerpin-hardware/tests/hardware/run --output "$tmp/archive" --simulated --adapter no-such --only doctor,readings) \
		>"$tmp/output" 2>&1 </dev/null || status=$?
	same 'the archive runs from its own folder' 3 "$status"
	file=$(echo "$tmp"/archive/peerpin-hardware-*.tar.*)
	matches 'its doctor has read the host' 'OK: readings.txt, *' "$(step readings)"
else
	skip "the archive: $(tail -n 1 "$tmp/output")"
fi

# ---- steps and verdict ----

pretend
same 'all steps pass, on stubs' 3 "$status"
same 'the verdict on stubs' 'SIMULATED ONLY: by dma-buf and by peer memory; nothing is proved about hardware' "$(verdict)"
same 'each step is marked as simulated' 'OK (simulated): 2 passed; 3 regions' "$(step clients-peer-memory)"
same 'the cost of a hit' 'OK (simulated): 1MiB 90.0 us, hit 0.05 us; 1MiB 90.0 us, hit 0.05 us' "$(step cost)"
matches 'the table is in the file' '*clients-dma-buf  *OK (simulated) *2 passed*verdict: SIMULATED ONLY: *' "$(tar -xOf "$file" results.txt)"
! command -v python3 >/dev/null || same 'and text is escaped in JSON' 'A \"pretended\" host.' "$(tar -xOf "$file" results.json | python3 -c '
import json, sys
print(*(step["reason"] for step in json.load(sys.stdin)["steps"] if step["name"] == "doctor"))')"
matches 'and the output of a step' '*tests/rdma/check_rdma*Checks: 2*OK (simulated)*' "$(tar -xOf "$file" logs/clients-dma-buf.log)"

pretend STUB_DMA_BUF='no: ibv_reg_dmabuf_mr: Operation not supported'
same 'a method that is not there' 'NOT POSSIBLE: without peerpin, too: no: ibv_reg_dmabuf_mr: Operation not supported' \
	"$(step leak-dma-buf)"
same 'the other method counts' 'SIMULATED ONLY: by peer memory; nothing is proved about hardware' "$(verdict)"
pretend STUB_DMA_BUF=no STUB_PEER=no
same 'no method, and a doctor that reports one' 'FAIL: the doctor reports that it works, but it fails without peerpin: A \"pretended\" host.' "$(step doctor)"
pretend STUB_DMA_BUF=no STUB_PEER=no STUB_DOCTOR=1
same 'no method at all' '3 NOT PROVED: the decisive steps could not be run' "$status $(verdict)"
same 'no method, and a doctor that reports none' 'NOT POSSIBLE: A \"pretended\" host.' "$(step doctor)"
pretend STUB_DOCTOR=1 --only doctor
same 'a method, and a doctor that reports none' 'FAIL: A \"pretended\" host.' "$(step doctor)"
pretend STUB_WRONG_METHOD=yes
same 'a wrong method' 'FAIL: of the regions 0 were registered by dma-buf, 3 by peer memory' "$(step traffic-dma-buf)"
same 'a wrong method is a failure' '1 FAILED: clients-dma-buf leak-dma-buf traffic-dma-buf (simulated)' \
	"$status $(verdict | tr ' ' '\n' | sed '1d;$d' | sort | tr '\n' ' ' | sed 's/^/FAILED: /;s/$/(simulated)/')"

stub build/tests/rdma/check_rdma <<'TEXT'
echo '50%: Checks: 2, Failures: 1, Errors: 0'
echo 'tests/rdma/check_rdma.c:77:F:clients:a_test:0: Assertion failed'
exit 1
TEXT
pretend --only clients-dma-buf,leak-dma-buf
same 'a step that fails' '1 FAILED: clients-dma-buf (simulated)' "$status $(verdict)"
matches 'the failed test is named' 'FAIL: status 1: failed: a_test:0: Assertion failed' "$(step clients-dma-buf)"
same 'other steps run' 'OK (simulated): 2 passed; 3 regions' "$(step leak-dma-buf)"
same 'steps that are not selected' 'NOT POSSIBLE: not selected' "$(step mpi)"

stub build/tests/rdma/check_rdma <<'TEXT'
echo 'check_rdma: error while loading shared libraries: libsubunit.so.0: cannot open shared object file' >&2
exit 127
TEXT
pretend --only clients-dma-buf
matches 'a program with a missing library' 'NOT POSSIBLE: a program or library is missing: *libsubunit*' "$(step clients-dma-buf)"

rm "$tmp/build/tests/rdma/check_rdma"
pretend --only methods,clients-dma-buf
same 'a program that is not built' 'NOT POSSIBLE: tests/rdma/check_rdma is not built (make hardware-programs)' "$(step clients-dma-buf)"

# ---- time ----

# in_seconds NUMBER STEP OPTION...: pretend with a time limit; again with a longer one if a stalled
# machine left STEP no time
in_seconds() {
	local name=$2

	pretend --timeout "$1" "${@:3}"
	[[ $(step "$name") != *'no time was left'* ]] || pretend --timeout $(($1 * 4)) "${@:3}"
}

# The remote command of ssh continues after the end of ssh, without its output.
stub bin/ib_write_bw <<TEXT
[ "\$1" != --help ] || { echo --use_cuda; exit; }
case "\$*" in *other) exit 1 ;; esac
echo \$\$ >'$tmp/server'
exec sleep 1000
TEXT
stub bin/ssh <<'TEXT'
for command; do :; done
setsid sh -c "$command" >/dev/null 2>&1 &
wait
TEXT
in_seconds 6 perftest --only perftest --host other
matches 'the client finds no server' 'NOT POSSIBLE: ib_write_bw fails with GPU memory without peerpin, too: *' "$(step perftest)"
for ((tries = 0; tries < 200; tries++)); do
	kill -0 "$(<"$tmp/server")" 2>/dev/null || break
	sleep 0.1
done
same 'nothing is left on the other host' gone "$(kill -0 "$(<"$tmp/server")" 2>/dev/null || echo gone)"
kill "$(<"$tmp/server")" 2>/dev/null
rm "$tmp/bin/ib_write_bw" "$tmp/bin/ssh"

# A step that hangs, and writes its process id.
stub build/tests/rdma/check_rdma <<<"unset LD_PRELOAD; echo \$\$ >'$tmp/hanging'; exec sleep 1000"
rm -f "$tmp/hanging"
in_seconds 8 clients-dma-buf --only clients-dma-buf,perftest
matches 'a hanging step is stopped' 'FAIL: it was stopped*' "$(step clients-dma-buf)"
# The limit of the step is 120 s.
same 'in time' yes "$( (($(tar -xOf "$file" results.json | sed -n 's/^  "seconds": \([0-9]*\),$/\1/p') < 100)) && echo yes)"
same 'no step starts afterwards' 'NOT POSSIBLE: no time was left' "$(step perftest)"
same 'its process is gone' gone "$(kill -0 "$(<"$tmp/hanging")" 2>/dev/null || echo gone)"
# A step that ends 1 s after SIGTERM.
stub build/tests/rdma/check_rdma <<TEXT
unset LD_PRELOAD
trap 'sleep 1; exit 3' TERM
echo \$\$ >'$tmp/hanging'
while :; do sleep 0.1; done
TEXT
rm -rf "$tmp/hanging" "$tmp/out"
env PATH="$tmp/bin:$PATH" HARDWARE_MACHINE="$tmp/machine" "$here/run" --build "$tmp/build" --output "$tmp/out" \
	>"$tmp/output" 2>&1 </dev/null &
while [[ ! -s $tmp/hanging ]] && kill -0 $! 2>/dev/null; do sleep 0.05; done
kill "$!"
status=0
wait "$!" || status=$?
same 'an interrupted run writes its file' '3 NOT POSSIBLE: interrupted' "$status $(step clients-dma-buf)"
same 'its process is gone' gone "$(kill -0 "$(<"$tmp/hanging")" 2>/dev/null || echo gone)"
matches 'in which that stands' '*NOT POSSIBLE *interrupted*NOT PROVED*' "$(tar -xOf "$tmp"/out/peerpin-hardware-*.tar.* results.txt)"

# ---- the verdict of hardware, which stubs cannot get ----

conclusion() { # conclusion KIND RESULT...: of clients, traffic and leak by dma-buf
	bash -c '. "$0/steps"; declare -A results; kind=$1; results[clients-dma-buf]=$2 results[traffic-dma-buf]=$3
		results[leak-dma-buf]=$4; conclude; echo "$exit_status $verdict"' "$here" "$@"
}
same 'proved' '0 PROVED ON HARDWARE: by dma-buf' "$(conclusion hardware OK OK OK)"
same 'two of three' '3 NOT PROVED: the decisive steps could not be run' "$(conclusion hardware OK OK 'NOT POSSIBLE')"
same 'one failed' '1 FAILED: leak-dma-buf' "$(conclusion hardware OK OK FAIL)"
finish
