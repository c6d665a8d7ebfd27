#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_report.sh -- peerpin report over generated statistics: golden output, sums, advice, hostile
# input
# UPDATE=1 rewrites the golden files: read them line by line before the commit.
set -euo pipefail

here=$(dirname "$0")
# shellcheck source=tests/launcher/checks
. "$here/../launcher/checks"
command -v python3 >/dev/null && command -v jq >/dev/null || exit 77

report=$PWD/src/tools/peerpin-report
golden=$here/report
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/run"
export XDG_RUNTIME_DIR=$tmp/run LC_ALL=C.UTF-8 PEERPIN_SIM_SHM=$tmp/shm

# One process makes all jobs.
coproc RECORDS { exec python3 "$here/records.py"; }
exec {ask}>&"${RECORDS[1]}" {answer}<&"${RECORDS[0]}" # for subshells, too

# make_job NAME RANKS [TWIST...]: statistics in the folder NAME (records.py)
make_job() {
	mkdir -p "$tmp/$1"
	printf '%s\x1f' "$tmp/$1" "${@:2}" >&"$ask"
	echo >&"$ask"
	read -r <&"$answer"
}

# golden NAME RANKS [TWIST...]
golden() {
	local found

	make_job "$@"
	found=$(cd "$tmp" && outcome "$report" "$1")
	[[ -z ${UPDATE:-} ]] || printf '%s\n' "$found" >"$golden/$1.txt"
	same "the report of $1" "$(cat "$golden/$1.txt")" "$found"
}

options_and_statuses() {
	matches 'help begins with the usage' 'usage: peerpin report *=> 0' "$(outcome "$report" --help)"
	matches 'version' 'peerpin [0-9]*=> 0' "$(outcome "$report" --version)"
	same 'an unknown option' $'peerpin report: unknown option: --bogus (see peerpin report --help)\n=> 2' \
		"$(outcome "$report" --bogus)"
	matches 'an option without its value' '*missing value after --html *=> 2' "$(outcome "$report" --html)"
	matches '--json with --prometheus' '*one of --json and --prometheus*=> 2' "$(outcome "$report" --json --prometheus)"
	matches '--force alone' '*--force requires --html*=> 2' "$(outcome "$report" --force)"
	mkdir -m 700 "$tmp/run/peerpin"
	matches 'an empty runtime folder' "*this host has no snapshots of processes*=> 1" "$(outcome "$report")"
	same 'a missing file' "peerpin report: $tmp/missing: No such file or directory
=> 1" "$(outcome "$report" "$tmp/missing")"
	mkdir "$tmp/empty"
	matches 'an empty folder' '*a folder without statistics*=> 1' "$(outcome "$report" "$tmp/empty")"
}

golden_output() {
	golden one 1
	golden four 4
	golden troubled 4 '2:ended="killed"' '2:complete=false' '3:hits=1300' '3:synchronous=905' '3:evictions=880' \
		'*:never_used=6' '*:never_used_bytes=24576' '*:never_used_ns=1200000' \
		'*:histograms.never_used_bytes=[0,0,0,0,0,0,0,0,0,0,0,0,6]'
	golden wide 64 '17:hits=1100' '17:forwarded=1100' '17:forwarded_range=1100' '33:used=false' \
		'33:usage="not used: only host memory was registered"' '40:ended="killed"' \
		'41:registrations_failed=40' '41:failed_resources=40' '20:internal_errors=1' '21:internal_errors=2' \
		'22:internal_errors=1' '23:internal_errors=1'
	golden unused 2 '*:used=false' '*:usage="not used: the driver exports no dma-bufs, and nvidia-peermem is not loaded"' \
		'*:hits=0' '*:waited=0' '*:synchronous=0' '*:forwarded=2201' '*:forwarded_failed=2201' \
		'*:registrations=0' '*:registrations_failed=3' '*:failed_address=3' '*:pairs=[]' '*:histograms={}' \
		'*:pinned_bytes_peak=0'
	mkdir -p "$tmp/bin"
	printf '#!/bin/sh\n' >"$tmp/bin/lammps"
	chmod +x "$tmp/bin/lammps"
	matches 'a program of PATH is named alone' *$'-> peerpin doctor lammps\n'* "$(PATH=$tmp/bin:$PATH "$report" "$tmp/unused")"
	golden kept 4 '*:settings={"PEERPIN_KEEP":"4294967296"}' '*:kept=3000' '*:reused=2900' '*:kept_bytes_peak=2147483648' \
		'1:reused=300' '1:kept_released=2700' '3:kept_bytes_peak=17179869184' \
		'2:kept_host_bytes_peak=1073741824'
	golden no_ranks 2 '*:rank=null' '*:job=null'
	same 'a job of 4 ranks fits 24 lines' '' "$(awk 'END { if (NR > 24) print NR }' "$golden/four.txt")"
	same 'a wide job fits 48 lines' '' "$(awk 'END { if (NR > 48) print NR }' "$golden/wide.txt")"
	same 'no line is wider than 100 columns' '' "$(awk 'length > 100' "$golden"/*.txt)"
}

# Sums as jq computes them.
sums() {
	local json

	"$report" --json "$tmp/wide" >"$tmp/wide.json"
	for key in requests hits registrations background_ns pinned_bytes_peak; do
		same "the sum of $key" "$(jq -s "map(.$key) | add" "$tmp"/wide/*.json)" \
			"$(jq ".jobs[0].totals.$key" "$tmp/wide.json")"
		same "the spread of $key" "$(jq -cs "map(.$key) | sort | [.[0], .[31], .[63]]" "$tmp"/wide/*.json)" \
			"$(jq -c ".jobs[0].rows[] | select(.key == \"$key\") | [.min, .median, .max]" "$tmp/wide.json")"
	done
	same 'the sum of a histogram' \
		"$(jq -cs 'map(.histograms.allocation_bytes) | transpose | map(add)' "$tmp"/wide/*.json)" \
		"$(jq -c .jobs[0].histograms.allocation_bytes "$tmp/wide.json")"
	same 'standard deviation by mean of hits' \
		"$(jq -s 'map(.hits) | (add / length) as $mean | (map((. - $mean) * (. - $mean)) | add / length | sqrt) / $mean * 1000 | round' "$tmp"/wide/*.json)" \
		"$(jq '.jobs[0].rows[] | select(.key == "hits").variation_thousandths' "$tmp/wide.json")"
	same 'sums saturate' 9223372036854775807 \
		"$(make_job huge 2 '*:requests=9223372036854775807' && "$report" --json "$tmp/huge" | grep -o '"requests": [0-9]*' | head -1 | cut -d' ' -f2)"
}

schema() {
	local name

	if ! python3 -c 'import jsonschema' 2>/dev/null; then
		skip 'JSON against its schema: python3 has no jsonschema'
		return
	fi
	set --
	for name in one four troubled wide unused kept no_ranks hostile; do
		"$report" --json "$tmp/$name" >"$tmp/$name.now" 2>/dev/null || true
		set -- "$@" "$tmp/$name.now"
	done
	same 'JSON of each job' "$# valid" "$(python3 - "$here/../../docs/report.schema.json" "$@" 2>&1 <<'TEXT'
import json, sys
import jsonschema
for name in sys.argv[2:]:
    try:
        jsonschema.validate(json.load(open(name)), json.load(open(sys.argv[1])))
    except (ValueError, jsonschema.ValidationError) as error:
        print(name, error)
print(len(sys.argv) - 2, "valid")
TEXT
)"
}

# Each row of advice.def with a condition that triggers it.
triggers='
missed_frees 0:missed_frees=1
verify_disagreements 1:verify_disagreements=2
internal_errors 0:internal_errors=1
bypasses 0:bypasses=1
ucx_unhooked 0:ucx_unhooked=1
not_used *:used=false
no_requests *:used=false *:requests=0 *:hits=0
partly_used 2:used=false
killed 1:ended="killed"
killed_alone 0:ended="killed"
missing_ranks 3:rank=9
doubled_ranks 3:rank=2
failed 0:registrations_failed=2 0:failed_resources=2
deregistrations_failed 0:deregistrations_failed=1
untracked 0:untracked=1
forwarded_version 0:forwarded_version=1
forwarded_private 0:forwarded_private=1
sync_off 0:sync_off=1
sync_missing 0:sync_missing=1
forwarded_flags 0:forwarded_flags=1
forwarded_address 0:forwarded_address=1
forwarded_range 0:forwarded_range=1
forwarded_freed 0:forwarded_freed=1
forwarded_capability 0:forwarded_capability=1
forwarded_domain 0:forwarded_domain=1
forwarded_failed 0:forwarded_failed=1
forwarded_form 0:forwarded_form=1
forwarded_data_direct 0:forwarded_data_direct=1
forwarded_unknown 0:forwarded_unknown=1
forwarded_verify 0:forwarded_verify=1
over_pin_limit 0:over_pin_limit=3
never_used *:never_used=9
far_path 1:pairs=[{"gpu":1,"adapter":"mlx5_3","method":"dma-buf","path":"SYS","registrations":7}]
settings_differ 2:settings={"PEERPIN_PREREGISTER":"off"}
versions_differ 2:version="0.0.9"
'

advice() {
	local id twists json

	same 'a good run has no advice' '[]' "$("$report" --json "$tmp/four" | jq -c .jobs[0].advice)"
	same 'every row of advice.def has a trigger' \
		"$(sed -n 's/^ADVICE(\([a-z_]*\),.*/\1/p' "$here/../../src/tools/advice.def" | sort)" \
		"$(awk 'NF { print $1 }' <<<"$triggers" | sort)"
	while read -r id twists; do
		[[ -n $id ]] || continue
		read -ra words <<<"$twists"
		make_job "advice/$id" "$([[ $id == *_alone ]] && echo 1 || echo 4)" "${words[@]}"
		json=$("$report" --json "$tmp/advice/$id" | jq -r '.jobs[0].advice[] | "id " + .id, "text " + .text, "fix " + .fix')
		matches "advice $id" $'*\nid '"$id"$'\n*' $'\n'"$json"
		same "advice $id: no placeholder is left" '' "$(grep '[{}]' <<<"$json" || true)"
		same "advice $id: 1 has no plural" '' "$(grep -E '^text (.*[^0-9] )?1 [a-z]+s ' <<<"$json" || true)"
	done <<<"$triggers"
	make_job alone 1 '0:ended="killed"' '0:missed_frees=1'
	same 'one process has no outliers' '[]' "$("$report" --json "$tmp/alone" | jq -c .jobs[0].outliers)"
	make_job all_killed 3 '*:ended="killed"'
	same 'properties of all ranks are no outliers' '[]' "$("$report" --json "$tmp/all_killed" | jq -c .jobs[0].outliers)"
	make_job unnumbered 2 '*:rank=null' '*:job=null' '1:used=false' '1:usage="not used: no registration was requested"'
	matches 'processes without ranks are processes' \
		'*1 of 2 processes did not use GPUDirect RDMA: no registration was requested.*' "$("$report" "$tmp/unnumbered")"
}

# advice_of ID TWIST...: text and fix of an advice for 4 ranks
advice_of() {
	rm -rf "$tmp/advised"
	make_job advised 4 "${@:2}"
	"$report" --json "$tmp/advised" | jq -r ".jobs[0].advice[] | select(.id == \"$1\") | .text, .fix"
}

# Advice names only settings that are not in effect.
advice_that_helps() {
	matches 'exported dma-bufs are an attempt' '*not used: dma-bufs of GPU memory were exported, none was registered.*' \
		"$(advice_of not_used '*:used=false' '*:requests=0' '*:hits=0' '*:exports=1' \
			'*:usage="not used: dma-bufs of GPU memory were exported, none was registered"')"
	# check_hints.sh has all rows of tools/hints.def.
	matches 'a hint is for the sums of all ranks' '3 603 of 8 813 requests preceded their registration, *
PEERPIN_PREREGISTER=eager *' "$(advice_of early '*:synchronous=0' '*:synchronous_queued=900')"
	same 'a setting of one rank is in effect' '3 600 of 8 813 requests preceded their registration, as they follow the allocation at once.
allocate earlier' "$(advice_of early '*:waited=900' '2:settings={"PEERPIN_PREREGISTER":"eager"}')"
	for id in pin_limit over_pin_limit; do
		matches "$id: raise the pin limit that is set" '*
raise PEERPIN_PIN_LIMIT, *' "$(advice_of $id '*:synchronous=9' "*:evictions=$([[ $id == pin_limit ]] && echo 10 || echo 0)" \
			'*:over_pin_limit=3' '*:settings={"PEERPIN_PIN_LIMIT":"1G"}')"
		matches "$id: without a pin limit another limit applies" '*
PEERPIN_PIN_LIMIT is not set: *' "$(advice_of $id '*:synchronous=9' "*:evictions=$([[ $id == pin_limit ]] && echo 10 || echo 0)" '*:over_pin_limit=3')"
	done
	matches 'the fix is that of the most frequent reason' '12 registrations failed: 4 out of resources, 8 other reasons.
PEERPIN_LOG_LEVEL=info *' "$(advice_of failed '*:registrations_failed=3' '*:failed_resources=1' '*:failed_other=2')"
}

# Files may hold any number up to 2^63 - 1: no sum, product or share of counters wraps.
largest_counters() {
	local most=9223372036854775807 number

	for number in 125000000000000000 $most; do
		matches "all of $number registrations were never used" '* registrations were never used*' \
			"$(advice_of never_used '*:settings={}' "*:never_used=$number" "*:registrations=$number")"
	done
	matches 'the hint for all requests' '9 223 372 036 854 775 807 of 9 223 372 036 854 775 807 requests preceded * (0 longer)*' \
		"$(advice_of early '*:settings={}' "*:requests=$most" "*:waited=$most" "*:synchronous_queued=$most" \
			"*:synchronous=$most" "*:waited_ns=$most")"
	make_job largest 1 "*:requests=$most" "*:hits=$((most - 1))"
	"$report" --json "$tmp/largest" >"$tmp/largest.json"
	matches 'not every request hit' '9 *99.99 %' "$(jq '.jobs[0].totals.hits' "$tmp/largest.json" | cut -c1) $("$report" "$tmp/largest" | grep '^  hit rate')"
}

# outliers_of TWIST...: of a job of four ranks
outliers_of() {
	rm -rf "$tmp/odd_ones"
	make_job odd_ones 4 "$@"
	"$report" --json "$tmp/odd_ones" | jq -r '.jobs[0].outliers[].text'
}

outliers() {
	same 'one rank with missed frees' 'rank 2: missed frees 3 (median 0)' "$(outliers_of '2:missed_frees=3')"
	same 'missed frees of all ranks are no outlier' '' "$(outliers_of '*:missed_frees=3')"
	same 'ranks are grouped by reason' 'rank 1: not used: only host memory was registered
ranks 2, 3: not used: no registration was requested' "$(outliers_of '1:used=false' '2:used=false' '3:used=false' \
		'1:usage="not used: only host memory was registered"' '2:usage="not used: no registration was requested"' \
		'3:usage="not used: no registration was requested"')"
	make_job software 2 '*:used=false' '0:usage="not used: software adapter rxe0; dma-buf; 2.0 MiB registered at peak"' \
		'1:usage="not used: software adapter rxe0; dma-buf; 4.0 MiB registered at peak"'
	same 'the bytes of each process are no reason of their own' 'not used: software adapter rxe0; dma-buf' \
		"$("$report" --json "$tmp/software" | jq -r '.jobs[0].usage'; "$report" "$tmp/software" | grep 'others: other')"
	same 'nor of a group' 'ranks 1, 2: not used: software adapter rxe0; dma-buf' "$(outliers_of '1:used=false' '2:used=false' \
		'1:usage="not used: software adapter rxe0; dma-buf; 2.0 MiB registered at peak"' \
		'2:usage="not used: software adapter rxe0; dma-buf; 4.0 MiB registered at peak"')"
	make_job unhit 2 '*:hits=0' '*:usage="no request hit: dma-buf; mlx5_0; 2.0 MiB registered at peak"'
	matches 'registrations without a hit are no use' '*GPUDirect RDMA   no request hit, registrations by all 2 ranks: dma-buf*' \
		"$("$report" "$tmp/unhit")"
	same 'one of several reasons is marked as such' \
		'2 of 4 ranks did not use GPUDirect RDMA: only host memory was registered (others: other reasons).' \
		"$(advice_of partly_used '1:used=false' '1:usage="not used: only host memory was registered"' '2:used=false' \
			'2:usage="not used: no registration was requested"' | head -1)"
	same 'a process with requests on host memory precedes one without requests' \
		'2 of 4 ranks did not use GPUDirect RDMA: only host memory was registered (others: other reasons).' \
		"$(advice_of partly_used '1:used=false' '1:requests=0' '1:host_requests=0' \
			'1:usage="not used: no registration was requested"' '2:used=false' '2:requests=0' '2:host_requests=3' \
			'2:usage="not used: only host memory was registered"' | head -1)"
	same 'requests on host memory are requests: the first reason with one is shown' \
		'2 of 4 ranks did not use GPUDirect RDMA: only host memory was registered (others: other reasons).' \
		"$(advice_of partly_used '1:used=false' '1:requests=0' '1:host_requests=3' \
			'1:usage="not used: only host memory was registered"' '2:used=false' '2:requests=0' '2:host_requests=3' \
			'2:usage="not used: no method works"' | head -1)"
	rm -rf "$tmp/paths"
	make_job paths 2 '1:pairs=[{"gpu":0,"adapter":"mlx5_0","method":"dma-buf","path":"SYS","registrations":7}]'
	same 'equal GPU numbers with different paths are two pairs' '["PIX 24","SYS 7"]' \
		"$("$report" --json "$tmp/paths" | jq -c '[.jobs[0].pairs[] | "\(.path) \(.registrations)"]')"
	rm -rf "$tmp/ended"
	make_job ended 2 '1:ended="killed"' '1:elapsed_ns=1000'
	matches 'with a killed process the elapsed time is a lower bound' '*2 processes on node1  at least 61.3 s  1 killed*' \
		"$("$report" "$tmp/ended")"
}

together() {
	make_job runs 3 '*:rank=null' '*:job=null' '*:started_ns=1000000000000' '*:elapsed_ns=5000000000' \
		'1:started_ns=1004000000000' '2:started_ns=1011000000000'
	same 'without a job name, processes of one time form a job' '[2,1]' \
		"$("$report" --json "$tmp/runs" | jq -c '[.jobs[].processes]')"
	make_job soon 2 '*:rank=null' '*:job=null' '*:started_ns=1000000000000' '*:elapsed_ns=5000000000' '1:started_ns=1005000000001'
	same 'runs one after another are two jobs' '[1,1]' "$("$report" --json "$tmp/soon" | jq -c '[.jobs[].processes]')"
	make_job soon 2 '*:rank=null' '*:job=null' '*:started_ns=1000000000000' '*:elapsed_ns=5000000000' '1:started_ns=1005000000001' '0:ended="killed"'
	same 'the end of a killed process is uncertain' '[2]' "$("$report" --json "$tmp/soon" | jq -c '[.jobs[].processes]')"
	make_job named 2 '*:rank=null' '1:started_ns=99000000000000'
	same 'with a job name, start times do not matter' '[2]' "$("$report" --json "$tmp/named" | jq -c '[.jobs[].processes]')"
}

several_jobs() {
	mkdir "$tmp/jobs"
	python3 "$here/records.py" "$tmp/jobs" 2 '*:job="first"'
	for file in "$tmp"/jobs/*.json; do mv "$file" "${file%.json}-first.json"; done
	python3 "$here/records.py" "$tmp/jobs" 2 '*:job="second"' '*:started_ns=1' '1:program="other"'
	same 'a section for each job and program' '["first lammps 2","second lammps 1","second other 1"]' \
		"$("$report" --json "$tmp/jobs" | jq -c '[.jobs[] | "\(.job) \(.program) \(.processes)"]')"
	same 'a process with two files counts once' 4 \
		"$("$report" --json "$tmp/four" "$tmp"/four/*.json | jq .jobs[0].processes)"
}

prometheus() {
	local text

	text=$("$report" --prometheus "$tmp/jobs")
	same 'every line has the format' '' "$(grep -vE \
		'^# (HELP peerpin_[a-z0-9_]+ .+|TYPE peerpin_[a-z0-9_]+ (counter|gauge|histogram))$|^peerpin_[a-z0-9_]+\{job_id="[a-z]+",program="[a-z]+"(,[a-z]+="[A-Za-z0-9_+-]+")*\} [0-9]+$' \
		<<<"$text" || true)"
	same 'each name has one TYPE line' '' "$(grep '^# TYPE' <<<"$text" | sort | uniq -d)"
	same 'a sum' "peerpin_requests_total{job_id=\"first\",program=\"lammps\"} $(jq -s 'map(.requests) | add' "$tmp"/jobs/*-first.json)" \
		"$(grep '^peerpin_requests_total{job_id="first"' <<<"$text")"
	same 'pinned bytes are a gauge' '# TYPE peerpin_pinned_bytes gauge' "$(grep 'TYPE peerpin_pinned_bytes ' <<<"$text")"
}

# Runs of one program without a job name have different series, by start time.
unnamed_runs() {
	local text

	text=$("$report" --prometheus "$tmp/runs")
	same 'each series has one line' '' "$(sed 's/ [0-9]*$//' <<<"$text" | grep -v '^#' | sort | uniq -d)"
	same 'runs without a job name have their start time' 'peerpin_processes{started_ns="1000000000000",program="lammps"} 2
peerpin_processes{started_ns="1011000000000",program="lammps"} 1' "$(grep '^peerpin_processes{' <<<"$text")"
}

# hostile NAME REASON CONTENT: the report names file and reason, exits with 1, and still has the
# good file
hostile() {
	printf '%s' "$3" >"$tmp/hostile/bad.json"
	matches "$1: name and reason" "*$tmp/hostile/bad.json: $2*=> 1" "$(outcome "$report" "$tmp/hostile")"
	same "$1: the good file counts, and JSON has the problem" $'1\nbad.json' \
		"$("$report" --json "$tmp/hostile" 2>/dev/null | jq -r '.jobs[0].processes, (.problems[0].file | split("/")[-1])')"
}

# twisted NAME REASON FILTER: the good record, damaged by a filter of jq. jq would write the start
# time with an exponent.
twisted() {
	hostile "$1" "$2" "$(jq -c ".started_ns = 1 | $3" "$tmp/one/0000.json")"
}

hostile_input() {
	make_job hostile 1
	jq -c '.started_ns = 1' "$tmp/one/0000.json" >"$tmp/good.json"
	matches 'the undamaged record is accepted' '*=> 0' "$(outcome "$report" "$tmp/good.json")"
	hostile 'an empty file' 'empty: ' ''
	hostile 'a truncated file' 'truncated' "$(head -c 700 "$tmp/one/0000.json")"
	hostile 'a list' 'not statistics of peerpin' '[]'
	hostile 'a number' 'invalid JSON' '1e300'
	hostile 'no schema' 'not statistics of peerpin' '{}'
	hostile 'a number as schema' 'not statistics of peerpin' '{"schema": 7}'
	twisted 'another version' 'version peerpin-stats/2: ' '.schema = "peerpin-stats/2"'
	twisted 'no process' 'pid: not' 'del(.pid)'
	twisted 'a text as counter' 'hits: not' '.hits = "many"'
	twisted 'a negative counter' 'hits: not' '.hits = -1'
	twisted 'a negative unknown counter' 'new_counter: not' '.new_counter = -1'
	twisted 'a fraction' 'hits: not' '.hits = 0.5'
	hostile 'a huge number' 'hits: not' "$(sed 's/"hits": [0-9]*/"hits": 1e300/' "$tmp/one/0000.json")"
	hostile 'an integer that is too large' 'invalid JSON' "$(sed 's/"hits": [0-9]*/"hits": 99999999999999999999/' "$tmp/one/0000.json")"
	twisted 'a list as program' 'program: not' '.program = []'
	twisted 'a null as host' 'host: not' '.host = null'
	twisted 'a negative rank' 'rank: not' '.rank = -3'
	twisted 'a number as list of pairs' 'pairs: not' '.pairs = 4'
	twisted 'pairs of texts' 'pairs\[0\]: not' '.pairs = ["a"]'
	twisted 'a list that is far too long' 'pairs: longer' '.pairs = [range(100000) | {gpu: ., adapter: "a", method: "m", path: null, registrations: 0}]'
	twisted 'a histogram of too many entries' 'histograms: ' '.histograms.free_ns = [range(65)]'
	twisted 'a histogram of negative entries' 'histograms: ' '.histograms.free_ns = [-1]'
	twisted 'an object as histogram' 'histograms: ' '.histograms.free_ns = {}'
	twisted 'settings that are a list' 'settings: ' '.settings = []'
	twisted 'a pair without its adapter' 'pairs\[0\].adapter: not' '.pairs = [{gpu: 1}]'
	twisted 'a GPU below 0' 'pairs\[0\].gpu: not' '.pairs[0].gpu = -1'
	hostile 'a duplicate key' 'invalid JSON' '{"schema": "peerpin-stats/1", "schema": "peerpin-stats/1"}'
	hostile 'deep nesting' '' "$(printf '[%.0s' {1..5000})"
	hostile 'bytes that are not UTF-8' 'invalid JSON' $'{"schema": "\xff\xfe"}'
	head -c 100000 /dev/urandom >"$tmp/garbage.json"
	matches 'garbage' "*garbage.json: *=> 1" "$(outcome "$report" "$tmp/garbage.json")"
	{ printf PEERPIN1 && head -c 300000 /dev/zero; } >"$tmp/zeros.stats"
	matches 'counters of an older version' '*zeros.stats: counters of peerpin 0.3 or older: *=> 1' "$(outcome "$report" "$tmp/zeros.stats")"
	truncate -s 40M "$tmp/large.json"
	matches 'a file above 16 MiB' '*large.json: larger than*=> 1' "$(outcome "$report" "$tmp/large.json")"
	mkfifo "$tmp/fifo.json"
	matches 'a FIFO' '*fifo.json: not a regular file*=> 1' "$(outcome timeout 120 "$report" "$tmp/fifo.json")"
	make_job odd 2 '*:program="\u001b[31mred\u009b"' '*:host="a\nb\u202e\u2069"' '0:elapsed_ns=0' '*:started_ns=9223372036854775807' \
		'*:rank=9223372036854775807' '*:usage="used: \u0007\u007f"' '*:settings={"PEERPIN_TRACE_FILE": "\u007f\u0085"}' \
		'*:pairs=[{"gpu": 0, "adapter": "m\u001b\u009bx", "method": "d\u007f", "path": "P\n", "registrations": 1}]'
	for form in '' --json --prometheus "--html=$tmp/odd.html"; do
		found=$("$report" $form "$tmp/odd")
		[[ $form != --html* ]] || found=$(grep -F '31mred' "$tmp/odd.html")
		matches "a record with control characters is reported ($form)" '*31mred*' "$found"
		same "no control character reaches the terminal ($form)" '' \
			"$(LC_ALL=C grep -P '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]' <<<"$found" || true)"
		same "no control character is in a line's escapes ($form)" '' \
			"$(grep -iE '\\u(00(0|1|7f|8|9)|061c|200[ef]|202|206)' <<<"$found" || true)"
	done
	twisted 'a name with control characters' "a member's name has control characters" '.settings = {"a\u0007": ""}'
	for option in --help --version; do
		for tool in report top; do
			matches "a full disk for $option of $tool" "peerpin $tool: standard output: No space left on device*=> 1" \
				"$(outcome bash -c "'${report%report}$tool' $option >/dev/full")"
		done
	done
	printf '[\n{"ph":"M","name":"process_name","pid":1}\n' >"$tmp/trace.json"
	same 'a trace' "peerpin report: $tmp/trace.json: a trace: open it in Perfetto (ui.perfetto.dev)
=> 1" "$(outcome "$report" "$tmp/trace.json")"
	printf '# HELP peerpin_allocations_total allocations\n' >"$tmp/job.prom"
	same "Prometheus' text" "peerpin report: $tmp/job.prom: Prometheus text: a report requires JSON
=> 1" "$(outcome "$report" "$tmp/job.prom")"
	matches 'a full disk' '*standard output: No space left*=> 1' "$(outcome bash -c "'$report' '$tmp/four' >/dev/full")"
}

options_and_statuses
golden_output
sums
several_jobs
prometheus
advice
advice_that_helps
largest_counters
outliers
together
unnamed_runs
hostile_input
schema
finish
