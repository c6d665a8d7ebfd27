#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_ranks.sh -- tests/gpu/ranks: its bars, on times of mock ranks; and few rounds of real ones on the simulated driver
# shellcheck disable=SC2016 # texts for the mock
set -u
here=${srcdir:-.}/tests
# shellcheck source=tests/launcher/checks
. "$here/launcher/checks"
[[ -x tests/gpu/rank && ! -e /dev/nvidiactl ]] || exit 77
command -v python3 >/dev/null || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cpus=$(nproc)

# ---- mock ranks ----

mkdir -p "$folder/tests/gpu" "$folder/src/.libs"
ln -s "$PWD/src/.libs/libpeerpin.so" "$folder/src/.libs/libpeerpin.so"
# Of ten rounds of each kind eight have REQUEST, and two P90: settings of a side, for the rounds that call the preload's
# functions. NOISE: the REQUEST of these in runs without the preload. EARLY: the sum of those that register early.
cat >"$folder/tests/gpu/rank" <<'TEXT'
#!/usr/bin/env bash
hits=-1
[[ -n ${LD_PRELOAD-} ]] && hits=${HITS-10} || REQUEST=${NOISE-${REQUEST-1000}}
echo "${SIDE--}${PEERPIN_KEEP-}" >>"$RUNS"
sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status >>"$RUNS.cpus"
for round in 1 1 1 1 1 1 1 1 9 9; do
	[[ $round == 1 ]] && echo "0 ${REQUEST-1000} ${SUM-2000}" || echo "0 ${P90-1500} ${SUM-2000}"
	[[ $round == 1 ]] && echo '1 1000 2000' || echo '1 1500 2000'
	echo "2 0 ${EARLY-2000}"
done
echo "${TURNS-100} 100 100 $hits"
eval "${DO-}"
TEXT
chmod +x "$folder/tests/gpu/rank"
export RUNS=$folder/runs

# mock SETTINGS [OPTION]...: one side with those settings; in one case of one rank
mock() {
	rm -f "$RUNS" "$RUNS.cpus"
	outcome env GPU_BUILD="$folder" "$here/gpu/ranks" --ranks 1u --delays 50 --sides '' --with "side $1" --rounds 10 "${@:2}"
}

# row SETTINGS [OPTION]...: the side's ratios and verdict, and the end
row() {
	mock "$@" | sed -nE 's/^  side( +[^ ]+){4} +//p; /^=>/p' | tr -s ' ' | paste -sd' '
}

same 'as without' '1.00 1.00 1.00 1.00 1.00 PASS => 0' "$(row '')"
same 'quicker' '0.50 0.33 0.50 0.50 1.00 PASS => 0' "$(row 'REQUEST=500 P90=500 SUM=1000')"
same 'at the bars' '1.05 1.10 1.05 1.05 1.00 PASS => 0' "$(row 'REQUEST=1050 P90=1650 SUM=2100')"
same 'a slower request' '1.05 1.00 1.00 1.00 1.00 over: request 1.051 (without 1.000) => 1' "$(row REQUEST=1051)"
same 'a slower p90' '1.00 1.10 1.00 1.00 1.00 over: request p90 1.101 (without 1.000) => 1' "$(row P90=1651)"
same 'a slower sum' '1.00 1.00 1.05 1.05 1.00 over: sum 1.051 (without 1.000) => 1' "$(row SUM=2102)"
same 'sync may move time into the allocation' '2.00 2.00 1.00 1.00 1.00 PASS => 0' "$(row 'PEERPIN_PREREGISTER=eager REQUEST=2000 P90=3000')"
same 'but takes no longer in sum' '1.00 1.00 1.50 1.00 1.00 over: sum 1.500 (without 1.000) => 1' "$(row 'PEERPIN_PREREGISTER=eager SUM=3000 EARLY=3000')"
same 'nor than the same calls by hand' '1.00 1.00 1.00 1.25 1.00 over: sum beside early 1.250 (without 1.250) => 1' "$(EARLY=1600 row PEERPIN_PREREGISTER=eager)"
same 'which has no bar in the background' '1.00 1.00 1.00 1.25 1.00 PASS => 0' "$(row EARLY=1600)"
same 'less computing' '1.00 1.00 1.00 1.00 0.80 PASS => 0' "$(row TURNS=80)"
# Otherwise no CPU is free.
if ((cpus > 1)); then
	same 'few hits' '1.00 1.00 1.00 1.00 1.00 over: hits => 1' "$(row HITS=9)"
fi
same 'few hits where no CPU is free' '1.00 1.00 1.00 1.00 1.00 PASS => 0' "$(row HITS=0 --ranks "${cpus}u")"
same 'few hits of sync' '1.00 1.00 1.00 1.00 1.00 PASS => 0' "$(row 'PEERPIN_PREREGISTER=eager HITS=0')"
matches 'the share of hits' $'*\n  side * 70.0% *' "$(mock HITS=7)"
matches 'the side without peerpin has no verdict' $'*\n  without         1.0      1.5      2.0      -     1.00     1.00     1.00     1.00   1.00\n  side *' "$(mock '')"
matches 'noise stands beside' '*over: request 3.000 (without 2.000)*' "$(NOISE=2000 mock REQUEST=3000)"
PEERPIN_KEEP=1 mock SIDE=a --with 'b SIDE=b' --passes 2 >/dev/null
same 'sides there and back, with their own settings alone' '- a b b a - - a b b a -' "$(paste -sd' ' "$RUNS")"
mine=$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)
if ((cpus > 1)); then
	mock '' --ranks 2 >/dev/null
	same 'each rank has a CPU of its own' '4 4' "$(sort "$RUNS.cpus" | uniq -c | sed -nE 's/^ *([0-9]+) [0-9]+$/\1/p' | paste -sd' ')"
fi
mock '' --ranks 2u >/dev/null
same 'ranks that are not bound' "8 $mine" "$(uniq -c <"$RUNS.cpus" | sed 's/^ *//')"
matches 'the first message' $'*PASS\n    broken\n#*' "$(mock 'DO=echo${IFS}broken>&2')"
matches 'a rank that fails' $'*\nFAILED: 1 rank not bound, adapter of 50 us, side: not ok: it broke\n*0 passed, 0 over, 1 failed, 0 skipped\n=> 1' \
	"$(mock 'DO=echo${IFS}not${IFS}ok:${IFS}it${IFS}broke>&2;exit${IFS}3')"
matches 'a library that is none' $'*FAILED: *, side: /nowhere/lib.so is not preloaded: *\n=> 1' "$(mock '/nowhere/lib.so HITS=-1')"
matches 'too few CPUs' $'*\nskipped: 99999 ranks bound, adapter of 50 us: *CPUs\n*\n0 passed, 0 over, 0 failed, 1 skipped\n=> 1' "$(mock '' --ranks 99999)"
matches 'out of time' $'*\n1 passed, 0 over, 0 failed, 1 skipped\n=> 0' "$(mock 'DO=sleep${IFS}0.5' --seconds 1 --delays 50,60)"
matches 'bad ranks' '*argument --ranks: 1,x: numbers of ranks, *=> 2' "$(mock '' --ranks 1,x)"
matches 'a bad side' '*argument --sides: none: auto and sync, *=> 2' "$(mock '' --sides none)"
matches 'no rounds' '*argument --rounds: 0: a number of at least 1*=> 2' "$(mock '' --rounds 0)"
matches 'nothing is built' $'ranks: /nowhere/tests/gpu/rank: No such file *\n=> 1' "$(GPU_BUILD=/nowhere outcome "$here/gpu/ranks")"
mock REQUEST=2000 --json "$folder/ranks.json" >/dev/null
matches 'as JSON' '{"bench": "ranks", *"case": "request, 1 rank not bound, adapter of 50 us, side", "live": 1, "threads": 1, "ns": 2000*"peer": "direct", "peer_ns": 1000*"ratio": 0.5, *"goal_ratio": 0.95*' \
	"$(<"$folder/ranks.json")"
page=$("$here/bench/page" "$folder/ranks.json")
matches 'its page can be made' '*| request, 1 rank not bound, adapter of 50 us, side | 1 | 1 | 2,000 ns | direct | 1,000 | 0.5 | \*\*ratio 0.95\*\* | \*\*missed\*\* |*' "$page"
matches 'both sums are on it' '*| sum, 1 rank *, side *| direct | 2,000 |*| sum beside early, 1 rank *, side *| early | 2,000 |*' "$page"

# ---- real ranks; a registration of 20 ms exceeds other programs' noise ----

truncate -s 4096 "$folder/shared"
requests=$(LD_LIBRARY_PATH=$PWD/src/sim/adapter/.libs:$PWD/src/sim/.libs PEERPIN_SIM_ADAPTER_DELAY=20000 \
	tests/gpu/rank "$folder/shared" 1 0 1 3 1048576 1000 | sed '$d' | awk '{ print $1, ($2 >= 2e7 ? "request" : "none") }' | paste -sd,)
same 'only early rounds make no request after computing' '0 request,1 request,2 none' "$requests"

found=$(outcome env GPU_BUILD="$PWD" "$here/gpu/ranks" --ranks "1,2u" --delays 20000 --rounds 4 --blocks 6 --warm-ups 4 --sides sync \
	--with 'off PEERPIN_PREREGISTER=off')
for case in '1 rank bound' '2 ranks not bound'; do
	rows=$(sed -n "/^$case, adapter of 20000 us asleep: /,/^  off/p" <<<"$found" | tr -s ' ')
	matches "$case: a request takes the time of the registration" $'*\n without [2-9][0-9][0-9][0-9][0-9].? *' "$rows"
	matches "$case: each request hits, and the sum has the allocation" $'*\n sync [0-9]* [0-9]* [2-9][0-9][0-9][0-9][0-9].? 100.0% *' "$rows"
	matches "$case: misses take as long" $'*\n off [2-9][0-9][0-9][0-9][0-9].? * 0.0% *' "$rows"
done
finish
