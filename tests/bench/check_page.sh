#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_page.sh -- the page of recorded results
set -u
command -v python3 >/dev/null || exit 77
here=${srcdir:-.}/tests/bench
recorded=$here/recorded
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"

# expect NAME LINE: the last page has this line.
expect() {
	ends "$1" 0 "$2" grep -xF -- "$2" "$folder/page"
}

# refuses NAME TEXT FILE: the script rejects the file, with TEXT in the reason.
refuses() {
	ends "$1" 1 "$2" "$here/page" "$3"
}

"$here/page" --notes "$recorded/notes.md" "$recorded/one.json" "$recorded/other.json" >"$folder/page" || exit 1
expect 'the numbers of threads of a case in one line, one goal of two missed' \
	'| hot, small | 1 | 1 / 2 | 3.5 / 4.2 ns | UCX 1.13.1 | 35.0 / 84.0 | 10.0 / 20.0 | 4.0 ns, ratio 5, ratio 15, **alone 1.1** | **missed** with 2 |'
expect 'no peer, so no ratio is judged' \
	'| random, mixed | 1,000,000 | 1 | 1,234 ns | - | - | - | **80.0 ns** | **missed** |'
expect 'bytes' '| memory, small | 10,000 | 1 | 150 B | - | - | - | 160 B | met |'
expect 'how many are met' 'Of 4 rows with goals 2 meet all of theirs.'
expect 'an explanation' '- random, mixed: Each look-up misses the cache.'
expect 'no explanation' '- Not explained yet: hot, small.'
expect 'another machine' '### another, 64 CPUs, Linux 6.8'

sed 's/"machine": "[^"]*"/"machine": "a second"/' "$recorded/one.json" >"$folder/second.json"
"$here/page" --notes "$recorded/notes.md" "$recorded/one.json" "$folder/second.json" >"$folder/page" || exit 1
expect 'a text stands once' '- random, mixed: see above.'

"$here/page" "$recorded/other.json" "$recorded/again.json" >"$folder/page" || exit 1
expect 'the last result counts' '| hot, small | 1 | 1 | 9.0 ns | - | - | - | **4.0 ns** | **missed** |'

"$here/page" "$recorded/counts.json" >"$folder/page" || exit 1
expect 'a count beside another' '| few | 0 | 1 | 12.0 | others | 10.0 | - | **at most 11.0** | **missed** |'
expect 'a share that is large enough' '| share | 0 | 1 | 96.0 % | - | - | - | at least 95.0 % | met |'

"$here/page" "$recorded/one.json" "$recorded/worth.json" >"$folder/page" || exit 1
expect 'a ratio on both sides of 1 is neither, of one where nothing was registered that is said, and first use is' \
	'| halo | 64 KiB | 3.0 | 3.0 | 1.00 (0.95 to 1.04) | nothing registered | 2.00 (1.50 to 2.50) | faster | - | 4, 0 | 0.5, 0 | 0.7 | 0.1, 0.1 |'
expect 'a loss' \
	'| pool | 1 MiB | 120 | 240 | 0.50 (0.40 to 0.90) | slower | 2.00 (0.50 to 2.50) |  | 4.0, 1.0: 4.00 (3.00 to 5.00) faster | 4, 4 | 2, 1 | 3 | 0.1, 0.1 |'
expect 'what it comes to, losses among it' "**UCX as it is.** Of 2 cases peerpin is faster in 0, slower in 1, not clear \
in 1; at first use faster in 1, slower in 0, not clear in 1. In 1 of them, and in 0 at first use, nothing was \
registered on either side: their ratios are noise, or cost. Between two jobs without it \
the second one is faster in 1, slower in 0, not clear in 0: that is the machine. UCX's requests for GPU memory, in all rounds, are faster \
in 1, slower in 0, not clear in 0, and take 0.25 times as long, all in all. Between the two jobs without it those of the second one are faster in 0, \
slower in 1, not clear in 0. Of the registrations in the send path after first use 25 % are \
left. Of UCX's 16 requests then 75.0 % were ready. Allocating and freeing take 1.5 times as long, all in all."
sed 's/"low_ratio": 0.95/"low_ratio": 1.01/; s/"first_registrations_without": 4.0/"first_registrations_without": 0.0/; s/"first_registrations_with": 0.5/"first_registrations_with": 0.0/' \
	"$recorded/worth.json" >"$folder/idle.json"
"$here/page" "$folder/idle.json" >"$folder/page" || exit 1
expect 'and of one that is faster, too' \
	'| halo | 64 KiB | 3.0 | 3.0 | 1.00 (1.01 to 1.04) | faster, nothing registered | 2.00 (1.50 to 2.50) | faster, nothing registered | - | 0, 0 | 0, 0 | 0.7 | 0.1, 0.1 |'
"$here/page" "$recorded/one.json" "$recorded/worth.json" >"$folder/page" || exit 1
expect 'how much chance agrees' "3 repetitions of 2 rounds after the first; load of the machine at the end: 0.5. The jobs ran in one order. Added to each registration of GPU memory: 7 us; ranks are bound to: none. By chance \
alone the repetitions of 25 % of the cases would agree."
sed 's/"rounds": 2/"rounds": 2, "orders": 2/' "$recorded/worth.json" >"$folder/orders.json"
"$here/page" "$folder/orders.json" >"$folder/page" || exit 1
ends 'and that the jobs ran in both orders' 0 'Every second repetition had the jobs in reverse order. Added' \
	cat "$folder/page"
"$here/page" "$recorded/one.json" "$recorded/worth.json" >"$folder/page" || exit 1
expect 'other benches beside it' '### some CPU, 2 CPUs, Linux 6.1, Soft-RoCE; UCX as it is, UCX without its cache and its memory hooks'
sed 's/"second": "[^"]*"/"second": "UCX otherwise"/' "$recorded/worth.json" >"$folder/otherwise.json"
"$here/page" "$recorded/worth.json" "$folder/otherwise.json" >"$folder/page" || exit 1
expect 'one machine has a section for each second way' '### some CPU, 2 CPUs, Linux 6.1, Soft-RoCE; UCX as it is, UCX otherwise'
expect 'beside the other' '### some CPU, 2 CPUs, Linux 6.1, Soft-RoCE; UCX as it is, UCX without its cache and its memory hooks'
ends 'whose table has its name' 0 '' grep -F '**UCX otherwise.** Of ' "$folder/page"
expect 'the plot' '![ratio of times without and with peerpin, by pattern and size](worth.svg)'
same 'nothing is left beside the sources' '' "$(ls -d "$here/__pycache__" 2>/dev/null)"

# Two dots per row, in valid SVG.
"${srcdir:-.}/tests/stacks/worth_plot" "$recorded/worth.json" >"$folder/plot" || exit 1
python3 -c 'import sys, xml.dom.minidom as dom; print(len(dom.parse(sys.argv[1]).getElementsByTagName("circle")))' \
	"$folder/plot" >"$folder/page"
expect 'a plot with all rows, and two dots that explain' 8

sed 's/"hits": 16/"other": 16/' "$recorded/worth.json" >"$folder/worth"
refuses 'a row of what peerpin is worth without its fields' 'a row has no hits' "$folder/worth"
echo '{"bench": "lookup", "machine": "m", "rows": [{"case": "c"}]}' >"$folder/short"
echo 'no JSON' >"$folder/text"
refuses 'a row without its fields' 'a row has no live' "$folder/short"
refuses 'what is no JSON' 'not the JSON of a bench' "$folder/text"
refuses 'a file that is not there' 'No such file' "$folder/nothing"

same 'README and docs have the figures of the records: tests/bench/figures --write' '' "$("$here/figures" 2>&1)"
finish
