#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_page.sh -- the page of peerpin report --html: self-contained, safe against hostile records,
# replaced only with --force
# With Chromium, the test opens the page.
set -euo pipefail

here=$(dirname "$0")
# shellcheck source=tests/launcher/checks
. "$here/../launcher/checks"
# shellcheck source=tests/tools/browser
. "$here/browser"
command -v python3 >/dev/null && command -v jq >/dev/null || exit 77

report=$PWD/src/tools/peerpin-report
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/run"
export XDG_RUNTIME_DIR=$tmp/run LC_ALL=C.UTF-8 PEERPIN_SIM_SHM=$tmp/shm

without_chart() {
	local data

	# A copy in another folder finds no chart.min.js beside it.
	mkdir "$tmp/bin"
	cp "$report" "$tmp/bin/report"
	data=$(strings "$tmp/bin/report" | sed -n 's|/chart.min.js$||p;s|^.*put its chart.min.js (version 3) into ||p' | head -1)
	if [[ -e $data/chart.min.js ]]; then
		skip "without Chart.js: it is installed in $data"
		return
	fi
	matches 'without Chart.js the message names it' '*--html requires Chart.js*chart.min.js*=> 1' \
		"$(outcome "$tmp/bin/report" --html "$tmp/none.html" "$tmp/job")"
	same 'without Chart.js there is no page' '' "$(ls "$tmp/none.html" 2>/dev/null)"
}

files() {
	matches 'a missing input' '*typo.json: No such file or directory*=> 1' "$(outcome "$report" --html "$tmp/page.html" "$tmp/typo.json")"
	same 'without records there is no page' '' "$(ls "$tmp/page.html" 2>/dev/null)"
	matches 'the page is named behind the table' "*GPUDirect RDMA*"$'\n'"peerpin report: wrote $tmp/page.html"$'\n=> 0' \
		"$(outcome "$report" --html "$tmp/page.html" "$tmp/job")"
	matches 'so is one that exists' "*GPUDirect RDMA*"$'\n'"peerpin report: $tmp/page.html exists (--force replaces it)"$'\n=> 1' \
		"$(outcome "$report" --html "$tmp/page.html" "$tmp/job")"
	same 'an existing page stays' "peerpin report: $tmp/page.html exists (--force replaces it)" \
		"$("$report" --html "$tmp/page.html" "$tmp/job" 2>&1 >/dev/null || true)"
	echo mine >"$tmp/mine"
	ln -s mine "$tmp/link.html"
	ln -s none "$tmp/dangling.html"
	mkfifo "$tmp/fifo.html"
	mkdir "$tmp/folder.html"
	cp -a /dev/null "$tmp/device.html" 2>/dev/null || rm -f "$tmp/device.html" # root alone may
	for file in link dangling fifo folder device; do
		file=$tmp/$file.html
		[[ -L $file || -e $file ]] || continue
		found=$(ls -ld "$file")
		for force in '' --force; do
			matches "$file is refused ${force:-without --force}" \
				"*peerpin report: $file is no regular file: name a new or a regular one*=> 1" \
				"$(outcome timeout 60 "$report" $force --html "$file" "$tmp/job")"
			same "$file stays" "$found" "$(ls -ld "$file")"
		done
	done
	same 'the target is unchanged' 'mine ' "$(cat "$tmp/mine" "$tmp/none" 2>/dev/null | tr '\n' ' ')"
	matches '--force replaces a page' '*=> 0' "$(outcome "$report" --force --html "$tmp/page.html" "$tmp/job")"
	same 'no temporary file is left' '' "$(ls "$tmp"/*.new 2>/dev/null)"
	same 'a file size limit is reported' "peerpin report: $tmp/large.html: File too large"$'\n=> 1' \
		"$(outcome bash -c "trap '' XFSZ; ulimit -f 8; exec '$report' --html '$tmp/large.html' '$tmp/job' >/dev/null")"
	same 'a failed page is removed' '' "$(ls "$tmp/large.html" 2>/dev/null)"
	matches 'a missing folder' '*No such file or directory*=> 1' \
		"$(outcome "$report" --html "$tmp/nowhere/page.html" "$tmp/job")"
}

# data PAGE: the report in the page
data() {
	sed -n 's|.*<script type="application/json" id="report">\(.*\)</script>$|\1|p' "$1"
}

alone() {
	same 'no URL except in comments of Chart.js' '' \
		"$(grep -nE '[a-z]+://' "$tmp/page.html" | grep -vE '^[0-9]+: \* ' | cut -c1-80 || true)"
	same 'no reference to another file' '' \
		"$(sed '/^\/\*!$/,/^<\/script>/d' "$tmp/page.html" | grep -niE '<link|<img|<iframe|src=|href=|@import|url\(|fetch\(|XMLHttp|import\(' | cut -c1-80 || true)"
	same 'the page has the whole report' "$("$report" --json "$tmp/job" | jq -cS .)" "$(data "$tmp/page.html" | jq -cS .)"
	same 'the page has 3 script ends' 3 "$(grep -o '</script' "$tmp/page.html" | wc -l)"
}

runs() {
	command -v node >/dev/null || { skip 'the script without a browser: there is no node'; return; }
	matches 'the script runs to its end' '*<h2> Advice*<h2> Findings <li> registrations that were never deregistered*: 7, by UCX*<canvas> hits,*<footer> Made by peerpin *' \
		"$(node "$here/page.js" "$tmp/page.html" | tr -s '\n' ' ')"
}

hostile() {
	mkdir "$tmp/bad"
	python3 "$here/records.py" "$tmp/bad" 2 '*:program="</script><script>document.title=1</script><img src=x onerror=alert(1)>"' \
		'*:job="<!--<script>"' '*:usage="used: /*REPORT*/ /*CHART_JS*/"'
	"$report" --html "$tmp/bad.html" "$tmp/bad" >/dev/null
	same 'record texts end no script' 3 "$(grep -oi '</script' "$tmp/bad.html" | wc -l)"
	same 'record texts begin no script' 3 "$(grep -oi '<script' "$tmp/bad.html" | wc -l)"
	same 'record texts are unchanged in the data' '<!--<script>' "$(data "$tmp/bad.html" | jq -r '.jobs[0].job')"
	same 'marks in record texts are not replaced' 'used by all 2 ranks: dma-buf; mlx5_0, mlx5_1; PIX' \
		"$(data "$tmp/bad.html" | jq -r '.jobs[0].usage')"
}

# marks_of PAGE: red ticks of the chart of ranks, and the ranks whose bar is red at its top
marks_of() {
	sed 's|</body>|<script>{ const { ctx, canvas, scales: { x }, chartArea: { top, height } } = Object.values(Chart.instances)[0];\
		const red = (at, y) => { const [r, g, b] = ctx.getImageData(x.getPixelForValue(at) * devicePixelRatio, y * devicePixelRatio, 1, 1).data; return r > g + 60 \&\& r > b + 60; };\
		const ranks = x.getLabels().map((label, at) => at);\
		document.title = "ticks " + x.ticks.map((tick) => [].concat(tick.label)).filter((lines) => lines.length > 1).join(";") +\
			" bars " + ranks.filter((at) => red(at, top + 2) \&\& (ranks.length < 40 \|\| red(at, top + height / 2))) }</script></body>|' \
		"$1" >"$tmp/marks.html"
	opened "$tmp/marks.html" | sed -n 's|.*<title>\(.*\)</title>.*|\1|p'
}

in_a_browser() {
	local page

	browser_runs "$tmp/page.html" || return 0
	page=$(opened "$tmp/page.html")
	same 'the page has its title' '<title>peerpin report: lammps</title>' "$(grep -o '<title>.*</title>' <<<"$page")"
	same 'a chart for the ranks, and each histogram' \
		"$("$report" --json "$tmp/job" | jq '1 + ([.jobs[0].histograms[] | select(add > 0)] | length)')" \
		"$(grep -o '<canvas' <<<"$page" | wc -l)"
	same 'each chart was drawn' '' "$(grep -o '<canvas[^>]*>' <<<"$page" | grep -v 'width="[1-9][0-9]*"' || true)"
	same 'each chart has a table of its numbers' "$(grep -o '<canvas' <<<"$page" | wc -l)" \
		"$(grep -o '<summary>numbers</summary><div class="scroll"><table>' <<<"$page" | wc -l)"
	matches 'verdict, figures and advice come first, histograms last' \
		'*class="verdict*class="figures"*<h2>Advice*<h2>Requests by rank*<h2>Totals*<details class="card more">*<h2>Size of allocations*' "$page"
	matches 'figures have the units of the text' '*<b>89.6 %</b><span>hits of 8?813 requests*<b>3.32 ms</b>*<b>412 ms</b>*<b>40.4 GiB</b>*<td>2.10 ms</td>*' "$page"
	same 'killed and failing ranks are marked, with the reason' $'rank 1 1\nrank 2 1' \
		"$(grep -o '<tr class="marked"><td>[a-z]* [0-9]*' <<<"$page" | sed 's/.*<td>//' | sort | uniq -c | awk '{ print $2, $3, $1 }')"
	same 'their bars and ticks are red' 'ticks rank 1,40 failed;rank 2,killed bars 1,2' "$(marks_of "$tmp/page.html")"
	mkdir "$tmp/wide"
	python3 "$here/records.py" "$tmp/wide" 200 '117:ended="killed"' '53:registrations_failed=40'
	"$report" --html "$tmp/wide.html" "$tmp/wide" >/dev/null
	same 'also among 200 ranks' 'ticks rank 53,40 failed;rank 117,killed bars 53,117' "$(marks_of "$tmp/wide.html")"
	matches 'a fault has a red figure' '*class="bad"><b>40</b><span>failed registrations*class="bad"><b>1</b><span>killed process<*' "$page"
	matches 'an empty histogram is explained' '*Empty: *no registration was unused.*' "$page"
	same 'a page of 420 pixels does not scroll sideways' '420 true' "$(width_in 420 "$tmp/page.html")"
	same 'a page of 1280 pixels does not scroll sideways' '1280 true' "$(width_in 1280 "$tmp/page.html")"
	mkdir "$tmp/idle"
	python3 "$here/records.py" "$tmp/idle" 2 '*:requests=0' '*:hits=0' '*:waited=0' '*:synchronous=0' '*:histograms={}'
	"$report" --html "$tmp/idle.html" "$tmp/idle" >/dev/null
	matches 'empty series are explained' '*No process requested a registration*' "$(opened "$tmp/idle.html")"
	matches 'the script ran to its end' '*<footer>Made by peerpin *' "$page"
	same 'the console has no error' '' "$(grep -i 'CONSOLE.*error\|Uncaught' "$tmp/chromium.log" || true)"
	page=$(opened "$tmp/bad.html")
	matches 'hostile names become text' '*<h1>&lt;/script&gt;&lt;script&gt;document.title=1*' "$page"
	same 'hostile names make no elements' '' "$(grep -o '<img[^>]*>' <<<"$page" || true)"
}

mkdir "$tmp/job"
python3 "$here/records.py" "$tmp/job" 4 '3:evictions=880' '3:synchronous=905' '3:hits=1300' '2:ended="killed"' \
	'1:registrations_failed=40' '1:failed_resources=40' \
	'0:findings=[{"id":"leaked","caller":"UCX","count":7,"bytes":0,"ns":0}]'
without_chart
if [[ -e src/tools/chart.min.js ]]; then
	files
	alone
	runs
	hostile
	in_a_browser
else
	skip 'the page: there is no Chart.js'
fi
finish
