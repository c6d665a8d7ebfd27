#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_traps.sh -- traps of other interceptors: each has a test, which fails without its fix. Those without look-ups
# are rows of calls/.
set -u
[ -x tests/intercept/ordinary ] || exit 77
source=${srcdir:-.}
. "$source/tests/intercept/traps/traps_list.sh"
export "${traps_settings[@]}" MATRIX_EXPORTER="$PWD/tests/intercept/exporter"
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# under NAME FOLDERS PROGRAM...: under the preload, with libraries found in FOLDERS first
under() {
    local name=$1 folders=$2 program
    program=$(place "$3")
    shift 3
    # A sanitizer or the like in the environment stays in front.
    LD_LIBRARY_PATH=$folders LD_PRELOAD=${FIRST:+$FIRST:}$library${MORE:+:$MORE} timeout 600 "$program" "$@" >>"$out" 2>&1 ||
        echo "FAILED: $name: $program $* has status $?" >>"$out"
}

say() { # say NUMBER PROMISE STATUS
    if [ "$3" -eq 0 ]; then echo "ok $1 $2" >>"$out"; else echo "FAILED: $1 $2" >>"$out"; fi
}

needed=$(readelf -VW "$library" | grep -oE 'GLIBC_[0-9A-Z.]+' | sort -uV)
undefined=$(nm -D --undefined-only "$library" | awk '{ sub(/@.*/, "", $2); print $2 }')

newest=$(echo "$needed" | tail -n 1)
[ "$(printf '%s\nGLIBC_2.17\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.17 ] && ! echo "$needed" | grep -q PRIVATE &&
    ! echo "$undefined" | grep -qE '^(_dl_sym|__libc_dl.*|dl(v|m)?sym|dl(m)?open|dladdr)$'
say T1 "neither private functions of glibc nor any newer than 2.17: $newest" $?

! readelf -p .rodata "$library" | grep -q 'GLIBC_'
say T2 'no version of glibc is looked up by name' $?

srcdir=$source bash "$source/tests/intercept/check_lookups.sh" >>"$out.next" 2>&1
status=$?
[ $status -eq 0 ] || cat "$out.next" >>"$out"
rm -f "$out.next"
say T4 'a look-up relative to its caller stays one' $status

status=0
[ ! -x tests/intercept/old_driver ] || srcdir=$source sh "$source/tests/intercept/check_old_driver.sh" >"$out.old" 2>&1 || status=$?
[ $status -eq 0 ] || cat "$out.old" >>"$out"
rm -f "$out.old"
say T13 'what an older driver lacks is not offered' $status

quiet=$(LD_LIBRARY_PATH=$sim LD_PRELOAD=$library "$(place gpu_only)" 2>&1) && [ -z "$quiet" ]
say T19 'a GPU program without MPI runs, and nothing is said' $?

silent=$(env -i LD_PRELOAD="$library" /bin/true 2>&1) && [ -z "$silent" ] &&
    [ "$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')" = libc.so.6 ]
say T20 'every program starts, since nothing but libc is needed' $?

LD_PRELOAD=$library tests/intercept/runpath >>"$out" 2>&1
say T22 'run paths of who calls dlopen count' $?

! echo "$undefined" | grep -qxE 'exit|_exit|_Exit|abort|quick_exit|raise|kill|__assert_fail'
say T30 'there is nothing in the library that could end the program' $?

traps_runs under
copies=$(mktemp -d)
cp -L "$sim/libcuda.so.1" "$copies/libcuda.so.1"
TRAPS_COPY=$copies/libcuda.so.1 under 'loads: copy' "$adapter:$sim" with_loads copy
rm -r "$copies"
LD_AUDIT=$libs/auditor.so under 'loads: auditor' "$adapter:$sim" with_loads auditor
FIRST=$libs/reaching.so under 'loads: overridden' "$adapter:$sim:$libs" with_loads_linked overridden
FIRST=$sim/libcuda.so.1 under 'loads: behind' "$adapter:$sim" with_loads behind
for number in T{1..13} T19 T20 T22 T23{c..k} T24 T25 T28 T{30..32} T36; do
    [ "$(grep -cE "^(ok|FAILED:) $number " "$out")" -eq 1 ] || echo "FAILED: $number was not tried once" >>"$out"
done
grep -v '^ok' "$out"
passed=$(grep -c '^ok ' "$out")
failed=$(grep -c '^FAILED' "$out")
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
