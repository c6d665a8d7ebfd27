#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_reload.sh -- a driver or libibverbs that leaves the process and returns is served; what
# peerpin does not serve is reported once, and requested files are written
set -u
[ -x tests/intercept/reload_program ] || exit 77
library=$PWD/src/.libs/libpeerpin.so
# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"
program=$(built tests/intercept/reload_program)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export RELOAD_PLUGIN=$PWD/tests/intercept/.libs/reload_plugin.so XDG_RUNTIME_DIR=$folder PEERPIN_SUMMARY=none
driver=$PWD/src/sim/.libs/libcuda.so.1
old=$PWD/tests/intercept/old/.libs/libcuda.so.1
cp -L "$driver" "$folder/libcuda.so.1"

reload() { # reload NAME ARGUMENT...
    ends "$1" 0 '' env LD_PRELOAD="$library" timeout 60 "$program" "${@:2}"
}

for first in linked dlsym cuGetProcAddress; do
    for second in linked dlsym cuGetProcAddress; do
        for place in same elsewhere; do
            reload "$first, then $second, $place" drivers "$driver" $first "$driver" $second $place
        done
        reload "$first, then $second of a copy" drivers "$driver" $first "$folder/libcuda.so.1" $second elsewhere
    done
    for place in same elsewhere; do
        reload "$first, then a linked old build, $place" drivers "$driver" $first "$old" linked $place
        reload "$first, then dlsym of an old build, $place" drivers "$driver" $first "$old" dlsym $place
    done
done
known=$PWD/tests/intercept/verbs/known/.libs/libibverbs.so.1
reload 'libibverbs returns elsewhere' verbs "$driver" "$known" "$known"
reload 'libibverbs returns as another build' verbs "$driver" "$known" "$PWD/tests/intercept/verbs/newest/.libs/libibverbs.so.1"

# hidden NAME WHAT TEXT: one warning, and the requested files, with the reason
hidden() {
    rm -f "$folder"/stats.json "$folder"/trace*
    found=$(env LD_PRELOAD="$library" PEERPIN_STATS_FILE="$folder/stats.json" PEERPIN_TRACE_FILE="$folder/trace" \
        timeout 60 "$program" "$2" "$driver" "$folder/libcuda.so.1" "$known" 2>&1)
    same "$1: status" 0 $?
    same "$1: one warning" 1 "$(grep -c '<warn>' <<<"$found")"
    matches "$1: its text" "*<warn>*$3*" "$found"
    matches "$1: the statistics" '*"usage": "not used by peerpin: calls of the CUDA driver bypass it*' \
        "$(cat "$folder/stats.json" 2>&1)"
    matches "$1: the trace" '*trace*' "$(ls "$folder")"
}
hidden 'a second driver' second 'libcuda.so.1 is a second libcuda in the process'
hidden 'a driver in another namespace' namespace 'libcuda.so.1 was opened in another namespace (dlmopen)'
finish
