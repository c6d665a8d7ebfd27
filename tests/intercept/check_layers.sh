#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_layers -- each layer includes only itself and those below it
set -u
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
allowed intercept registration memory report base
allowed sim memory # the ABI declarations alone

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

[ "$failed" -eq 0 ] && echo "1 passed, 0 failed, 0 skipped" && exit 0
echo "0 passed, 1 failed, 0 skipped"
exit 1
