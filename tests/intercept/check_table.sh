#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_table.sh -- the built library against its table: what it exports, needs, and promises the loader
set -u
source=${srcdir:-.}
library=src/.libs/libpeerpin.so
table=$source/src/intercept/entry_points.def
passed=0
failed=0

check() { # check DESCRIPTION EXPECTED ACTUAL
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED: %s\n--- expected\n%s\n--- found\n%s\n' "$1" "$2" "$3"
    fi
}

cuda=$(sed -n 's/^ENTRY_CUDA(\([A-Za-z0-9_]*\),.*/\1/p' "$table" | LC_ALL=C sort)
verbs=$(sed -n 's/^ENTRY_VERBS(\([A-Za-z0-9_]*\),.*/\1/p' "$table" | LC_ALL=C sort)
expected=$(printf '%s\n%s\ndlmopen\ndlopen\ndlsym\ndlvsym\npeerpin_domain\npeerpin_lookup\npeerpin_statistic\npeerpin_subscribe\npeerpin_unsubscribe\npeerpin_version\n' "$cuda" "$verbs" | LC_ALL=C sort)

check 'exports are the rows, what finds and loads, and the public interface' "$expected" \
    "$(nm -D --defined-only "$library" | awk '{ print $NF }' | LC_ALL=C sort)"
check 'each wrapper has a row, and each row a function for pointers' "$cuda" \
    "$(nm "$library" | sed -n 's/.* [tT] \(cu[A-Za-z0-9_]*\)_through_pointer$/\1/p' | LC_ALL=C sort)"
check 'every entry point that a wrapper file defines is in the table' "$verbs" \
    "$(nm src/intercept/.libs/verbs.o src/intercept/.libs/verbs_forms.o src/intercept/.libs/verbs_forwarded.o |
        sed -n 's/.* T \(.*\)/\1/p' | LC_ALL=C sort)"
check 'nothing but libc is needed' 'libc.so.6' \
    "$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')"
check 'no version node of our own' '' "$(readelf -V "$library" | grep 'Version definition')"
check 'thread-local storage is of the initial-exec kind: no call for it' '' \
    "$(readelf -rW "$library" | grep -E 'DTPMOD|DTPOFF|TLSDESC')"
check 'no text relocations' '' "$(readelf -d "$library" | grep TEXTREL)"
check 'full RELRO' '1' "$(readelf -lW "$library" | grep -c GNU_RELRO)"
check 'no writable code, no executable stack' '' \
    "$(readelf -lW "$library" | grep -E 'RWE|GNU_STACK.* E|WE ')"
check 'bound at load' '1' "$(readelf -dW "$library" | grep -c 'FLAGS_1.*NOW')"
check 'never unloaded' '1' "$(readelf -dW "$library" | grep -c 'FLAGS_1.*NODELETE')"
check 'no call to an exported entry point goes through the dynamic linker' '' \
    "$(readelf -rW "$library" | awk '{ print $5 }' | sed 's/@.*//' | grep -E '^(cu[A-Z]|ibv_|verbs_|dlsym$|dlopen$|dlmopen$|dlvsym$)')"
check 'dlsym never returns to us when it jumps' '1' \
    "$(objdump -d --no-show-raw-insn "$library" | sed -n '/<dlsym>:/,/^$/p' | grep -cE 'jmp +\*%rax|br[[:space:]]+x16')"

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
