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

# Each rank on its own CPU, and the worker of each on the others.
open_mpi=$(command -v mpirun.openmpi || command -v mpirun)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=isolated
for unit in core hwthread; do
	ranks=("$open_mpi" -n "$(($(nproc) > 1 ? 2 : 1))" --bind-to "$unit")
	if ! "${ranks[@]}" true >/dev/null 2>&1; then
		skip "ranks of Open MPI bound to a $unit: ${ranks[*]} does not run here"
		continue
	fi
	ends "ranks of Open MPI bound to a $unit" 0 'the worker has' \
		scripts/peerpin --preregister=all "${ranks[@]}" "$program" run it_is_not_on_the_cpu_of_a_bound_rank
done
finish
