#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_adapter.sh -- adapter.c, uses.c: the simulated adapter's faults and assertions, and accesses by
# key, with the preload and without it
set -u
# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"
program=$(built tests/intercept/adapter)
[ -x "$program" ] || exit 77
library=$PWD/src/.libs/libpeerpin.so
adapter=$PWD/src/sim/adapter/.libs
export PEERPIN_SUMMARY=0 PEERPIN_LOG_LEVEL=none LD_LIBRARY_PATH=$adapter:$PWD/src/sim/.libs

tap timeout 600 "$program"
tap env LD_PRELOAD="$library" timeout 600 "$program"
tap env LD_PRELOAD="$library" PEERPIN_PREREGISTER=eager timeout 600 "$program"

matches 'a setting that is no number is reported' '*PEERPIN_SIM_ADAPTER_DELAY=soon is no number*' \
    "$(PEERPIN_SIM_ADAPTER_DELAY=soon "$program" 2>&1)"

# A process appends its counts at its end.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PEERPIN_SIM_ADAPTER_STATS=$folder/%p.json
if [ -x "$(built tests/gpu/access)" ] && ! [ -e /dev/nvidiactl ]; then
	PEERPIN_SIM_ADAPTER_REAL_DRIVER=1 "$(built tests/gpu/access)" >"$folder/access"
	matches 'a file that cannot be written is reported' '*PEERPIN_SIM_ADAPTER_STATS=/nowhere/file: No such file or directory*' \
		"$(PEERPIN_SIM_ADAPTER_STATS=/nowhere/file PEERPIN_SIM_ADAPTER_REAL_DRIVER=1 "$(built tests/gpu/access)" 2>&1)"
	matches 'the counts of a process are in the file of its id' '{"program": "access", "pid": [0-9]*, "stale_memory": [1-9]*}' \
		"$(cat "$folder"/[0-9]*.json)"
	rm "$folder"/*.json
fi
"$program" >"$folder/adapter"
found=("$folder"/*.json)
same 'a process without counts writes no file' "$folder/*.json" "${found[*]}"
unset PEERPIN_SIM_ADAPTER_STATS

# The preload can only be in between if the library's own calls go through the dynamic linker.
calls=$(readelf -rW "$adapter/libibverbs.so.1" | grep -cE 'JUMP_SLO.* (ibv_cmd_[a-z_]+|verbs_uninit_context|ibv_reg_mr_iova2)@')
same 'at least 10 of the functions are called through the dynamic linker' yes "$([ "$calls" -ge 10 ] && echo yes || echo "$calls")"
finish
