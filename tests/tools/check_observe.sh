#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_observe.sh -- PEERPIN_OBSERVE changes no call, counts each exactly, and finds the faults that a program has and no others
set -euo pipefail

# shellcheck source=tests/tools/preloaded
. "$(dirname "$0")/preloaded"
# shellcheck source=tests/tools/browser
. "$here/browser"
export PEERPIN_SIM_ADAPTER_OUTLIVE=1
peerpin=$build/scripts/peerpin
afresh

# observe WORD...: the client, observed into $file
file=$tmp/observed.json
observe() {
	rm -f "$file"
	with PEERPIN_OBSERVE="$file" "$client" adapter "$@" exit
}

# found WORD...: the findings of the observed client, as "id count bytes caller"
found() {
	observe "$@"
	jq -r '.findings[] | "\(.id) \(.count) \(.bytes) \(.caller)"' "$file" | paste -sd,
}

# value FILTER: of the last file
value() { jq -r "$1" "$file"; }

findings_are_exact() {
	local mib=1048576

	same 'none' '' "$(found allocated=3 synced sent=3 host=2 free)"
	same 'none, by dma-buf' '' "$(found allocated=3 synced mapped=3 free)"
	same 'repeated' "repeated 4 $((4 * mib)) client" "$(found allocated=2 synced sent=2 sent=2 sent=2 free)"
	same 'repeated, by dma-buf' "repeated 2 $((2 * mib)) client" "$(found allocated=2 synced mapped=2 mapped=2 free)"
	same 'of the next memory at an address none is repeated' '' \
		"$(found allocated=1 synced sent=1 free allocated=1 synced sent=1 free allocated=1 synced sent=1)"
	same 'outlived' "outlived 2 $((2 * mib)) client" "$(found allocated=3 synced held=2 free dropped)"
	same 'leaked' "leaked 2 $((2 * mib)) client" "$(found allocated=3 synced held=2)"
	same 'outlived and leaked' "outlived 1 $mib client,leaked 1 $mib client" "$(found allocated=1 synced held=1 free)"
	same 'duplicate' "repeated 2 $((2 * mib)) client,duplicate 2 $((2 * mib)) client" \
		"$(found allocated=1 synced held=1 held=1 held=1 dropped free)"
	same 'oversized' "oversized 1 $((2 * mib)) client" "$(found allocated=2 synced beyond free)"
	same 'without SYNC_MEMOPS' "sync_missing 2 $((2 * mib)) client" "$(found allocated=3 sent=2)"
	same 'without SYNC_MEMOPS, freed' "sync_missing 2 $((2 * mib)) client" "$(found allocated=3 sent=2 free)"
	same 'memory that no adapter uses needs none' '' "$(found allocated=3 free)"
}

counts_are_exact() {
	local stats=$tmp/stats

	rm -f "$stats"
	PEERPIN_SIM_ADAPTER_STATS=$stats observe allocated=40 synced sent=40 sent=30 mapped=7 host=3 free allocated=5
	same 'registrations and deregistrations' "$(jq -c '[.registrations, .deregistrations, .bytes]' "$stats")" \
		"$(value '[([.registrations[].count] | add), ([.registrations[].deregistered_count] | add), ([.registrations[].bytes] | add)] | tojson')"
	same 'forms, memory and adapter' 'address gpu sim0 70,dma-buf gpu sim0 7,address host sim0 3' \
		"$(value '.registrations[] | "\(.form) \(.memory) \(.adapter) \(.count)"' | paste -sd,)"
	same 'exports' 7 "$(value '[.callers[].exports_count] | add')"
	same 'allocations and frees' '45 40 47185920' "$(value '.allocations[] | "\(.count) \(.freed_count) \(.bytes)"')"
	same 'allocations that repeat a freed size' 5 "$(value '.sizes[0].reused_count')"
	same 'one free of 17 is sampled' 3 "$(value '.sizes[0].sampled')"
	same 'peaks' "$((40 << 20)) $((1 << 20))" "$(value '"\(.memory_peak_bytes) \(.pinned_peak_bytes)"')"
	same 'nothing is lost' '0 0' "$(value '"\(.lost) \(.unknown_frees)"')"
	observe size=4096 allocated=1 host=1 locked=2
	same 'host memory' 'host 2 2' "$(value '.allocations[] | select(.kind == "host") | "\(.kind) \(.count) \(.freed_count)"')"
}

# traced FILE [NAME=VALUE...]: the driver calls and adapter statistics of a run of $words
words=(adapter allocated=30 synced sent=30 sent=20 mapped=5 host=2 locked=2 free allocated=4 held=1 exit)
traced() {
	local trace=$1

	shift
	rm -f "$trace" "$trace.adapter"
	env LD_LIBRARY_PATH="$build/tests/tools/traced/.libs:$build/src/sim/adapter/.libs" SIM_TRACE="$trace" \
		PEERPIN_SIM_ADAPTER_STATS="$trace.adapter" "$@" "$client" "${words[@]}"
}

no_call_changes() {
	local waits='cuCtxGetCurrent|cuPointerGetAttributes|cuThreadExchangeStreamCaptureMode|cuCtxGetFlags|cuEventCreate|cuCtxRecordEvent|cuEventSynchronize|cuEventDestroy_v2'

	[[ -e $build/tests/tools/traced/.libs/libcuda.so.1 ]] || { skip 'calls of the driver: entries for x86-64'; return; }
	# A first linked call finds out whether the driver is initialised, also in a disabled process.
	waits+='|cuDeviceGetCount'
	traced "$tmp/without"
	traced "$tmp/observed" LD_PRELOAD="$library" PEERPIN_OBSERVE="$file.traced"
	matches 'the calls were recorded' '1[0-9][0-9]' "$(grep -c . "$tmp/without")"
	same 'the driver receives the calls of the program, but for sampled waits' '' \
		"$(diff "$tmp/without" <(grep -vE "^($waits)( |$)" "$tmp/observed") || :)"
	same 'a sampled wait is one event of the context' 2 "$(grep -c '^cuCtxRecordEvent' "$tmp/observed")"
	same 'the adapter receives the calls of the program' "$(jq -c 'del(.pid)' "$tmp/without.adapter")" \
		"$(jq -c 'del(.pid)' "$tmp/observed.adapter")"
	traced "$tmp/served" LD_PRELOAD="$library" PEERPIN_SUMMARY=none
	same 'a difference would be found' differs "$(diff -q "$tmp/without" "$tmp/served" >/dev/null || echo differs)"
}

# waits_of WORD...: before the frees of the observed client
waits_of() {
	local words=("$@" exit)

	traced "$tmp/waits" LD_PRELOAD="$library" PEERPIN_OBSERVE="$file.traced"
	grep -c '^cuCtxRecordEvent' "$tmp/waits" || :
}

# The driver's free of other memory does not wait for the current context, whose work may wait for this thread.
waits_are_the_driver_s() {
	[[ -e $build/tests/tools/traced/.libs/libcuda.so.1 ]] || { skip 'calls of the driver: entries for x86-64'; return; }
	same 'frees of memory of the current context' 3 "$(waits_of allocated=40 free)"
	same 'of memory of another context' 0 "$(waits_of allocated=40 elsewhere free)"
	same 'of pool memory' 0 "$(waits_of pooled=40 free)"
}

# Each lookup path of the driver's functions, and results in each state of the driver.
results_are_the_drivers() {
	ends 'the contract of the driver' 0 '100%: Checks: ' env PEERPIN_SIM_DEVICES=2 LD_LIBRARY_PATH="$build/src/sim/.libs" \
		LD_PRELOAD="$library" PEERPIN_OBSERVE="$tmp/contract.json" "$(built "$build/tests/contract/check_driver")"
	matches 'its calls were recorded' '[1-9][0-9][0-9]*' "$(jq '[.allocations[].count] | add' "$tmp/contract.json")"
}

the_command_names_the_file() {
	same 'memory that is freed under a registration ends no simulated run' '' \
		"$(env -u PEERPIN_SIM_ADAPTER_OUTLIVE -C "$tmp" "$peerpin" observe --sim "$client" adapter allocated=1 held=1 free exit 2>&1)"
	afresh
	(
		mkdir "$tmp/there" && cd "$tmp/there"
		PATH=/usr/bin:/bin "$peerpin" observe --sim "$client" adapter allocated=1 synced sent=1 free exit
	)
	matches 'a file for each process' "*/observe.*.json" "$(echo "$tmp"/there/*)"
	same 'a child has none' 1 "$(cd "$tmp" && mkdir forked && cd forked && "$peerpin" observe --sim "$client" allocated=1 child free exit
		find . -type f | wc -l)"
	same 'an inert program has none' '' "$(cd "$tmp" && mkdir inert && cd inert && "$peerpin" observe true; ls)"
	same 'no statistics, no table and no file beside it' '' "$(ls "$tmp/run")"
	same 'another name' other.json "$(cd "$tmp/inert" && "$peerpin" observe --observe=other.json --sim "$client" adapter allocated=1 exit; ls)"
	same 'PEERPIN_DISABLE disables it' other.json "$(cd "$tmp/inert" &&
		PEERPIN_DISABLE=1 "$peerpin" observe --sim "$client" adapter allocated=1 exit; ls)"
}

# served WORD...: the findings of the client, whose requests are served, with those at the exit
served() {
	rm -f "$tmp/stats"
	with PEERPIN_STATS_FILE="$tmp/stats" PEERPIN_SUMMARY=none "$client" adapter "$@" exit
	jq -r '.findings[] | "\(.id) \(.count) \(.bytes) \(.caller)"' "$tmp/stats" | paste -sd,
}

served_runs_have_findings() {
	local mib=1048576

	same 'served: none' '' "$(served allocated=3 sent=3 host=2 free allocated=3 sent=3 free)"
	same 'served: none for requests that peerpin serves again' '' "$(served allocated=2 sent=2 sent=2 sent=2 free)"
	same 'served: outlived' "outlived 2 $((2 * mib)) client" "$(served allocated=3 held=2 free dropped)"
	same 'served: leaked' "leaked 2 $((2 * mib)) client" "$(served allocated=3 held=2)"
	same 'served: outlived and leaked' "outlived 1 $mib client,leaked 1 $mib client" "$(served allocated=1 held=1 free)"
	[[ -x $build/src/tools/peerpin-report ]] || { skip 'their report: it is not built'; return; }
	served allocated=2 held=2 sent=2 free dropped >/dev/null
	matches 'the report of a served run has them' \
		'*findings registrations that outlived their memory: 2 (2.00 MiB), by client -> *' \
		"$("$peerpin" report "$tmp/stats" | tr -s ' \n' ' ')"
	same 'as its JSON, also of two processes' 'outlived 4' \
		"$(jq '.pid += 1' "$tmp/stats" >"$tmp/other.json"
		"$peerpin" report --json "$tmp/stats" "$tmp/other.json" | jq -r '[.jobs[0].findings[] | "\(.id) \(.count)"] | join(" ")')"
	jq '.findings[0].count = -1' "$tmp/stats" >"$tmp/other.json"
	ends 'a file with a wrong finding' 1 'findings[0].count: not a whole number' "$peerpin" report "$tmp/other.json"
}

# times_of PAGE: labels of the first chart's axis of time
times_of() {
	sed 's|</body>|<script>document.title = Object.values(Chart.instances)[0].scales.x.ticks.map((tick) => tick.label).join()</script></body>|' \
		"$1" >"$tmp/times.html"
	opened "$tmp/times.html" | sed -n 's|.*<title>\(.*\)</title>.*|\1|p'
}

the_page_has_findings_and_a_timeline() {
	local page=$tmp/page.html script width

	[[ -e $build/src/tools/chart.min.js && -x $build/src/tools/peerpin-report ]] || { skip 'the page: there is no Chart.js'; return; }
	observe allocated=2 synced sent=2 pause=100 sent=2 held=1 pause=100 dropped free
	same 'the file has the run over time' '2097152 5 1048576' "$(value '.timeline.rows | [
		(map(select(.kind == "memory").values) | add | max), (map(select(.kind == "registrations").values) | add | add),
		(map(select(.kind == "pinned").values) | add | max)] | join(" ")')"
	ends 'a page of it' 0 "wrote $page" "$peerpin" report --html "$page" "$file"
	same 'has the whole report' "$("$peerpin" report --json "$file" | jq -cS .)" \
		"$(sed -n 's|.*<script type="application/json" id="report">\(.*\)</script>$|\1|p' "$page" | jq -cS .)"
	same 'processes add up in it' '4194304 10' "$("$peerpin" report --json "$file" "$file" | jq -r '.timeline.rows |
		"\(map(select(.kind == "memory").values) | add | max) \(map(select(.kind == "registrations").values) | add | add)"')"
	jq '.timeline.rows[0].values[0] = -1' "$file" >"$file.wrong"
	ends 'a timeline with a wrong value' 1 'timeline: a member is wrong' "$peerpin" report "$file.wrong"
	jq '.timeline.interval_ns = 1 | .started_ns = 1' "$file" >"$file.wrong"
	same 'processes of other years keep its length' true \
		"$("$peerpin" report --json "$file" "$file.wrong" | jq '.timeline.rows[0].values | length <= 256')"
	if browser_runs "$page"; then
		matches 'its axis of time has round labels' '0,@(10|20|50|100) ms,@(20|40|100|200) ms,*' "$(times_of "$page")"
		for width in 420 1280; do
			same "it does not scroll sideways at $width pixels" "$width true" "$(width_in "$width" "$page")"
		done
		same 'its console has no error' '' "$(grep -i 'CONSOLE.*error\|Uncaught' "$tmp/chromium.log" || true)"
	fi
	command -v node >/dev/null || { skip 'its script: there is no node'; return; }
	script=$(node "$(dirname "$0")/page.js" "$page" | tr -s '\n' ' ')
	matches 'findings first, then memory, its registered part and registrations over time by library' \
		'*<h2> Findings <li> registrations of a range *: 3 (3.00 MiB), by client*<h2> GPU memory*<canvas> registered by client,GPU memory x *<h2> Registrations <canvas> client x *<footer> *' "$script"
}

top_shows_it() {
	local screen

	[[ -x $build/src/tools/peerpin-top ]] || { skip 'peerpin top: it is not built'; return; }
	afresh
	mkfifo "$tmp/in" "$tmp/out"
	(cd "$tmp" && exec "$peerpin" observe --top --sim "$client" adapter size=2097152 allocated=2 asked exit) <"$tmp/in" >"$tmp/out" &
	exec 8>"$tmp/in" 9<"$tmp/out"
	until
		echo 2 >&8 && read -r <&9
		"$peerpin" top --once --json | jq -e '.processes[0].findings[0].count > 0' >/dev/null
	do :; done
	screen=$("$peerpin" top --once | tr -s ' \n' ' ')
	matches 'peerpin top shows the observed counts' \
		'*1 running*allocations 2 frees 0 time in registrations *registrations of a range *, by client *client *observed *' "$screen"
	same 'and no request' '0 null' "$("$peerpin" top --once --json | jq -r '.processes[0] | "\(.requests) \(.hit_rate)"')"
	matches 'without a command observe --top is peerpin top' 'peerpin top: standard output is no terminal: *=> 2' \
		"$(outcome "$peerpin" observe --top)"
	exec 8>&- 9<&-
	wait $!
	same 'an observed process leaves no snapshot' '' "$(left)"
	ends 'only observe has this view' 2 'unknown option: --top' "$peerpin" --top true
	rm "$tmp/in" "$tmp/out" "$tmp"/observe.*
}

a_file_is_whole() {
	rm -f "$tmp"/observed.json* "$tmp/message"
	with PEERPIN_OBSERVE="$file" "$client" adapter allocated=1 limit=600 exit 2>"$tmp/message"
	same 'a full disk leaves no part of a file' '' "$(ls "$tmp"/observed.json* 2>/dev/null)"
	matches 'and one line about it' "*PEERPIN_OBSERVE=$file: no file written: File too large. *" "$(cat "$tmp/message")"
	same 'a process of a taken name writes another file' 'observed-1.json observed.json' "$(
		for number in 1 2; do with PEERPIN_OBSERVE="$file" "$client" adapter allocated=1 exit; done
		cd "$tmp" && echo observed*.json)"
	rm "$tmp"/observed*.json
}

the_report_explains() {
	observe allocated=2 synced sent=2 sent=2 held=1 free
	if [[ ! -x $build/src/tools/peerpin-report ]]; then
		skip 'the report: it is not built'
		return
	fi
	matches 'findings, worst first' '*findings*that outlived their memory: 1 (1.00 MiB), by client*->*registrations of a range*: 3 (3.00 MiB), by client; *of the run*->*never deregistered*' \
		"$("$peerpin" report "$file" | tr -s ' \n' ' ')"
	same 'findings as JSON' 'outlived repeated leaked' "$("$peerpin" report --json "$file" | jq -r '[.findings[].id] | join(" ")')"
	same 'their members' 'advice bytes caller count id ns text' \
		"$("$peerpin" report --json "$file" | jq -r '[.findings[0] | keys[]] | join(" ")')"
	same 'two processes add up' '6 2' "$("$peerpin" report --json "$file" "$file" | jq -r '"\(.findings[1].count) \(.processes)"')"
	mkdir "$tmp/folder" && cp "$file" "$tmp/folder/a.json" && cp "$file" "$tmp/folder/b.json" && echo other >"$tmp/folder/c"
	same 'those in a folder, and a file' '9 3' \
		"$("$peerpin" report --json "$tmp/folder" "$file" | jq -r '"\(.findings[1].count) \(.processes)"')"
	same 'a table of numbers' 'client 1 5 4' "$("$peerpin" report --csv "$file" | python3 -c '
import csv, sys
row = next(csv.DictReader(sys.stdin))
print(row["program"], row["processes"], row["registrations"], row["deregistrations"])')"
	matches 'a comparison' '*registrations 5 10 +100.0 %*' "$("$peerpin" report "$file" -- "$tmp/folder" | tr -s ' ')"
	observe allocated=1 host=1
	matches 'a program for which it is nothing' 'peerpin would save nothing here: it registers host memory alone.*' "$("$peerpin" report "$file")"
	echo '{}' >"$file.wrong"
	ends 'a file of another kind' 1 'not a file of peerpin observe' "$peerpin" report "$file" "$file.wrong"
	jq '.lost = -1' "$file" >"$file.wrong"
	ends 'a file with a wrong member' 1 'lost: not a number' "$peerpin" report "$file.wrong"
	jq '.registrations[0].ns = "x"' "$file" >"$file.wrong"
	ends 'a row with a wrong member' 1 'registrations[0]: a member is wrong' "$peerpin" report "$file.wrong"
}

findings_are_exact
counts_are_exact
no_call_changes
waits_are_the_driver_s
results_are_the_drivers
the_command_names_the_file
a_file_is_whole
the_page_has_findings_and_a_timeline
top_shows_it
served_runs_have_findings
the_report_explains
finish
