#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_cuda.sh -- rows of tests/stacks/run --cuda, without an adapter: names, reasons, verdicts
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/launcher/checks
. "$here/../launcher/checks"
command -v python3 >/dev/null || { echo 'SKIPPED: no python3'; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# shellcheck source=tests/stacks/results_of_rows
. "$here/results_of_rows"

# ---- verdicts ----

gpu_row regions
: >"$tmp/regions/with/regions"
same 'no region is left' passed "$(judged regions)"
echo 'dev rxe0 mrn 0 rkey 0x369 lkey 0x369 mrlen 131072 pdn 2 pid 163 comm patterns' >"$tmp/regions/with/regions"
same 'a region that the kernel still has fails' 'failed: with: the kernel lists 1 regions after the end' "$(judged regions)"

# Two ranks of a pattern: 10 messages in 5 rounds, of which 4 count, in 8 ms.
gpu_row messages
for mode in without with; do
	for rank in 0 1; do
		echo '{ "messages": 5, "rounds": 4, "send_ns_total": 4000000 }' >"$tmp/messages/$mode/pattern.$rank"
	done
done
witness "$tmp/messages/without/witness.1" gpu_by_program=20 asked_gpu=1 registered=2 deregistered=2
matches 'figures of a message' '*    per message: registrations 2.00 and 1000 us, with peerpin 0.10 and 1000 us*' \
	"$("$here/judge" "$tmp" messages)"

# A row with a small RLIMIT_MEMLOCK: peerpin's own failures are allowed, and required.
gpu_row limited
echo 116 >"$tmp/limited/memlock"
same 'a limit that was not met fails' 'failed: with: no registration met RLIMIT_MEMLOCK: nothing was shown' "$(judged limited)"
statistics "$tmp/limited/with/peerpin.1" requests=5 hits=3 synchronous=1 forwarded=1 forwarded_flags=1 verify_checks=0 failed_resources=1
statistics "$tmp/limited/verified/peerpin.1" requests=5 hits=5 verify_checks=7 verify_disagreements=0 failed_resources=1
same 'a limit that was met passes' passed "$(judged limited)"

# A row whose memory the adapter refuses: it fails equally, and the summary has the reason.
usage='not used: dma-bufs of GPU memory were exported, none was registered'
gpu_row refusal
echo refused >"$tmp/refusal/fails"
echo 'error=95' >"$tmp/refusal/refusal"
echo "$usage" >"$tmp/refusal/usage"
for mode in without with verified; do
	echo 1 >"$tmp/refusal/$mode/client.status"
	witness "$tmp/refusal/$mode/witness.1" asked_gpu=1 host=0 registered=0 deregistered=0 posted=0
	[[ $mode == without ]] || statistics "$tmp/refusal/$mode/peerpin.1" requests=0 exports=1
	echo 'error=95' >"$tmp/refusal/$mode/client.err"
	[[ $mode == without ]] || echo "peerpin: host GPUDirect RDMA $usage, hits 0/0" >>"$tmp/refusal/$mode/client.err"
done
same 'a row that fails equally, with its reason' passed "$(judged refusal)"
# spoiled NAME: a copy
spoiled() {
	rm -rf "${tmp:?}/$1"
	cp -r "$tmp/refusal" "$tmp/$1"
}
spoiled reason
sed -i 's/dma-bufs .*registered/no registration was requested/' "$tmp/reason/with/client.err"
matches 'another reason fails' "failed: with: the summary is '*no registration was requested*', not '$usage'" \
	"$(judged reason)"
spoiled summary
sed -i '/^peerpin/d' "$tmp/summary/with/client.err"
same 'as does none' 'failed: with: 0 summary lines of 1 processes' "$(judged summary)"
spoiled success
echo 0 | tee "$tmp"/success/{without,with,verified}/client.status >/dev/null
matches 'a program that does not fail' 'failed: without peerpin: status 0*' "$(judged success)"
spoiled status
echo 0 >"$tmp/status/with/client.status"
same 'or not with peerpin' 'failed: with: status 0: nothing was refused' "$(judged status)"
spoiled status
echo 2 >"$tmp/status/with/client.status"
same 'or with another status' 'failed: with: status 2, without peerpin 1' "$(judged status)"
spoiled other
echo 'cannot connect' >>"$tmp/other/with/client.err"
matches 'or with another error besides' 'failed: with: other error output: *cannot connect*' "$(judged other)"
spoiled errno
sed -i 's/^error=95/error=14/' "$tmp/errno/with/client.err"
same 'or another number' "failed: with: not each of 1 processes printed 'error=95'" "$(judged errno)"
spoiled silent
witness "$tmp/silent/without/witness.1" asked_gpu=0 host=0 registered=0 deregistered=0 posted=0
same 'or before it requests' \
	'failed: without: not each of 1 processes requested a registration of GPU memory' "$(judged silent)"
spoiled registered
witness "$tmp/registered/with/witness.1" asked_gpu=1 gpu_by_worker=1 host=0 registered=1 deregistered=1 posted=0
same 'or after a registration' 'failed: with: GPU memory was registered, or work posted' "$(judged registered)"

# ---- rows ----

# reason ROW: why it cannot run
reason() {
	# shellcheck disable=SC2016 # for the shell that is started
	env PATH="$tmp/path:$PATH" STACKS_CUDA="$tmp/cuda" build="$tmp/rows" RDMA_TEST_DEVICE=none RDMA_TEST_GID_INDEX=0 bash -c '. "$0"
		if row "$1"; then echo "it runs ${client[0]##*/}: ${settings[*]} share $share"; else echo "$note"; fi' \
		"$here/rows" "$1"
}

same 'a row without the builds says so' 'no mpirun with CUDA (tests/stacks/cuda/build)' "$(reason cuda-halo-bistro)"
# Open MPI need not be installed here.
mkdir -p "$tmp/path" "$tmp/cuda/install/bin" "$tmp/rows/tests/stacks/.libs"
: >"$tmp/rows/tests/stacks/.libs/verbs_witness.so"
printf '#!/bin/sh\necho "mpirun (Open MPI) 4"\n' | tee "$tmp/cuda/install/bin/mpirun" "$tmp/rows/tests/stacks/patterns" >/dev/null
cp "$tmp/cuda/install/bin/mpirun" "$tmp/path/mpirun.openmpi"
chmod +x "$tmp/cuda/install/bin/mpirun" "$tmp/rows/tests/stacks/patterns" "$tmp/path/mpirun.openmpi"
matches "a row's mode is UCX's" '*UCX_MEM_CUDA_HOOK_MODE=reloc*' "$(reason cuda-halo-reloc)"
matches 'UCX without a cache registers each buffer again, which a row bounds' '*share 50' "$(reason cuda-halo-unhooked)"
matches 'with a cache it does not' '*share ' "$(reason cuda-halo-reloc)"
matches 'or the driver is another' "*LD_LIBRARY_PATH=$tmp/rows/tests/stacks/newer/.libs:*" "$(reason cuda-halo-newer)"
same 'a row of perftest without it says so' 'no ib_write_bw with CUDA (tests/stacks/cuda/build)' "$(reason cuda-ib_write_bw)"
same 'with dma-bufs too' 'no ib_write_bw with CUDA (tests/stacks/cuda/build)' "$(reason cuda-ib_write_bw-dmabuf)"
same 'nor is there a row of a UCX that is not built' 'no UCX 1.99.0 with CUDA (tests/stacks/cuda/build --ucx)' \
	"$(reason ucx-1.99.0-random-dmabuf)"
mkdir -p "$tmp/cuda/ucx-1.99.0/lib"
ucx_row=$(reason ucx-1.99.0-random-address-keep-memtype)
matches "a row of a UCX has that UCX's libraries" "*LD_LIBRARY_PATH=*$tmp/cuda/ucx-1.99.0/lib*" "$ucx_row"
matches 'and its settings' '*UCX_CUDA_COPY_DMABUF=n UCX_MEMTYPE_CACHE=n*' "$ucx_row"
matches 'help lists the rows of each UCX that is built' '*ucx-1.99.0-patterns-dmabuf-eagerly-keep*' "$(STACKS_CUDA=$tmp/cuda "$here/run" --help)"
same 'nor a row of a libfabric' 'no libfabric 2.99.0 with CUDA (tests/stacks/cuda/build --libfabric)' \
	"$(reason libfabric2-2.99.0-random-dmabuf)"
mkdir -p "$tmp/cuda/libfabric-2.99.0/"{bin,lib}
cp "$tmp/rows/tests/stacks/patterns" "$tmp/cuda/libfabric-2.99.0/bin/libfabric_random"
same 'its connections require the simulated adapter' 'its connections are those of the simulated adapter' \
	"$(reason libfabric2-2.99.0-random-address)"
libfabric_row=$(RDMA_TEST_KIND=sim reason libfabric2-2.99.0-random-address-keep)
matches "a row of a libfabric has that libfabric's libraries" "*LD_LIBRARY_PATH=*$tmp/cuda/libfabric-2.99.0/lib*" "$libfabric_row"
matches 'and its settings' '*FI_HMEM_CUDA_USE_DMABUF=0* share 60' "$libfabric_row"
matches 'where it exports dma-bufs it has not' 'it runs libfabric_random: FI_VERBS_IFACE=sim0 FI_MR_CACHE_MONITOR=disabled LD_LIBRARY_PATH=* share ' \
	"$(RDMA_TEST_KIND=sim reason libfabric2-2.99.0-random-dmabuf)"
matches 'help lists the rows of each libfabric that is built' '*libfabric2-2.99.0-random-address-eagerly-keep*' \
	"$(STACKS_CUDA=$tmp/cuda "$here/run" --help)"
matches 'a folder without its sources is refused' '*--libfabric needs a checkout of libfabric*' \
	"$("$here/cuda/build" --libfabric "$tmp" 2>&1)"
matches 'as is one without those of UCX' '*--ucx needs a checkout of UCX*' "$("$here/cuda/build" --ucx "$tmp" 2>&1)"
matches 'help names the option' '*--cuda*' "$("$here/run" --help)"
finish
