#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_witness.sh -- the witnesses' counts equal a program's calls
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/launcher/checks
. "$here/../launcher/checks"
witness=$PWD/tests/stacks/.libs/verbs_witness.so
[[ -e $witness && -x tests/stacks/witness_client ]] || { echo 'SKIPPED: the witness is not built: it needs infiniband/verbs.h'; exit 77; }
client=tests/stacks/witness_client
[[ ! -x tests/stacks/.libs/witness_client ]] || client=tests/stacks/.libs/witness_client
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
libraries=$PWD/src/sim/.libs:$PWD/src/sim/adapter/.libs

# run PRELOADS [ARGUMENT...]: runs the client and prints its status; the result is in $tmp/result
run() {
	local status=0

	rm -f "$tmp"/witness.*
	# The client tries to end a domain that is in use.
	env PEERPIN_SIM_ADAPTER_BUSY=1 PEERPIN_SUMMARY=0 VERBS_WITNESS="$tmp/witness" LD_LIBRARY_PATH="$libraries" LD_PRELOAD="$1" "$client" "${@:2}" \
		>"$tmp/out" || status=$?
	cat "$tmp"/witness.* >"$tmp/result" 2>/dev/null
	echo "$status"
}

# counts NAME...: of the result
counts() {
	local name

	for name; do
		printf '%s ' "$name" "$(sed -n 's/^ *"'"$name"'": \([0-9]*\),*$/\1/p' "$tmp/result")"
	done
}

same 'the client does what it is for' 0 "$(run "$witness")"
same 'domains' 'alloc_pd 2 dealloc_pd 2 ' "$(counts alloc_pd dealloc_pd)"
same 'what it asked for, its own threads alone' 'asked 9 asked_gpu 6 ' "$(counts asked asked_gpu)"
same 'what was done' 'registered 9 deregistered 9 reregistered 1 failed 2 ' \
	"$(counts registered deregistered reregistered failed)"
same 'of what memory, and by whom' 'gpu_by_program 6 gpu_by_worker 1 host 2 ' \
	"$(counts gpu_by_program gpu_by_worker host)"
same "and what the simulated adapter counts of broken contracts" 'sim_stale_keys 0 sim_outlived 0 ' \
	"$(counts sim_stale_keys sim_outlived)"

same 'of one that is killed nothing is left' '137 registered  ' "$(run "$witness" killed) $(counts registered)"
export VERBS_WITNESS_LIVE=1
same 'unless it is written all the while' '137 registered 9 deregistered 0 ' \
	"$(run "$witness" killed) $(counts registered deregistered)"
unset VERBS_WITNESS_LIVE

cp tests/launcher/empty.so "$tmp/libfabric.so.1"
same 'for times, libfabric is not looked for' '0 asked_gpu 6 asked_gpu_beside_libfabric 0 ' \
	"$(VERBS_WITNESS_TIMES=1 run "$witness:$tmp/libfabric.so.1") $(counts asked_gpu asked_gpu_beside_libfabric)"
same 'with a libfabric' '0 asked_gpu 6 asked_gpu_beside_libfabric 6 ' \
	"$(run "$witness:$tmp/libfabric.so.1") $(counts asked_gpu asked_gpu_beside_libfabric)"

same 'behind peerpin the client is the same' 0 "$(run "$PWD/src/.libs/libpeerpin.so:$witness")"
same 'and peerpin has heard of it' yes "$(grep -q '"peerpin_requests": [1-9]' "$tmp/result" && echo yes)"

# Without libibverbs, or with one that lacks the function, the call has no next definition.
if command -v python3 >/dev/null; then
	same 'a function that libibverbs lacks fails as where the adapter lacks it' 'None True' \
		"$(LD_PRELOAD=$witness python3 -c '
import ctypes, errno
function = ctypes.CDLL(None, use_errno=True).ibv_reg_dmabuf_mr
function.restype = ctypes.c_void_p
print(function(None, 0, 0, 0, 0, 0), ctypes.get_errno() == errno.EOPNOTSUPP)' 2>&1)"
	phases=$(sed -n 's/^#define PHASES[[:space:]]*//p' "$here/verbs_witness.h")
	# phase NUMBER: a program that reaches this phase
	phase() {
		outcome env LD_PRELOAD="$witness" python3 -c "import ctypes; ctypes.CDLL(None).MPI_Pcontrol($1)"
	}
	same 'the last phase that there is room for is one' $'\n=> 0' "$(phase $((phases - 1)))"
	matches 'and the one after it is not counted as another' \
		"verbs_witness: there is room for $phases phases, and none for phase $phases*=> 134" "$(phase "$phases")"
else
	skip 'no python3'
fi
finish
