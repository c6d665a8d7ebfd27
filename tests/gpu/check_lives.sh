#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_lives.sh -- tests/gpu/lives: few rounds on the simulated driver, where a registration of 20 ms exceeds all noise
set -u
here=${srcdir:-.}/tests
# shellcheck source=tests/launcher/checks
. "$here/launcher/checks"
[[ -x tests/gpu/life && ! -e /dev/nvidiactl ]] || exit 77
command -v python3 >/dev/null || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export GPU_BUILD=$PWD

# long SIDE TEXT: which columns of the side are a registration or longer, by number
long() { awk -v side="$1" '$1 == side { for (i = 2; i < NF; i += 2) printf "%s%d", ($i >= 20000 ? " " : " -"), i / 2 }' <<<"$2"; }

lives() { outcome "$here/gpu/lives" --passes 1 --delays 20000 "$@"; }

# Columns: allocation, request, deregistration, free, sum.
for ranks in 1 2; do
	found=$(lives --parts life --ranks "$ranks" --rounds 3 --sides eager --json "$folder/lives.json")
	same "$ranks: without, the request has the registration" ' -1 2 -3 -4 5' "$(long without "$found")"
	same "$ranks: eager, the allocation has it" ' 1 -2 -3 -4 5' "$(long eager "$found")"
	matches "$ranks: it ends well" $'*\n=> 0' "$found"
done
matches 'as JSON' '{"bench": "lives", *"case": "request, life, 2 ranks, adapter of 20000 us, eager", "live": 1, "threads": 2, "ns": *"peer": "without", *' \
	"$(<"$folder/lives.json")"
found=$(lives --parts life --ranks 1 --rounds 3 --sides peerpin,observe)
same 'observed, the request has the registration' ' -1 2 -3 -4 5' "$(long observe "$found")"
matches 'what the report predicts' $'*\n  of a life peerpin saves * to * us by the report; measured *' "$found"
found=$(lives --parts again --ranks 1 --rounds 2 --sides peerpin)
same 'without, each request registers' ' 1 2' "$(long without "$found")"
same 'with peerpin the first one alone' ' 1 -2' "$(long peerpin "$found")"
matches 'the null control' $'*\n  null control: *' "$(lives --parts again --ranks 1 --rounds 1 --sides empty)"
found=$(lives --parts views --ranks 1 --rounds 1 --sides peerpin --delays 500)
matches 'views' $'*# us * views * views again\n  without *\n  peerpin *\n=> 0' "$found"
matches 'out of time' $'skipped: again, 1 rank, adapter of 20000 us: out of time\n=> 0' "$(lives --parts again --ranks 1 --seconds -1)"
matches 'a side that there is not' '*argument --sides: none: of without, *=> 2' "$(lives --sides none)"
finish
