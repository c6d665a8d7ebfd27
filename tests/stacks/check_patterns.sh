#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_patterns.sh -- the patterns find a wrong byte, reuse addresses, and end with the documented status, without an
# adapter
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/launcher/checks
. "$here/../launcher/checks"
program=tests/stacks/patterns
[[ -x $program ]] || { echo 'SKIPPED: the patterns are not built: configure found no MPI compiler'; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Of the library that they were built with.
launcher=mpirun
case $(ldd "$program") in
*libmpich*) launcher=mpiexec.hydra ;;
*) ! command -v mpirun.openmpi >/dev/null || launcher=mpirun.openmpi ;;
esac
command -v "$launcher" >/dev/null || { echo "SKIPPED: no $launcher"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=isolated OMPI_MCA_pml=ob1 \
	OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_oversubscribe=1 LD_LIBRARY_PATH="$PWD/src/sim/.libs"

# job OPTION...: two ranks; output in $tmp/out and $tmp/err; prints the status
job() {
	local status=0

	timeout 600 "$launcher" -n 2 "$program" "$@" >"$tmp/out.raw" 2>"$tmp/err.raw" </dev/null || status=$?
	# Open MPI 5 prints zero bytes, also at the start of a line.
	tr -d '\0' <"$tmp/out.raw" >"$tmp/out"
	tr -d '\0' <"$tmp/err.raw" >"$tmp/err"
	echo "$status"
}

# found: patterns whose rank that spoils a byte of its messages has found it, and no other byte and rank
found() {
	grep 'bytes are wrong, first that at' "$tmp/err" |
		sed -E 's/^patterns: ([a-z]+): rank 1: round .*: 1 of [0-9]+ bytes are wrong.*/\1/' | sort -u | tr '\n' ' '
}

# number NAME FILE: of a rank's results
number() {
	sed -n 's/^ *"'"$1"'": \([0-9]*\),*$/\1/p' "$2"
}

mapfile -t names < <("$program" --list)
matches 'there are patterns' '*halo*allocating*pool*' "${names[*]}"
together=$(printf '%s\n' "${names[@]}" | grep -vx crash | paste -sd,)
same 'all of them one after the other' 0 "$(job "$together" --rounds 3 --bytes 65536 --json "$tmp/all")"
same 'each has checked bytes, and none is wrong' "$((${#names[@]} - 1))" \
	"$(grep -c '^patterns: .* [1-9][0-9]* bytes checked, 0 wrong$' "$tmp/out")"
# Sizes of arrays: of one number, of three halves, and beyond what clients round to.
same 'nor in messages of sizes that programs have' "$((5 * (${#names[@]} - 1)))" \
	"$(job "$together" --rounds 2 --bytes 8,12,1000,99992,1000004 >/dev/null
		grep -c '^patterns: .* [1-9][0-9]* bytes checked, 0 wrong$' "$tmp/out")"
same 'where the last four bytes are checked, too' '1, collectives halo windows ' \
	"$(job halo,windows,collectives --rounds 2 --bytes 4 --spoil), $(found)"
matches 'other sizes are refused' "*--bytes '1002': a multiple of 4*=> 2" "$(outcome "$program" halo --bytes 1002)"
# Some addresses return.
anew=''
for file in "$tmp"/all.{allocating,pool,small,sizes,threads,freeing,windows,collectives}.65536.0.{0,1}; do
	(($(number addresses_reused "$file") > 0)) || anew+=" ${file##*/all.}"
done
same 'where buffers come and go some have addresses that others had' '' "$anew"
# The slab, and pieces that are mapped.
(($(number addresses_reused "$tmp/all.pool.65536.0.0") > 1)) && both=yes
same 'and pools of both kinds do' yes "${both:-no}"
same 'a byte that is spoiled is found by each' "1, $(printf '%s\n' "${names[@]}" | grep -vx crash | sort | tr '\n' ' ')" \
	"$(job "$together" --rounds 2 --bytes 65536 --spoil), $(found)"
same 'also where a rank dies' '1, crash ' "$(job crash --rounds 2 --bytes 65536 --spoil), $(found)"

same 'the rank that dies ends the job: by abort' 134 "$(job crash --rounds 2 --bytes 65536)"
same 'which it says' 'patterns: crash: rank 1 dies in round 1 by abort' "$(grep '^patterns: ' "$tmp/out")"
same 'or by being killed' 137 "$(job crash --crash kill --rounds 2 --bytes 65536)"
same 'as it says' 'patterns: crash: rank 1 dies in round 1 by SIGKILL' "$(grep '^patterns: ' "$tmp/out")"

same 'receive buffers that are larger change nothing else' 0 \
	"$(job halo,allocating --rounds 2 --bytes 65536 --receive-more 4096)"
matches 'and must be larger' '*--receive-more*0*a number from 1*=> 2' "$(outcome "$program" halo --receive-more 0)"

# An MPI library without threads, by a preload.
if [[ -e tests/stacks/.libs/one_thread.so ]]; then
	export LD_PRELOAD=$PWD/tests/stacks/.libs/one_thread.so
	same 'a pattern that MPI does not allow is skipped' 77 "$(job threads --rounds 1 --bytes 65536)"
	same 'and among others it is all the same' 0 \
		"$(job halo,threads,small --rounds 1 --bytes 65536 --json "$tmp/some")"
	same 'and leaves no results' 'halo small' "$(cd "$tmp" && echo some.*.0.0 | sed 's/some\.//g; s/\.65536\.0\.0//g')"
	same 'a wrong byte is none the less one' 1 "$(job threads,halo --rounds 1 --bytes 65536 --spoil)"
	unset LD_PRELOAD
else
	skip 'no threads: one_thread.so is not built'
fi
finish
