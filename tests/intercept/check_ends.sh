#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_ends.sh -- ends/: ends of registrations, waits for the worker, settings
#
# Arguments: substrings of the names of tests to run.
set -u
# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"
program=$(built tests/intercept/ends/ends)
[ -x "$program" ] || exit 77
export PEERPIN_SUMMARY=0 PEERPIN_LOG_LEVEL=none LD_LIBRARY_PATH=$PWD/src/sim/adapter/.libs:$PWD/src/sim/.libs
tap env LD_PRELOAD="$PWD/src/.libs/libpeerpin.so" timeout 1800 "$program" "$@"

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
			scripts/peerpin "${command[@]}" "$program" run it_starts_where_ranks_leave_cpus
	done
done
finish
