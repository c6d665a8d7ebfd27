#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_providers.sh -- every installed provider calls libibverbs through peerpin, and uses no
# registration function outside of the table
set -u
library=$PWD/src/.libs/libpeerpin.so
table=${srcdir:-.}/src/intercept/entry_points.def
rows=$(sed -n 's/^ENTRY_VERBS(\([a-z0-9_]*\),.*/\1/p' "$table")
# Adapter memory, memory windows and advice: these calls neither begin nor end a registration of GPU
# memory.
left_alone='ibv_cmd_reg_dm_mr ibv_cmd_advise_mr ibv_cmd_alloc_mw ibv_cmd_dealloc_mw ibv_cmd_alloc_dm ibv_cmd_free_dm'
bindings=$(mktemp)
# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"
for provider in /usr/lib/*/libibverbs/lib*-rdmav*.so /usr/lib64/libibverbs/lib*-rdmav*.so; do
    [ -e "$provider" ] || continue
    name=$(basename "$provider")
    used=$(nm -D --undefined-only "$provider" | sed -n 's/.* \(ibv_cmd_[a-z0-9_]*\|verbs_uninit_context\)@.*/\1/p')
    LD_DEBUG=bindings LD_BIND_NOW=1 LD_PRELOAD="$library:$provider" /bin/true 2>"$bindings"
    bad=
    for symbol in $rows; do
        echo "$used" | grep -qx "$symbol" || continue
        grep -E "binding file [^ ]*($name|lib[a-z0-9]*\.so\.1) .*libpeerpin.so .*\`$symbol'" "$bindings" >/dev/null ||
            bad="$bad $symbol is not bound to us;"
    done
    for symbol in $(echo "$used" | grep -E '_mr(_ex)?$|_pd$|_mw$|_dm$|umem'); do
        echo "$rows $left_alone" | tr ' ' '\n' | grep -qx "$symbol" || bad="$bad $symbol is not in the table;"
    done
    case $used in
    *ibv_cmd_reg_mr*ibv_cmd_dereg_mr* | *ibv_cmd_dereg_mr*ibv_cmd_reg_mr*) ;;
    *) bad="$bad it does not register by way of libibverbs;" ;;
    esac
    same "$name" '' "$bad"
done
rm -f "$bindings"
[ $((passed + failed)) -gt 0 ] || exit 77
finish
