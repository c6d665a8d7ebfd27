#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_forms.sh -- files of the library: names, JSON, trace; Prometheus text of the report
set -euo pipefail

# shellcheck source=tests/tools/preloaded
. "$(dirname "$0")/preloaded"
source=$(readlink -f "$here/../..")

# Names: rank and number before the extension, in the folder of the start; no file beside a device.
names() {
	local text before copies=0

	mkdir "$tmp/names" "$tmp/names/elsewhere"
	(
		cd "$tmp/names"
		export OMPI_COMM_WORLD_RANK=3 PEERPIN_SUMMARY=none
		with PEERPIN_STATS_FILE=job.json "$client" adapter allocated=2 sent=1 exit
		with PEERPIN_STATS_FILE=job.json "$client" adapter allocated=3 sent=1 exit
		with PEERPIN_STATS_FILE=job PEERPIN_TRACE_FILE=trace.json "$client" adapter allocated=4 sent=1 exit
		unset OMPI_COMM_WORLD_RANK
		with PEERPIN_STATS_FILE=moved.json "$client" allocated=5 to=elsewhere exit
		with PEERPIN_STATS_FILE=moved.json PEERPIN_LOG_FILE=moved.log PEERPIN_LOG_LEVEL=info PEERPIN_TRACE_FILE=moved.trace \
			"$client" to=elsewhere allocated=6 to=/ exit
		echo 'PEERPIN_STATS_FILE = moved_by_file.json' >moved.conf
		with PEERPIN_CONFIG_FILE=moved.conf "$client" to=elsewhere allocated=7 exit
		with PEERPIN_STATS_FILE=a.b/job "$client" allocated=1 exit 2>/dev/null
	)
	same 'a rank and a number come before the extension' \
		'elsewhere job.3 job.3-1.json job.3.json moved-1.json moved.conf moved.json moved.log moved.trace moved_by_file.json trace.3.json ' \
		"$(cd "$tmp/names" && printf '%s ' *)"
	same 'statistics, log and trace are in the folder of the start, wherever the program goes before its first allocation' '' "$(ls "$tmp/names/elsewhere")"
	same 'so is a file of settings' 7 "$(number allocations "$tmp/names/moved_by_file.json")"
	same 'numbers are in the order of the runs' '2 3 5 6' \
		"$(cd "$tmp/names" && for file in job.3.json job.3-1.json moved.json moved-1.json; do number allocations $file; done | xargs)"
	rm -rf "$tmp/names"/moved*
	cp "$tmp/names/job.3.json" "$tmp/names/partial.json.partial.12.34"
	for old in old.json.3 old.json-1 old.json.3-1; do
		sed "s/\"pid\": /&1$((++copies))/" "$tmp/names/job.3.json" >"$tmp/names/$old"
	done
	if [[ -x src/tools/peerpin-report ]]; then
		same 'a report of the folder finds all, also names of older versions' '5 {"problems":0}' \
			"$(src/tools/peerpin-report --json "$tmp/names" 2>&1 | python3 -c '
import json,sys
report = json.load(sys.stdin)
print(sum(job["processes"] for job in report["jobs"]), json.dumps({"problems": len(report["problems"])}).replace(" ", ""))')"
	fi

	# Other processes add and remove devices; a file of the library would be a regular one.
	before=$(find /dev -maxdepth 1 -type f | sort)
	text=$(PEERPIN_SUMMARY=none PMIX_RANK=4 with PEERPIN_STATS_FILE=/dev/stdout "$client" adapter allocated=7 sent=1 exit)
	same 'statistics on standard output' 7 "$(number allocations /dev/stdin <<<"$text")"
	text=$(PEERPIN_SUMMARY=none with PEERPIN_LOG_LEVEL=info PEERPIN_LOG_FILE=/dev/stderr "$client" adapter allocated=7 sent=1 exit 2>&1 >/dev/null)
	matches 'the log on standard error' '*<info>*settings other than the defaults*' "$text"
	text=$(PEERPIN_SUMMARY=none with PEERPIN_LOG_LEVEL=info PEERPIN_LOG_FILE=/dev/stdout "$client" adapter allocated=7 sent=1 exit 2>/dev/null)
	matches 'the log on standard output' '*<info>*settings other than the defaults*' "$text"
	mkfifo "$tmp/names/fifo"
	export PEERPIN_SUMMARY=none
	for file in /dev/null "$tmp/names/fifo" "$tmp/names/elsewhere"; do
		matches "no statistics in $file" \
			"peerpin: <warn>*PEERPIN_STATS_FILE=$file: no statistics written: there is something of that name already which is no regular file. *" \
			"$(with PEERPIN_STATS_FILE="$file" "$client" adapter allocated=1 exit 2>&1)"
		matches "no log in $file" "*<warn>*PEERPIN_LOG_FILE=$file cannot be written: there is something*=> 0" \
			"$(outcome with PEERPIN_LOG_LEVEL=info PEERPIN_LOG_FILE="$file" "$client" adapter allocated=1 exit)"
		matches "no trace in $file" "*<warn>*PEERPIN_TRACE_FILE=$file: there is something*=> 0" \
			"$(outcome with PEERPIN_TRACE_FILE="$file" "$client" adapter allocated=1 exit)"
	done
	matches "Prometheus' text is the report's" "peerpin: <warn>*PEERPIN_STATS_FILE=$tmp/names/job.prom: no statistics written: *'peerpin report --prometheus' *" \
		"$(with PEERPIN_STATS_FILE="$tmp/names/job.prom" "$client" adapter allocated=1 exit 2>&1)"
	same 'no file of that name' '' "$(find "$tmp/names" -name '*.prom*')"
	matches 'no statistics of a rank in /dev/null' '*PEERPIN_STATS_FILE=/dev/null: no statistics written*' \
		"$(PMIX_RANK=4 with PEERPIN_STATS_FILE=/dev/null "$client" adapter allocated=1 exit 2>&1)"
	unset PEERPIN_SUMMARY
	same 'no new file beside the devices' "$before" "$(find /dev -maxdepth 1 -type f | sort)"
	same 'no new file beside the FIFO' 'elsewhere fifo ' \
		"$(cd "$tmp/names" && printf '%s ' elsewhere* fifo*)"
}

# The program's own files have the numbers of its standard streams: nothing of the library's is in them.
own_files() {
	local setting

	mkdir "$tmp/own"
	cd "$tmp/own"
	for setting in A=1 PEERPIN_SUMMARY=line PEERPIN_{STATS,LOG,TRACE}_FILE=/dev/stdout PEERPIN_{STATS,LOG,TRACE}_FILE=/dev/stderr; do
		with PEERPIN_LOG_LEVEL=info "$setting" "$client" own adapter allocated=3 sent=1 exit
		with PEERPIN_LOG_LEVEL=info "$setting" "$client" adapter allocated=3 sent=1 own exit >/dev/null 2>&1
		with PEERPIN_LOG_LEVEL=info "$setting" "$client" own adapter allocated=3 sent=1 exit >&- 2>&-
		same "the program's own files, with $setting" '0 0' "$(stat -c %s own-1 own-2 | xargs)"
	done
	with PEERPIN_SUMMARY=table PEERPIN_LOG_FILE=log "$client" own adapter allocated=3 sent=1 exit
	matches 'the table is in the log file then' 'peerpin *process*requests*' "$(cat log)"
	cd "$build"
}

# kept FILE: allocations, processes, killed, running in its report
kept() {
	"$build/src/tools/peerpin-report" --json "$1" | python3 -c '
import json,sys
job = json.load(sys.stdin)["jobs"][0]
print(job["totals"]["allocations"], job["processes"], job["killed"], job["running"])'
}

# If the statistics file cannot be written, the last snapshot stays.
unwritten() {
	local text where rank

	afresh
	text=$(for rank in 0 1 2; do
		OMPI_COMM_WORLD_RANK=$rank PMIX_NAMESPACE=job8 with PEERPIN_SUMMARY=none PEERPIN_STATS_FILE=/nowhere/%r.json \
			"$client" adapter allocated=9 exit 2>&1
	done)
	matches 'one rank of a host logs the failure' '*<warn>*PEERPIN_STATS_FILE=/nowhere/0.json: no statistics *' "$text"
	afresh
	text=$(with PEERPIN_SUMMARY=none PEERPIN_STATS_FILE=/nowhere/x "$client" adapter allocated=9 exit 2>&1)
	matches 'the warning names the file and the place of the statistics' \
		"*<warn>*PEERPIN_STATS_FILE=/nowhere/x: no statistics written: No such file or directory. Name a file *. The statistics are in $tmp/run/peerpin/*.stats: read them with peerpin report." \
		"$text"
	where=${text#* statistics are in } where=${where%%: read them*}
	same 'no other file is left' "$where" "$(find "$tmp/run" -type f)"
	[[ ! -x src/tools/peerpin-report ]] || same 'the last snapshot has the counts' '9 1 0 0' "$(kept "$where")"
	afresh
	OMPI_COMM_WORLD_RANK=0 PMIX_NAMESPACE=job9 with PEERPIN_STATS_FILE=/nowhere/x "$client" adapter allocated=3 sent=1 exit >/dev/null 2>&1
	with PEERPIN_SUMMARY=none PEERPIN_STATS_FILE="$tmp/rank1.json" OMPI_COMM_WORLD_RANK=1 PMIX_NAMESPACE=job9 "$client" adapter allocated=4 exit
	[[ ! -x src/tools/peerpin-report ]] || same 'a report of the other ranks adds it' '7 2 0 0' "$(kept "$tmp/rank1.1.json")"
}

# Records of a single process, a rank, both methods, a killed process and a running one.
valid_records() {
	local -A ranks=()

	if ! python3 -c 'import jsonschema' 2>/dev/null; then
		skip 'no jsonschema for Python'
		return
	fi
	with PEERPIN_SUMMARY=none PEERPIN_SIM_ADAPTER_DMABUF=0 PEERPIN_STATS_FILE="$tmp/peer.json" "$client" adapter allocated=1 sent=1 exit
	afresh
	start 1
	cp "$tmp"/run/peerpin/*.stats "$tmp/runs.json"
	end 1
	same 'every kind of record matches the schema' '' "$(cd "$tmp" && python3 - \
		"$source/docs/stats.schema.json" exit.json form.5.json peer.json runs.json <<-'PYTHON' 2>&1 | tail -n 3
		import copy, glob, json, jsonschema, sys
		schema = json.load(open(sys.argv[1]))
		records = {name: json.load(open(name)) for pattern in sys.argv[2:] for name in glob.glob(pattern)}
		for name, record in records.items():
		    jsonschema.validate(record, schema)
		alone, rank, peer = (records[name] for name in ("exit.json", "form.5.json", "peer.json"))
		assert alone["rank"] is alone["job"] is None and (rank["rank"], rank["job"]) == (5, "job5")
		assert peer["pairs"][0]["method"] == "peer memory" and rank["pairs"][0]["path"] == "none"
		assert (records["runs.json"]["ended"], records["runs.json"]["complete"]) == ("running", False)
		# The schema rejects each of these changes.
		def refused(change):
		    twisted = copy.deepcopy(rank)
		    change(twisted)
		    try:
		        jsonschema.validate(twisted, schema)
		    except jsonschema.ValidationError:
		        return True
		changes = [
		    lambda record: record.update(rank=-1), lambda record: record.update(job=5), lambda record: record.pop("hits"),
		    lambda record: record.update(ended="gone"), lambda record: record["pairs"][0].update(path=""),
		    lambda record: record["pairs"][0].update(method="by foot"), lambda record: record["pairs"][0].pop("adapter"),
		    lambda record: record["histograms"].pop("wait_ns"), lambda record: record.update(unknown=1),
		]
		for number, change in enumerate(changes):
		    assert refused(change), number
	PYTHON
	)"
}

# Waits and evictions are in the trace, once each.
trace_of_waits() {
	local spans='
import collections, json, sys
record, events = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
spans = [event for event in events if event["ph"] == "X"]
count = collections.Counter(event["name"] for event in spans)
print(*(f"{count[name]} of {record[key]}" for name, key in (("wait", "waited"), ("evict", "evictions"))),
      *sorted({event["args"]["outcome"] for event in spans if event["name"] in ("wait", "evict")}),
      min(event["dur"] for event in spans if event["name"] in ("wait", "evict")) > 0)'

	with PEERPIN_SUMMARY=none PEERPIN_STATS_FILE="$tmp/waits.json" PEERPIN_TRACE_FILE="$tmp/waits.trace" "$client" adapter allocated=1 sent=1 waited exit
	same 'a wait is in the trace' '1 of 1 0 of 0 served True' "$(python3 -c "$spans" "$tmp/waits.json" "$tmp/waits.trace")"
	with PEERPIN_SUMMARY=none PEERPIN_PREREGISTER=off PEERPIN_PIN_LIMIT=2M PEERPIN_STATS_FILE="$tmp/evicts.json" PEERPIN_TRACE_FILE="$tmp/evicts.trace" \
		"$client" adapter allocated=5 sent=5 exit
	same 'an eviction is in the trace' '0 of 0 3 of 3 done True' "$(python3 -c "$spans" "$tmp/evicts.json" "$tmp/evicts.trace")"
}

prometheus() {
	same 'Prometheus: all that JSON has, each family once, with help, type and values' '' "$(python3 - <(src/tools/peerpin-report --prometheus "$tmp/form.5.json") "$tmp/form.5.json" <<-'PYTHON' 2>&1 | tail -n 3
		import json, re, sys
		text = open(sys.argv[1]).read()
		record = json.load(open(sys.argv[2]))
		assert text.endswith("\n")
		types, values, name = {}, {}, None
		for line in text.splitlines():
		    if line.startswith("# HELP "):
		        name = line.split()[2]
		        assert name not in types, name
		    elif line.startswith("# TYPE "):
		        assert line.split()[2] == name
		        types[name] = line.split()[3]
		        assert types[name] in ("counter", "gauge", "histogram"), line
		        assert (types[name] == "counter") == name.endswith("_total"), name
		    else:
		        match = re.fullmatch(r'(\w+)\{((?:\w+="[^"]*",?)+)\} (\d+)', line)
		        end = "(_bucket|_sum|_count)" if types[name] == "histogram" else ""
		        assert match and re.fullmatch(name + end, match[1]), line
		        labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2]))
		        assert [labels.pop(key) for key in ("program", "job_id")] == [record["program"], record["job"]], line
		        series = (match[1], *sorted(labels.items()))
		        assert series not in values, line
		        values[series] = int(match[3])

		def number(name, **labels):
		    return values.pop(("peerpin_" + name, *sorted(labels.items())))

		def same(key, found, wanted):
		    assert key.endswith("_ns") or found == wanted, (key, found, wanted)
		    return found

		for key, value in record.items():
		    if type(value) is int and key not in ("pid", "pid_namespace", "start_ticks", "rank", "local_rank", "started_ns", "elapsed_ns"):
		        same(key, number(key if "peerpin_" + key in types else key + "_total"), value)
		assert [number("processes" + end) for end in ("", "_running", "_killed", "_used")] == [1, 0, 0, record["used"]]
		sums = {"allocation_bytes": record["allocated_bytes"], "used_bytes": (2 << 20) + 70000, "never_used_bytes": 0}
		for key, buckets in record["histograms"].items():
		    name, below, found = key + "_distribution", 0, 0
		    assert types["peerpin_" + name] == "histogram"
		    total = number(name + "_count")
		    assert number(name + "_bucket", le="+Inf") == same(key, total, sum(buckets))
		    same(key, number(name + "_sum"), sums.get(key))
		    for i in range(64):
		        below += sum(buckets[i:i + 1])
		        series = ("peerpin_" + name + "_bucket", ("le", str((2 << i) - 1)))
		        if series in values:
		            assert found <= values[series] <= total
		            found = same(key, values.pop(series), below)
		        else:
		            assert key.endswith("_ns") or below in (0, total), (key, i)
		for pair in record["pairs"]:
		    same("pair", number("pair_registrations_total", gpu=str(pair["gpu"]), adapter=pair["adapter"], method=pair["method"], host=record["host"],
		                        path=pair["path"] or ""), pair["registrations"])
		assert record["pairs"] and sum(record["histograms"]["used_bytes"]) == 3
		assert not values, values
	PYTHON
	)"
}

forms() {
	local kinds

	same 'docs/stats.schema.json is up to date' '' \
		"$(python3 "$here/schema.py" "$source/src/report/statistics.def" | diff - "$source/docs/stats.schema.json")"
	PMIX_RANK=5 PMIX_NAMESPACE=job5 with PEERPIN_SUMMARY=none PEERPIN_PREREGISTER=off PEERPIN_STATS_FILE="$tmp/form.json" \
		"$client" adapter allocated=2 sent=2 sent=1 size=70000 allocated=3 sent=1 host=1 exit
	[[ ! -x src/tools/peerpin-report ]] || prometheus
	valid_records
	with PEERPIN_SUMMARY=none PEERPIN_TRACE_FILE="$tmp/a.trace" "$client" adapter allocated=1 sent=1 allocated=3 settled sent=1 free exit
	# The worker may have begun with what a request needs.
	kinds=$(python3 -c '
import collections, json, sys
events = json.load(open(sys.argv[1]))
print(sorted(collections.Counter((e["ph"], e["name"]) for e in events if e["ph"] != "C" and e["name"] != "wait").items()))' "$tmp/a.trace")
	same 'the trace has each event' "[(('M', 'process_name'), 1), (('M', 'thread_name'), 2), (('X', 'deregister'), 4), (('X', 'register'), 4), (('b', 'device memory'), 4), (('e', 'device memory'), 4), (('i', 'exit'), 1)]" "$kinds"
	same 'the trace has the names of the threads of its registrations' "['client', 'peerpin-worker']" "$(python3 -c '
import json, sys
events = json.load(open(sys.argv[1]))
threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
print(sorted({threads[e["tid"]] for e in events if e["name"] == "register"}))' "$tmp/a.trace")"
	(with PEERPIN_SUMMARY=none PEERPIN_TRACE_FILE="$tmp/b.trace" "$client" adapter allocated=1 sent=1 allocated=3 settled kill) 2>/dev/null || :
	same 'the trace of a killed process lacks only its end' 8 "$(python3 -c '
import json, sys
events = json.loads(open(sys.argv[1]).read().rstrip(",\n") + "]")
print(sum(e["ph"] not in "CM" for e in events))' "$tmp/b.trace")"
}

mkdir "$tmp/run"
with PEERPIN_SUMMARY=none PEERPIN_STATS_FILE="$tmp/exit.json" "$client" adapter allocated=1 sent=1 allocated=19 settled sent=6 free exit
names
own_files
unwritten
forms
trace_of_waits
finish
