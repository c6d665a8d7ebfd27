#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_table.sh -- the built library against its table: exports, needed libraries, and properties
# for the loader
set -u
source=${srcdir:-.}
library=src/.libs/libpeerpin.so
table=$source/src/intercept/entry_points.def
# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"

cuda=$(sed -n 's/^ENTRY_CUDA(\([A-Za-z0-9_]*\),.*/\1/p' "$table" | LC_ALL=C sort)
verbs=$(sed -n 's/^ENTRY_VERBS(\([A-Za-z0-9_]*\),.*/\1/p' "$table" | LC_ALL=C sort)
expected=$(printf '%s\n%s\ndlmopen\ndlopen\ndlsym\ndlvsym\npeerpin_statistic\npeerpin_subscribe\npeerpin_unsubscribe\npeerpin_version\n' "$cuda" "$verbs" | LC_ALL=C sort)

same 'exports are the rows, what finds and loads, and the public interface' "$expected" \
    "$(nm -D --defined-only "$library" | awk '{ print $NF }' | LC_ALL=C sort)"
same 'each wrapper has a row, and each row a function for pointers' "$cuda" \
    "$(nm "$library" | sed -n 's/.* [tT] \(cu[A-Za-z0-9_]*\)_through_pointer$/\1/p' | LC_ALL=C sort)"
same 'every entry point that a wrapper file defines is in the table' "$verbs" \
    "$(nm src/intercept/.libs/verbs.o src/intercept/.libs/verbs_forms.o src/intercept/.libs/verbs_forwarded.o |
        sed -n 's/.* T \(.*\)/\1/p' | LC_ALL=C sort)"
same 'nothing but libc is needed' 'libc.so.6' \
    "$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')"
same 'no version node of our own' '' "$(readelf -V "$library" | grep 'Version definition')"
same 'thread-local storage is of the initial-exec kind: no call for it' '' \
    "$(readelf -rW "$library" | grep -E 'DTPMOD|DTPOFF|TLSDESC')"
same 'no text relocations' '' "$(readelf -d "$library" | grep TEXTREL)"
same 'RELRO' '1' "$(readelf -lW "$library" | grep -c GNU_RELRO)"
same 'no writable code, no executable stack' '' \
    "$(readelf -lW "$library" | grep -E 'RWE|GNU_STACK.* E|WE ')"
same 'bound at the first call' '0' "$(readelf -dW "$library" | grep -c 'FLAGS_1.*NOW')"
same 'never unloaded' '1' "$(readelf -dW "$library" | grep -c 'FLAGS_1.*NODELETE')"
same 'no call to an exported entry point goes through the dynamic linker' '' \
    "$(readelf -rW "$library" | awk '{ print $5 }' | sed 's/@.*//' | grep -E '^(cu[A-Z]|ibv_|verbs_|dlsym$|dlopen$|dlmopen$|dlvsym$)')"
same 'dlsym never returns to us when it jumps' '1' \
    "$(objdump -d --no-show-raw-insn "$library" | sed -n '/<dlsym>:/,/^$/p' | grep -cE 'jmp +\*%rax|br[[:space:]]+x16')"

finish
