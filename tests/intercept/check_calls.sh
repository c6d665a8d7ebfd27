#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_calls.sh -- calls/: programs in rows, on the simulated driver and adapter
#
# Arguments: parts of the names of rows to run.
set -u
# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"
program=$(built tests/intercept/calls/calls)
[ -x "$program" ] || exit 77
rows=${srcdir:-.}/tests/intercept/calls/rows
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PEERPIN_SUMMARY=0 PEERPIN_LOG_LEVEL=none LD_LIBRARY_PATH=$PWD/src/sim/adapter/.libs:$PWD/src/sim/.libs XDG_RUNTIME_DIR=$folder
export CALLS_LIBRARY=$PWD/src/.libs/libpeerpin.so CALLS_DEEPBIND=$PWD/tests/intercept/.libs/deepbind.so
export MATRIX_EXPORTER=$PWD/tests/intercept/exporter
tap timeout 1800 "$program" "$rows" "$@"
(($# == 0)) || finish

# One rank, and a worker on all CPUs; with as many ranks as CPUs there is none.
open_mpi=$(command -v mpirun.openmpi || command -v mpirun)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=isolated
for unit in core hwthread; do
	for ranks in 1 "$(nproc)"; do
		command=("$open_mpi" -n "$ranks" --bind-to "$unit")
		if ! "${command[@]}" true >/dev/null 2>&1; then
			skip "$ranks ranks of Open MPI bound to a $unit: ${command[*]} does not run here"
			continue
		fi
		((ranks == 1 && $(nproc) > 1)) && text='the worker has' || text='no worker'
		ends "$ranks ranks of Open MPI bound to a $unit" 0 "$text" \
			scripts/peerpin "${command[@]}" "$program" "$rows" --only 'the worker starts where ranks leave CPUs'
	done
done

matches 'a setting of the adapter that is no number is reported' '*PEERPIN_SIM_ADAPTER_DELAY=soon is no number*' \
	"$(PEERPIN_SIM_ADAPTER_DELAY=soon "$program" "$rows" --only 'keys reach their range' 2>&1)"

# A process appends its counts of the adapter at its end.
export PEERPIN_SIM_ADAPTER_STATS=$folder/%p.json
if [ -x "$(built tests/gpu/access)" ] && ! [ -e /dev/nvidiactl ]; then
	PEERPIN_SIM_ADAPTER_REAL_DRIVER=1 "$(built tests/gpu/access)" >"$folder/access"
	matches 'a file that cannot be written is reported' '*PEERPIN_SIM_ADAPTER_STATS=/nowhere/file: No such file or directory*' \
		"$(PEERPIN_SIM_ADAPTER_STATS=/nowhere/file PEERPIN_SIM_ADAPTER_REAL_DRIVER=1 "$(built tests/gpu/access)" 2>&1)"
	matches 'the counts of a process are in the file of its id' '{"program": "access", "pid": [0-9]*, "stale_memory": [1-9]*}' \
		"$(cat "$folder"/[0-9]*.json)"
	rm "$folder"/[0-9]*.json
fi
"$program" "$rows" 'no row' >"$folder/adapter"
found=("$folder"/[0-9]*.json)
same 'a process without counts writes no file' "$folder/[0-9]*.json" "${found[*]}"
unset PEERPIN_SIM_ADAPTER_STATS

# The preload can only be in between if the adapter's own calls go through the dynamic linker.
calls=$(readelf -rW "$PWD/src/sim/adapter/.libs/libibverbs.so.1" | grep -cE 'JUMP_SLO.* (ibv_cmd_[a-z_]+|verbs_uninit_context|ibv_reg_mr_iova2)@')
same 'at least 10 of its functions are called through the dynamic linker' yes "$([ "$calls" -ge 10 ] && echo yes || echo "$calls")"
finish
