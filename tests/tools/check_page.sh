#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_page.sh -- the page of peerpin report --html: needs nothing else, lets nothing in, never replaces unasked
# Where there is a Chromium the page is opened in it.
set -euo pipefail

here=$(dirname "$0")
# shellcheck source=tests/launcher/checks
. "$here/../launcher/checks"
command -v python3 >/dev/null && command -v jq >/dev/null || exit 77

report=$PWD/src/tools/peerpin-report
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/run"
export XDG_RUNTIME_DIR=$tmp/run LC_ALL=C.UTF-8 PEERPIN_SIM_SHM=$tmp/shm

without_chart() {
	local data

	# A copy elsewhere finds nothing beside it.
	mkdir "$tmp/bin"
	cp "$report" "$tmp/bin/report"
	data=$(strings "$tmp/bin/report" | sed -n 's|/chart.min.js$||p;s|^.*put its chart.min.js (version 3) into ||p' | head -1)
	if [[ -e $data/chart.min.js ]]; then
		skip "without Chart.js: it is installed in $data"
		return
	fi
	matches 'without Chart.js it is said what is missing' '*--html needs Chart.js*chart.min.js*=> 1' \
		"$(outcome "$tmp/bin/report" --html "$tmp/none.html" "$tmp/job")"
	same 'and no page is begun' '' "$(ls "$tmp/none.html" 2>/dev/null)"
}

files() {
	matches 'of nothing' '*typo.json: No such file or directory*=> 1' "$(outcome "$report" --html "$tmp/page.html" "$tmp/typo.json")"
	same 'there is no page, which would be in the way' '' "$(ls "$tmp/page.html" 2>/dev/null)"
	matches 'the table is printed, too' '*GPUDirect RDMA*=> 0' "$(outcome "$report" --html "$tmp/page.html" "$tmp/job")"
	same 'a page that is there stays' "peerpin report: $tmp/page.html is there already (--force replaces it)" \
		"$("$report" --html "$tmp/page.html" "$tmp/job" 2>&1 >/dev/null || true)"
	echo mine >"$tmp/mine"
	ln -s mine "$tmp/link.html"
	matches 'a link is not followed' '*is there already*=> 1' "$(outcome "$report" --html "$tmp/link.html" "$tmp/job")"
	matches '--force replaces the link, not what it leads to' '*=> 0' \
		"$(outcome "$report" --force --html "$tmp/link.html" "$tmp/job")"
	same 'what it led to is as before' mine "$(cat "$tmp/mine")"
	same 'nothing is left beside it' '' "$(ls "$tmp"/*.new 2>/dev/null)"
	same 'what has no room is said' "peerpin report: $tmp/large.html: File too large"$'\n=> 1' \
		"$(outcome bash -c "trap '' XFSZ; ulimit -f 8; exec '$report' --html '$tmp/large.html' '$tmp/job' >/dev/null")"
	same 'and leaves nothing' '' "$(ls "$tmp/large.html" 2>/dev/null)"
	matches 'a folder that is not there' '*No such file or directory*=> 1' \
		"$(outcome "$report" --html "$tmp/nowhere/page.html" "$tmp/job")"
}

# data PAGE: the report inside of it
data() {
	sed -n 's|.*<script type="application/json" id="report">\(.*\)</script>$|\1|p' "$1"
}

alone() {
	same 'no address of the network but in comments of Chart.js' '' \
		"$(grep -nE '[a-z]+://' "$tmp/page.html" | grep -vE '^[0-9]+: \* ' | cut -c1-80 || true)"
	same 'no other file is referred to' '' \
		"$(sed '/^\/\*!$/,/^<\/script>/d' "$tmp/page.html" | grep -niE '<link|<img|<iframe|src=|href=|@import|url\(|fetch\(|XMLHttp|import\(' | cut -c1-80 || true)"
	same 'the report is in it whole' "$("$report" --json "$tmp/job" | jq -cS .)" "$(data "$tmp/page.html" | jq -cS .)"
	same 'the scripts end where they should' 3 "$(grep -o '</script' "$tmp/page.html" | wc -l)"
}

hostile() {
	mkdir "$tmp/bad"
	python3 "$here/records.py" "$tmp/bad" 2 '*:program="</script><script>document.title=1</script><img src=x onerror=alert(1)>"' \
		'*:job="<!--<script>"' '*:verdict="used: /*REPORT*/ /*CHART_JS*/"'
	"$report" --html "$tmp/bad.html" "$tmp/bad" >/dev/null
	same 'what records say ends no script' 3 "$(grep -oi '</script' "$tmp/bad.html" | wc -l)"
	same 'and begins none' 3 "$(grep -oi '<script' "$tmp/bad.html" | wc -l)"
	same 'and is there as it was' '<!--<script>' "$(data "$tmp/bad.html" | jq -r '.jobs[0].job')"
	same 'marks in it stay what they are' 'used by all 2 ranks: dma-buf; mlx5_0, mlx5_1; PIX' \
		"$(data "$tmp/bad.html" | jq -r '.jobs[0].verdict')"
}

# opened PAGE: what a browser makes of it
opened() {
	timeout 600 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$tmp/chromium" --virtual-time-budget=5000 \
		--dump-dom "file://$1" 2>"$tmp/chromium.log"
}

in_a_browser() {
	local page

	if ! command -v chromium >/dev/null; then
		skip 'the page in a browser: there is no chromium'
		return
	fi
	page=$(opened "$tmp/page.html") || true
	if [[ -z $page ]]; then
		skip 'the page in a browser: chromium does not run here'
		return
	fi
	same 'the page has its title' '<title>peerpin report: lammps</title>' "$(grep -o '<title>.*</title>' <<<"$page")"
	same 'a chart for both timelines, the ranks, and each histogram' \
		"$("$report" --json "$tmp/job" | jq '3 + ([.jobs[0].histograms[] | select(add > 0)] | length)')" \
		"$(grep -o '<canvas' <<<"$page" | wc -l)"
	same 'each chart was drawn' '' "$(grep -o '<canvas[^>]*>' <<<"$page" | grep -v 'width="[1-9][0-9]*"' || true)"
	same 'each chart has its numbers beside it' "$(grep -o '<canvas' <<<"$page" | wc -l)" \
		"$(grep -o '<summary>numbers</summary><div class="scroll"><table>' <<<"$page" | wc -l)"
	matches 'it comes to its end' '*<footer>Made by peerpin *' "$page"
	same 'nothing in it went wrong' '' "$(grep -i 'CONSOLE.*error\|Uncaught' "$tmp/chromium.log" || true)"
	page=$(opened "$tmp/bad.html")
	matches 'hostile names are text' '*<h1>&lt;/script&gt;&lt;script&gt;document.title=1*' "$page"
	same 'and make no elements' '' "$(grep -o '<img[^>]*>' <<<"$page" || true)"
}

mkdir "$tmp/job"
python3 "$here/records.py" "$tmp/job" 4 '3:evictions=880'
without_chart
if [[ -e src/tools/chart.min.js ]]; then
	files
	alone
	hostile
	in_a_browser
else
	skip 'the page: there is no Chart.js'
fi
finish
