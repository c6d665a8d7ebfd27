#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_preloads.sh -- beside other preloads, before and after them: overrides of dlsym, jemalloc, libasan
set -u
[ -x tests/intercept/looks_often ] || exit 77
library=$PWD/src/.libs/libpeerpin.so
libs=$PWD/tests/intercept/.libs
export PEERPIN_SUMMARY=0 PEERPIN_LOG_LEVEL=error LD_LIBRARY_PATH="$PWD/src/sim/.libs:$libs"
export MATRIX_EXPORTER="$PWD/tests/intercept/exporter"
# The memory that libasan finds leaked at the end of a test program is not what is tested.
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
matrix=tests/intercept/.libs/matrix_ways
[ -x "$matrix" ] || matrix=tests/intercept/matrix_ways
next=tests/intercept/next
[ -x tests/intercept/.libs/next ] && next=tests/intercept/.libs/next
out=$(mktemp)
passed=0
failed=0
skipped=0

# seen NAME PRELOADS WAY: all that is called in that way is seen
seen() {
    if LD_PRELOAD=$2 timeout 3000 "$matrix" "$3" >"$out" 2>&1 && grep -q ' 0 failed' "$out"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $1, $3"
        tail -n 5 "$out"
    fi
}

# same NAME PRELOADS [EXCEPT]: look-ups find what they find without us; EXCEPT: but for these
same() {
    except=${3:-^no such line}
    without=$(LD_PRELOAD=$(echo "$2" | sed "s|$library||; s|^:||; s|:\$||") "$next" 2>&1 | grep -vE "$except")
    with=$(LD_PRELOAD=$2 "$next" 2>&1 | grep -vE "$except")
    fine=$(LD_PRELOAD=$2 timeout 300 tests/intercept/looks_often 2>&1)
    if [ "$without" = "$with" ] && [ "$fine" = fine ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED: %s\nwithout\n%s\nwith\n%s\n%s\n' "$1" "$without" "$with" "$fine"
    fi
}

# both NAME LIBRARY: one before the other and the other way round
both() {
    for order in "$2:$library" "$library:$2"; do
        same "$1: $order" "$order"
        seen "$1: $order" "$order" linked
        seen "$1: $order" "$order" 'cuGetProcAddress_v2'
    done
}

chaining=$libs/chaining.so
reaching=$libs/reaching.so
both 'an override that passes on to the next' "$chaining"
# One that goes straight to libc leaves nothing to whoever is behind it: what is looked up then is as without us, but
# that our exports are found where there is no driver. In front, we pass on to it.
same 'an override that goes past the next, in front' "$reaching:$library" '(cuMemFree_v2|ibv_cmd_reg_mr|mlx5dv_[a-z_]*):'
same 'an override that goes past the next, behind' "$library:$reaching"
seen 'an override that goes past the next, behind' "$library:$reaching" linked
seen 'an override that goes past the next, behind' "$library:$reaching" 'dlsym on a handle'
seen 'an override that goes past the next, behind' "$library:$reaching" 'cuGetProcAddress_v2'

for name in libjemalloc.so.2 libasan.so.8 libasan.so.6; do
    found=$(ldconfig -p 2>/dev/null | sed -n "s|.*\b$name .*x86-64.*=> ||p; s|.*\b$name .*AArch64.*=> ||p" | head -n 1)
    [ -n "$found" ] || found=$(${CC:-gcc} -print-file-name="$name" 2>/dev/null | grep / || :)
    case $name in
    libasan*) [ -z "$found" ] || asan=yes ;;
    esac
    if [ -n "$found" ]; then
        both "$name" "$found"
    elif [ "$name" = libjemalloc.so.2 ] || { [ "$name" = libasan.so.6 ] && [ -z "${asan:-}" ]; }; then
        skipped=$((skipped + 1))
        echo "SKIPPED: preloads: there is no $name"
    fi
done
rm -f "$out"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
