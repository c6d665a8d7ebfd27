#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_preloads.sh -- beside other preloads, before and after them: overrides of dlsym, wrappers of
# the driver, jemalloc, libasan
set -u
[ -x tests/intercept/lookups_in_allocations ] || exit 77
library=$PWD/src/.libs/libpeerpin.so
libs=$PWD/tests/intercept/.libs
export PEERPIN_SUMMARY=0 PEERPIN_LOG_LEVEL=error PEERPIN_KEEP_HOST=4K LD_LIBRARY_PATH="$PWD/src/sim/.libs:$libs"
export MATRIX_EXPORTER="$PWD/tests/intercept/exporter"
# Leaks at the end of a test program are not under test.
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"
matrix=$(built tests/intercept/matrix_paths)
next=$(built tests/intercept/lookups)

# seen NAME PRELOADS PATH: every call by that lookup path is intercepted
seen() {
    ends "$1, $3" 0 ' 0 failed' env LD_PRELOAD="$2" timeout 3000 "$matrix" "$3"
}

# alike NAME PRELOADS [EXCEPT]: look-ups have the results of a run without peerpin, except EXCEPT
alike() {
    except=${3:-^no such line}
    without=$(LD_PRELOAD=$(echo "$2" | sed "s|$library||; s|^:||; s|:\$||") "$next" 2>&1 | grep -vE "$except")
    same "$1" "$without"$'\nfine' "$(LD_PRELOAD=$2 "$next" 2>&1 | grep -vE "$except")
$(LD_PRELOAD=$2 timeout 300 tests/intercept/lookups_in_allocations 2>&1)"
}

# both NAME LIBRARY: in both orders
both() {
    for order in "$2:$library" "$library:$2"; do
        alike "$1: $order" "$order"
        seen "$1: $order" "$order" linked
        seen "$1: $order" "$order" 'cuGetProcAddress_v2'
    done
}

chaining=$libs/chaining.so
reaching=$libs/reaching.so
both 'an override that passes on to the next' "$chaining"
# A dlsym that forwards to libc directly bypasses every library behind it: look-ups are then as
# without peerpin, except that peerpin's exports are found without a driver. In front of it, peerpin
# forwards to it.
alike 'an override that skips the next, in front' "$reaching:$library" '(cuMemFree_v2|ibv_cmd_reg_mr|mlx5dv_[a-z_]*):'
alike 'an override that skips the next, behind' "$library:$reaching"
seen 'an override that skips the next, behind' "$library:$reaching" linked
seen 'an override that skips the next, behind' "$library:$reaching" 'dlsym on a handle'
seen 'an override that skips the next, behind' "$library:$reaching" 'cuGetProcAddress_v2'

# calls_of PRELOADS: of stacked/program, the log's line with the file's name alone
calls_of() {
    LD_PRELOAD=$1 PEERPIN_LOG_LEVEL=warn timeout 60 "$stacked" 2>&1 | sed 's/^peerpin: <warn> \[[^]]*\] //; s/ From now on.*//'
}

# stacked PRELOADS OTHER PEERPIN BYPASSES [LOG]: each call arrives OTHER times at the other preload and PEERPIN times at
# peerpin, for each of the 4 lookup paths in turn; results and memory are as without both
stacked() {
    found=$(calls_of "$1") expected='' path=0
    for name in linked dlsym 'linked cuGetProcAddress' 'cuGetProcAddress of dlsym'; do
        other=${2:path:1} own=${3:path:1} path=$((path + 1))
        expected="$expected$name: results 0 0 1, taken 1, left 0, other $other $other, peerpin $own $own"$'\n'
    done
    same "calls arrive once: $1" "${expected}bypasses $4" "$(grep -v "$log" <<<"$found")"
    same "log: $1" "${5:-}" "$(grep "$log" <<<"$found")"
}

stacked=$(built tests/intercept/stacked_program)
log='\.so [a-z]* \(libpeerpin\|functions\)'
precedes='precedes libpeerpin.so: peerpin does not see the calls to the CUDA driver that it does not hand on. Put libpeerpin.so first in LD_PRELOAD.'
hides='wraps functions of the CUDA driver that it does not export: peerpin does not see their calls. Run without it, or without peerpin.'
stacked "$library" 0000 1111 0
stacked "$libs/stacked_chaining.so:$library" 1111 1111 1 "stacked_chaining.so $precedes"
stacked "$library:$libs/stacked_chaining.so" 1111 1111 0
stacked "$libs/stacked_reaching.so:$library" 1111 0000 1 "stacked_reaching.so $precedes"
stacked "$library:$libs/stacked_reaching.so" 1111 1111 0
stacked "$libs/stacked_private.so:$library" 0101 1111 1 "stacked_private.so $precedes"
matches 'the table has their number' '*Bypassed by 1: peerpin does not see all calls of CUDA.*' \
    "$(LD_PRELOAD=$libs/stacked_reaching.so:$library PEERPIN_SUMMARY=table "$stacked" 2>&1)"
stacked "$library:$libs/stacked_private.so" 0101 1010 1 "stacked_private.so $hides"

# loads PRELOADS FUNCTION WAY LOG: a look-up of libc's function by the program
loads() {
    same "$2 by $3: $1" "${4:+$2 $4$'\n'}done" "$(LD_PRELOAD=$1 PEERPIN_LOG_LEVEL=warn timeout 60 "$loader" "$2" "$3" 2>&1 |
        sed 's/^peerpin: <warn> \[[^]]*\] //; s/ From now on.*//')"
}

loader=$(built tests/intercept/loader)
beside="of libc was looked up beside another definition: loads and look-ups by it may bypass peerpin. Run without the library that defines it."
for function in dlopen dlsym; do
    for way in next handle version; do
        loads "$library" "$function" "$way" ''
        loads "$library:$libs/loading.so" "$function" "$way" "$beside"
    done
done
loads "$library:$chaining" dlopen handle ''

for name in libjemalloc.so.2 libasan.so.8 libasan.so.6; do
    found=$(ldconfig -p 2>/dev/null | sed -n "s|.*\b$name .*x86-64.*=> ||p; s|.*\b$name .*AArch64.*=> ||p" | head -n 1)
    [ -n "$found" ] || found=$(${CC:-gcc} -print-file-name="$name" 2>/dev/null | grep / || :)
    case $name in
    libasan*) [ -z "$found" ] || asan=yes ;;
    esac
    if [ -n "$found" ]; then
        both "$name" "$found"
    elif [ "$name" = libjemalloc.so.2 ] || { [ "$name" = libasan.so.6 ] && [ -z "${asan:-}" ]; }; then
        skip "preloads: there is no $name"
    fi
done
finish
