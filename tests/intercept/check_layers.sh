#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_layers -- each layer includes only itself and the contracts of those below it; and the files of the registration
# layer call each other in one direction, but for pairs of files that are one module
set -u
objects=$PWD/src/registration/.libs
cd "${srcdir:-.}/src" || exit 99
failed=0

# allowed LAYER FOLDER...: the folders that files of LAYER may include from
allowed() {
    layer=$1
    shift
    for file in "$layer"/*.[ch]; do
        for included in $(sed -n 's/^#include "\([^"]*\)\/[^"\/]*"$/\1/p' "$file" | sort -u); do
            case " $layer $* " in
            *" $included "*) ;;
            *)
                echo "$file includes from $included: $layer may use only: $layer $*"
                failed=$((failed + 1))
                ;;
            esac
        done
    done
}

allowed base
allowed report base
allowed memory report base
allowed registration memory report base
allowed observe memory report base
allowed intercept observe registration memory report base
allowed sim memory # the ABI declarations alone

# contract LAYER HEADER...: what files of the layers above may include of it
contract() {
    layer=$1
    shift
    for file in intercept/*.[ch] registration/*.[ch] memory/*.[ch]; do
        case $file in "$layer"/*) continue ;; esac
        for included in $(sed -n "s/^#include \"$layer\/\([^\"]*\)\"$/\1/p" "$file"); do
            case " $* " in
            *" $included "*) ;;
            *)
                echo "$file includes $layer/$included: the contract of $layer is $*"
                failed=$((failed + 1))
                ;;
            esac
        done
    done
}

contract registration registration.h verbs_abi.h
contract observe observe.h
contract memory memory.h lookup.h driver.h cuda_abi.h keep.h queries.h
contract report callers.h statistics.h errors.h trace.h methods.def

if grep -l 'verbs_abi' memory/*.[ch] report/*.[ch] base/*.[ch]; then
    echo "memory, report and base must not know verbs"
    failed=$((failed + 1))
fi
for file in sim/*.[ch]; do
    [ -e "$file" ] || continue
    if sed -n 's/^#include "\(memory\/.*\)"$/\1/p' "$file" | grep -v '^memory/cuda_abi\.'; then
        echo "$file uses more of the memory layer than the driver's ABI"
        failed=$((failed + 1))
    fi
done

# cycles <SYMBOLS: files that call each other, over others or not, if there are more than two
cycles() {
    awk '
        { file = $1; sub(/^.*\//, "", file); sub(/\.o:.*/, "", file); name = $NF; type = $(NF - 1) }
        type ~ /^[TDBRVW]$/ { owner[name] = file; files[file] }
        type == "U" { uses[file, name] }
        END {
            for (use in uses) {
                split(use, part, SUBSEP)
                if (part[2] in owner) reaches[part[1], owner[part[2]]]
            }
            if (!length(owner)) { print "no symbols"; exit }
            for (k in files) for (i in files) if ((i, k) in reaches) for (j in files) if ((k, j) in reaches) reaches[i, j]
            for (i in files) {
                cycle = i
                count = 1
                for (j in files) if (j != i && (i, j) in reaches && (j, i) in reaches) { count++; cycle = cycle " " j }
                if (count > 2) { print cycle; exit }
            }
        }'
}
if [ -d "$objects" ]; then
    cycle=$(for file in registration/*.c; do echo "$objects/$(basename "$file" .c).o"; done | xargs nm -A | cycles)
    if [ "$cycle" ]; then
        echo "these files of the registration layer call each other in a cycle: $cycle"
        failed=$((failed + 1))
    fi
fi

[ "$failed" -eq 0 ] && echo "1 passed, 0 failed, 0 skipped" && exit 0
echo "0 passed, 1 failed, 0 skipped"
exit 1
