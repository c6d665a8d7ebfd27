#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_statistics.sh -- what the library leaves: table, JSON, Prometheus' text, trace; whatever ends the process
set -euo pipefail

here=$(dirname "$0")
# shellcheck source=tests/launcher/checks
. "$here/../launcher/checks"
command -v python3 >/dev/null || exit 77

build=$PWD
client=$PWD/tests/tools/client
[[ ! -x tests/tools/.libs/client ]] || client=$PWD/tests/tools/.libs/client
library=$(readlink -f src/.libs/libpeerpin.so)
source=$(readlink -f "$here/../..")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export XDG_RUNTIME_DIR=$tmp/run LC_ALL=C.UTF-8
for name in ${!PEERPIN_@} ${!OMPI_@} ${!PMI@} ${!SLURM_@}; do unset "$name"; done
export PEERPIN_SIM_SHM=$tmp/shm # where no other processes of this user are

# A runtime folder that nobody has used.
afresh() {
	rm -rf "$tmp/run"
	mkdir "$tmp/run"
}

# with [NAME=VALUE...] PROGRAM ARGUMENT...: under the library, over the simulated driver and adapter
with() {
	env LD_LIBRARY_PATH="$build/src/sim/adapter/.libs:$build/src/sim/.libs" LD_PRELOAD="$library" \
		PEERPIN_EAGER=all "$@"
}

left() {
	find "$tmp/run" -type f -printf '%f\n' | sed 's/[0-9]\{1,\}\.stats/PID.stats/' | sort | tr '\n' ' '
}

# number NAME FILE
number() {
	python3 -c 'import json,sys; print(json.load(open(sys.argv[2]))[sys.argv[1]])' "$1" "$2"
}

at_exit() {
	local table long

	afresh
	table=$(with PEERPIN_STATS="$tmp/exit.json" "$client" adapter born=1 sent=1 born=19 settled sent=6 free exit 2>&1)
	matches 'the first line names version, program and process' \
		'peerpin [0-9]*  client  host *  process [0-9]*' "${table%%$'\n'*}"
	matches 'the second one answers the first question' *$'\nGPUDirect RDMA   used: dma-buf; sim0; 20.0 MiB registered at peak\n'* "$table"
	matches 'allocations' *$'\nallocations            20 born  20 freed  0 unseen frees\n'* "$table"
	matches 'what was never used is said' *$'\nnever used             13 regions  13.0 MiB'* "$table"
	matches 'and what would have avoided it where all is registered' *'registering them  -> PEERPIN_EAGER=async learns which'* "$table"
	same 'nothing is left behind' '' "$(left)"
	for expected in births=20 deaths=20 births_device=20 requests=7 hits=6 on_demand=1 registrations_eager=19 \
		invalidated=20 never_used=13 never_used_bytes=13631488 never_used_pinned=0 pinned_bytes=0 pinned_bytes_peak=20971520 complete=True ended=exit \
		protection_domains=1 used=True; do
		same "JSON: $expected" "$expected" "${expected%%=*}=$(number "${expected%%=*}" "$tmp/exit.json")"
	done
	same 'the file is its owner'"'"'s alone' 600 "$(stat -c %a "$tmp/exit.json")"
	same 'a result is kept' '' "$(with PEERPIN_SUMMARY=none PEERPIN_STATS="$tmp/exit.json" "$client" adapter born=1 exit 2>&1)"
	same 'the second one has a number' 1 "$(number births "$tmp/exit-1.json")"
	# shellcheck disable=SC2016 # expanded inside
	with bash -c 'touch "$1.partial.$$"; PEERPIN_SUMMARY=none PEERPIN_STATS=$1 exec "$2" adapter born=1 exit' - \
		"$tmp/again.json" "$client"
	same 'what one of the same number has left half written is in nobody'"'"'s way' 1 "$(number births "$tmp/again.json")"
	long=$(printf '%0200d' 1 2 3 | sed 's/.\{200\}/&\//g')
	mkdir -p "$tmp/$long"
	with PEERPIN_SUMMARY=none PEERPIN_STATS="$tmp/${long}x.json" "$client" adapter born=1 exit
	same 'a long name is a name' 1 "$(number births "$tmp/${long}x.json")"
	matches 'one that is too long is said to be' '*<warn>*no statistics written: File name too long*' \
		"$(with PEERPIN_SUMMARY=none PEERPIN_STATS="$(printf '%05000d' 1)" "$client" adapter born=1 exit 2>&1)"
	matches 'one line' 'peerpin: * GPUDirect RDMA used, hits 0/1, registered 1.0 MiB at peak, saved about *' \
		"$(with PEERPIN_SUMMARY=line "$client" adapter born=1 sent=1 exit 2>&1)"
}

# Programs end with their memory alive; what nobody has asked for is known all the same, and is no more once somebody does.
never_used() {
	local table

	table=$(with PEERPIN_STATS="$tmp/alive.json" "$client" adapter born=1 sent=1 born=19 settled sent=6 exit 2>&1)
	matches 'what was never used is said where nothing was freed' \
		*$'\nnever used             13 regions  13.0 MiB  '*' registering them  13 still registered  -> PEERPIN_EAGER=async '* "$table"
	for expected in never_used=13 never_used_bytes=13631488 never_used_pinned=13 never_used_pinned_bytes=13631488 \
		invalidated=0; do
		same "JSON, alive: $expected" "$expected" "${expected%%=*}=$(number "${expected%%=*}" "$tmp/alive.json")"
	done
	same 'their sizes, too' 13 "$(python3 -c '
import json,sys
print(sum(json.load(open(sys.argv[1]))["histograms"]["never_used_bytes"]))' "$tmp/alive.json")"
	with PEERPIN_SUMMARY=none PEERPIN_STATS="$tmp/used.json" "$client" adapter born=1 sent=1 born=19 settled sent=20 exit
	for expected in never_used=0 never_used_bytes=0 never_used_ns=0 never_used_pinned=0 never_used_pinned_bytes=0; do
		same "JSON, all used: $expected" "$expected" "${expected%%=*}=$(number "${expected%%=*}" "$tmp/used.json")"
	done
	same 'nor in the histogram' '[]' "$(python3 -c '
import json,sys
print(json.load(open(sys.argv[1]))["histograms"]["never_used_bytes"])' "$tmp/used.json")"
}

reasons() {
	matches 'host memory alone' *$'\nGPUDirect RDMA   not used: only host memory was registered\n'* \
		"$(with "$client" adapter born=1 host=2 exit 2>&1)"
	matches 'nothing registered' *$'\nGPUDirect RDMA   not used: no registration was asked for\n'* \
		"$(with "$client" adapter born=1 exit 2>&1)"
	matches 'no adapter, asked for' *$'\nGPUDirect RDMA   not used: the program opened no RDMA adapter\n'* \
		"$(with PEERPIN_SUMMARY=table "$client" born=1 exit 2>&1)"
	matches 'what failed is said' *$'\n  not served            1 registration failed\n'* \
		"$(with PEERPIN_LOG=none PEERPIN_EAGER=off PEERPIN_SIM_ADAPTER_DMABUF=0 PEERPIN_SIM_ADAPTER_PEER=0 \
			"$client" adapter born=1 sent=1 exit 2>&1 || :)"
}

in_silence() {
	afresh
	same 'a CUDA program without an adapter' $'\n=> 0' "$(outcome with "$client" born=9 free exit)"
	same 'it leaves nothing' '' "$(left)"
	same 'of ranks of a job one line is worth it' \
		"peerpin: GPUDirect RDMA not used: no RDMA adapter was opened on this host. Run 'peerpin doctor' there." "$(
			mkfifo "$tmp/in0" "$tmp/out0"
			export OMPI_COMM_WORLD_RANK=0 PMIX_NAMESPACE=job8
			with "$client" born=1 ready wait exit <"$tmp/in0" >"$tmp/out0" 2>&1 &
			exec 8>"$tmp/in0" 9<"$tmp/out0"
			read -r <&9
			OMPI_COMM_WORLD_RANK=1 with "$client" born=1 exit 8>&-
			exec 8>&-
			cat <&9
			wait
		)"
	rm -rf "$tmp/run"
	mkdir "$tmp/run"
	same 'bash' $'\n=> 0' "$(outcome with bash -c 'exit 0')"
	same 'python3' $'\n=> 0' "$(outcome with python3 -c 'import ctypes')"
	if command -v ssh >/dev/null; then
		same 'ssh' "$(outcome ssh -V)" "$(outcome with ssh -V)"
	else
		skip 'ssh is not installed'
	fi
	same 'they make no folder' '' "$(ls "$tmp/run")"
}

# What kills a process leaves its numbers.
however_it_ends() {
	local word

	# An MPI library that aborts has its ranks terminated, and a second later killed.
	for word in _exit abort segfault terminate kill throw; do
		afresh
		(
			ulimit -c 0
			with PEERPIN_SUMMARY=none "$client" adapter born=1 sent=1 born=19 settled sent=6 "$word" >"$tmp/out" 2>&1
		) 2>"$tmp/shell" || :
		same "$word leaves a file" 'PID.stats ' "$(left)"
		"$PWD/src/tools/peerpin-report" --json "$tmp/run/peerpin"/*.stats >"$tmp/report.json" 2>"$tmp/complaints" || :
		same "$word loses nothing" '20 20 7 6 20971520 13 killed' "$(python3 - "$tmp/report.json" <<-'PYTHON'
			import json, sys
			def find(value):
			    if isinstance(value, dict):
			        if value.get("schema") == "peerpin-stats/1" or {"births", "pid"} <= set(value):
			            return value
			        value = list(value.values())
			    for one in value if isinstance(value, list) else []:
			        found = find(one)
			        if found:
			            return found
			one = find(json.load(open(sys.argv[1])))
			print(*[one[key] for key in ("births", "registrations", "requests", "hits", "pinned_bytes_peak", "never_used", "ended")])
		PYTHON
		)"
	done
}

# What is written where: rank and number before the extension, in the folder of the start, and beside no device.
names() {
	local text before copies=0

	mkdir "$tmp/names" "$tmp/names/elsewhere"
	(
		cd "$tmp/names"
		export OMPI_COMM_WORLD_RANK=3 PEERPIN_SUMMARY=none
		with PEERPIN_STATS=job.prom "$client" adapter born=1 sent=1 exit
		with PEERPIN_STATS=job.json "$client" adapter born=2 sent=1 exit
		with PEERPIN_STATS=job.json "$client" adapter born=3 sent=1 exit
		with PEERPIN_STATS=job PEERPIN_TRACE=trace.json "$client" adapter born=4 sent=1 exit
		unset OMPI_COMM_WORLD_RANK
		with PEERPIN_STATS=moved.json "$client" born=5 to=elsewhere exit
		with PEERPIN_STATS=moved.json "$client" born=6 to=elsewhere exit
		with PEERPIN_STATS=a.b/job "$client" born=1 exit 2>/dev/null
	)
	same 'a rank and a number come before the extension' \
		'elsewhere job.3 job.3-1.json job.3.json job.3.prom moved-1.json moved.json trace.3.json ' \
		"$(cd "$tmp/names" && printf '%s ' *)"
	same 'nothing lies where the program went' '' "$(ls "$tmp/names/elsewhere")"
	same 'in their order' '2 3 5 6' \
		"$(cd "$tmp/names" && for file in job.3.json job.3-1.json moved.json moved-1.json; do number births $file; done | xargs)"
	matches 'a rank has Prometheus'"'"' text, too' '# HELP peerpin_*rank="3"*' "$(cat "$tmp/names/job.3.prom")"
	rm -rf "$tmp/names"/moved*
	cp "$tmp/names/job.3.json" "$tmp/names/partial.json.partial.12.34"
	for old in old.json.3 old.json-1 old.json.3-1; do
		sed "s/\"pid\": /&1$((++copies))/" "$tmp/names/job.3.json" >"$tmp/names/$old"
	done
	if [[ -x src/tools/peerpin-report ]]; then
		same 'a report of the folder finds all, whoever wrote them' '5 {"problems":0}' \
			"$(src/tools/peerpin-report --json "$tmp/names" 2>&1 | python3 -c '
import json,sys
report = json.load(sys.stdin)
print(sum(job["processes"] for job in report["jobs"]), json.dumps({"problems": len(report["problems"])}).replace(" ", ""))')"
	fi

	before=$(find /dev -maxdepth 1)
	text=$(PEERPIN_SUMMARY=none PMIX_RANK=4 with PEERPIN_STATS=/dev/stdout "$client" adapter born=7 sent=1 exit)
	same 'standard output is that' 7 "$(number births /dev/stdin <<<"$text")"
	text=$(PEERPIN_SUMMARY=none with PEERPIN_LOG=info PEERPIN_LOG_FILE=/dev/stderr "$client" adapter born=7 sent=1 exit 2>&1 >/dev/null)
	matches 'and standard error' '*<info>*settings other than the defaults*' "$text"
	text=$(PEERPIN_SUMMARY=none with PEERPIN_LOG=info PEERPIN_LOG_FILE=/dev/stdout "$client" adapter born=7 sent=1 exit 2>/dev/null)
	matches 'the log on standard output' '*<info>*settings other than the defaults*' "$text"
	mkfifo "$tmp/names/fifo"
	export PEERPIN_SUMMARY=none
	for file in /dev/null "$tmp/names/fifo" "$tmp/names/elsewhere"; do
		matches "no statistics in $file" \
			"peerpin: <warn>*PEERPIN_STATS=$file: no statistics written: there is something of that name already which is no regular file. *" \
			"$(with PEERPIN_STATS="$file" "$client" adapter born=1 exit 2>&1)"
		matches "no log in $file" "*<warn>*PEERPIN_LOG_FILE=$file cannot be written: there is something*=> 0" \
			"$(outcome with PEERPIN_LOG=info PEERPIN_LOG_FILE="$file" "$client" adapter born=1 exit)"
		matches "no trace in $file" "*<warn>*PEERPIN_TRACE=$file: there is something*=> 0" \
			"$(outcome with PEERPIN_TRACE="$file" "$client" adapter born=1 exit)"
	done
	matches 'nor one for each rank' '*PEERPIN_STATS=/dev/null: no statistics written*' \
		"$(PMIX_RANK=4 with PEERPIN_STATS=/dev/null "$client" adapter born=1 exit 2>&1)"
	unset PEERPIN_SUMMARY
	same 'nothing is new among the devices' '' "$(find /dev -maxdepth 1 | diff - <(printf '%s\n' "$before"))"
	same 'nor beside the FIFO' 'elsewhere fifo ' "$(cd "$tmp/names" && printf '%s ' elsewhere* fifo*)"
}

# kept FILE: births and end of what is in it
kept() {
	"$build/src/tools/peerpin-report" --json "$1" | python3 -c '
import json,sys
job = json.load(sys.stdin)["jobs"][0]
print(job["totals"]["births"], job["processes"], job["killed"], job["running"])'
}

# Where the results cannot be written the numbers stay, of a rank whose numbers another one has told, too.
unwritten() {
	local text where

	afresh
	text=$(with PEERPIN_SUMMARY=none PEERPIN_STATS=/nowhere/x "$client" adapter born=9 exit 2>&1)
	matches 'a file that cannot be written is named, and where the numbers are' \
		"*<warn>*PEERPIN_STATS=/nowhere/x: no statistics written: No such file or directory. Name a file *. They are kept in $tmp/run/peerpin/*.kept.stats, which peerpin report reads." \
		"$text"
	where=${text#* kept in } where=${where%%, which*}
	same 'and that is all that is left' "$where" "$(find "$tmp/run" -type f)"
	[[ ! -x src/tools/peerpin-report ]] || same 'they are there' '9 1 0 0' "$(kept "$where")"
	afresh
	OMPI_COMM_WORLD_RANK=0 PMIX_NAMESPACE=job9 with PEERPIN_STATS=/nowhere/x "$client" adapter born=3 sent=1 exit >/dev/null 2>&1
	same 'a rank, too' '[0-9]*.kept.stats' "$(find "$tmp/run" -name '*.stats' -printf '%f\n' | sed 's/^[0-9]*/[0-9]*/')"
	with PEERPIN_SUMMARY=none PEERPIN_STATS="$tmp/rank1.json" OMPI_COMM_WORLD_RANK=1 PMIX_NAMESPACE=job9 "$client" adapter born=4 exit
	[[ ! -x src/tools/peerpin-report ]] || same 'a report of the others has it' '7 2 0 0' "$(kept "$tmp/rank1.1.json")"
}

# start NUMBER: a rank that has used memory and waits
start() {
	mkfifo "$tmp/in$1" "$tmp/out$1"
	(
		# The other ranks' input ends when this shell says so, whoever else lives.
		for other in 1 2 3; do eval "exec 1$other>&- 2$other<&-"; done
		exec env LD_LIBRARY_PATH="$PWD/src/sim/adapter/.libs:$PWD/src/sim/.libs" LD_PRELOAD="$library" \
			OMPI_COMM_WORLD_RANK="$1" OMPI_COMM_WORLD_LOCAL_RANK="$1" PMIX_NAMESPACE=job7 \
			"$client" adapter born=10 sent="$1" ready wait exit
	) <"$tmp/in$1" >"$tmp/out$1" 2>"$tmp/table$1" &
	ranks[$1]=$!
	eval "exec 1$1>'$tmp/in$1' 2$1<'$tmp/out$1'"
	read -r <&"2$1"
}

end() {
	eval "exec 1$1>&- 2$1<&-"
	{ wait "${ranks[$1]}" || :; } 2>/dev/null
	rm -f "$tmp/in$1" "$tmp/out$1"
}

one_table_for_each_host() {
	local -A ranks=()

	afresh
	for i in 1 2 3; do start "$i"; done
	end 2
	end 1
	same 'who ends first leaves the telling to the last' '' "$(cat "$tmp/table2" "$tmp/table1")"
	end 3
	matches 'who ends last tells of all' '*3 processes job job7 *allocations 30 born *requests 6 *' \
		"$(tr -s ' \n' ' ' <"$tmp/table3")"
	same 'nothing is left' '' "$(left)"
	for i in 1 2; do start "$i"; done
	end 1
	{ kill -9 "${ranks[2]}" && wait "${ranks[2]}" || :; } 2>/dev/null
	end 2
	same 'nobody speaks after a kill' '' "$(cat "$tmp/table1" "$tmp/table2")"
	same 'but both have left their numbers' 'PID.stats PID.stats ' "$(left)"
	start 3
	end 3
	matches 'which who comes later still tells' '*3 processes job job7 *allocations 30 born *requests 6 *' \
		"$(tr -s ' \n' ' ' <"$tmp/table3")"
	same 'the file of who was killed stays' 'PID.stats ' "$(left)"
	# Who was killed while it spoke, of a job whose name does not come back.
	touch -d '2 hours ago' "$tmp/run/peerpin/job1.speaker"
	touch "$tmp/run/peerpin/job2.speaker"
	with "$client" born=1 exit
	same 'who was killed while it spoke leaves its mark for an hour' 'PID.stats job2.speaker ' "$(left)"
	afresh
	for i in {1..10}; do
		for rank in 1 2 3; do start "$rank"; done
		eval 'exec 11>&- 12>&- 13>&-'
		for rank in 1 2 3; do end "$rank"; done
		same 'all at once: one table of all' '1 1' \
			"$(cat "$tmp"/table? | grep -c '^peerpin ' || :) $(cat "$tmp"/table? | grep -c '  3 processes ' || :)"
	done
	same 'and nothing is left' '' "$(left)"
}

# Every kind of record: of a process alone and of a rank, by either way, of one that was killed, of one that runs.
valid_records() {
	local -A ranks=()

	if ! python3 -c 'import jsonschema' 2>/dev/null; then
		skip 'no jsonschema for Python'
		return
	fi
	with PEERPIN_SUMMARY=none PEERPIN_SIM_ADAPTER_DMABUF=0 PEERPIN_STATS="$tmp/peer.json" "$client" adapter born=1 sent=1 exit
	if [[ -x tests/tools/record ]]; then
		afresh
		start 1
		tests/tools/record "$tmp/run/peerpin/${ranks[1]}.stats" >"$tmp/runs.json"
		{ kill -9 "${ranks[1]}" && wait "${ranks[1]}" || :; } 2>/dev/null
		tests/tools/record "$tmp/run/peerpin/${ranks[1]}.stats" >"$tmp/killed.json"
		end 1
	else
		skip 'records of mapped files: no jansson'
	fi
	same 'JSON is what the schema says, of every kind of record' '' "$(cd "$tmp" && python3 - \
		"$source/docs/stats.schema.json" exit.json form.5.json peer.json {runs,killed}.jso[n] <<-'PYTHON' 2>&1 | tail -n 3
		import copy, glob, json, jsonschema, sys
		schema = json.load(open(sys.argv[1]))
		records = {name: json.load(open(name)) for pattern in sys.argv[2:] for name in glob.glob(pattern)}
		for name, record in records.items():
		    jsonschema.validate(record, schema)
		alone, rank, peer = (records[name] for name in ("exit.json", "form.5.json", "peer.json"))
		assert alone["rank"] is alone["job"] is None and (rank["rank"], rank["job"]) == (5, "job5")
		assert peer["pairs"][0]["way"] == "peer memory" and rank["pairs"][0]["path"] is None
		for name, end in ("runs.json", "running"), ("killed.json", "killed"):
		    if name in records:
		        assert (records[name]["ended"], records[name]["complete"]) == (end, False)
		# What is wrong is refused: so all of this was looked at.
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
		    lambda record: record["pairs"][0].update(way="by foot"), lambda record: record["gpus"][0].pop("pinned_bytes_peak"),
		    lambda record: record["histograms"].pop("wait_ns"), lambda record: record.update(unknown=1),
		]
		for number, change in enumerate(changes):
		    assert refused(change), number
	PYTHON
	)"
}

# Requests that are held up, and regions that make room, are in the trace, too; each once.
trace_of_waits() {
	local spans='
import collections, json, sys
record, events = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
spans = [event for event in events if event["ph"] == "X"]
count = collections.Counter(event["name"] for event in spans)
print(*(f"{count[name]} of {record[key]}" for name, key in (("wait", "waited"), ("evict", "evictions"))),
      *sorted({event["args"]["outcome"] for event in spans if event["name"] in ("wait", "evict")}),
      min(event["dur"] for event in spans if event["name"] in ("wait", "evict")) > 0)'

	with PEERPIN_SUMMARY=none PEERPIN_STATS="$tmp/waits.json" PEERPIN_TRACE="$tmp/waits.trace" "$client" adapter born=1 sent=1 waited exit
	same 'a wait is in the trace' '1 of 1 0 of 0 served True' "$(python3 -c "$spans" "$tmp/waits.json" "$tmp/waits.trace")"
	with PEERPIN_SUMMARY=none PEERPIN_EAGER=off PEERPIN_BUDGET=2M PEERPIN_STATS="$tmp/evicts.json" PEERPIN_TRACE="$tmp/evicts.trace" \
		"$client" adapter born=5 sent=5 exit
	same 'an eviction is in the trace' '0 of 0 3 of 3 done True' "$(python3 -c "$spans" "$tmp/evicts.json" "$tmp/evicts.trace")"
}

forms() {
	local kinds

	same 'docs/stats.schema.json is what statistics.def says' '' \
		"$(python3 "$here/schema.py" "$source/src/base/statistics.def" | diff - "$source/docs/stats.schema.json")"
	# The same twice, in either form.
	for form in json prom; do
		PMIX_RANK=5 PMIX_NAMESPACE=job5 with PEERPIN_SUMMARY=none PEERPIN_EAGER=off PEERPIN_STATS="$tmp/form.$form" "$client" adapter born=2 sent=2 sent=1 size=70000 born=3 sent=1 host=1 exit
	done
	same 'Prometheus: all that JSON has, each family once, with help, type and values' '' "$(python3 - "$tmp/form.5.prom" "$tmp/form.5.json" <<-'PYTHON' 2>&1 | tail -n 3
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
		        assert [labels.pop(key) for key in ("host", "program", "rank", "job_id")] == \
		            [record["host"], record["program"], str(record["rank"]), record["job"]], line
		        series = (match[1], *sorted(labels.items()))
		        assert series not in values, line
		        values[series] = int(match[3])

		def number(name, **labels):
		    return values.pop(("peerpin_" + name, *sorted(labels.items())))

		def same(key, found, wanted):
		    assert key.endswith("_ns") or found == wanted, (key, found, wanted)
		    return found

		for key, value in record.items():
		    if type(value) is int and key not in ("pid", "rank", "local_rank", "processes", "started_ns", "elapsed_ns"):
		        same(key, number(key if "peerpin_" + key in types else key + "_total"), value)
		assert number("used") == record["used"]
		sums = {"birth_bytes": record["born_bytes"], "used_bytes": (2 << 20) + 70000, "never_used_bytes": 0}
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
		for gpu in record["gpus"]:
		    for key in ("pinned_bytes", "pinned_bytes_peak"):
		        same(key, number("gpu_" + key, gpu=str(gpu["gpu"])), gpu[key])
		for adapter in record["adapters"]:
		    for key in ("pinned_bytes", "pinned_bytes_peak"):
		        same(key, number("adapter_" + key, adapter=adapter["adapter"]), adapter[key])
		for pair in record["pairs"]:
		    same("pair", number("pair_registrations_total", gpu=str(pair["gpu"]), adapter=pair["adapter"], way=pair["way"],
		                        path=pair["path"] or ""), pair["registrations"])
		assert record["gpus"] and record["adapters"] and record["pairs"] and sum(record["histograms"]["used_bytes"]) == 3
		assert not values, values
	PYTHON
	)"
	valid_records
	with PEERPIN_SUMMARY=none PEERPIN_STATS="$tmp/a.prom" "$client" adapter born=9 exit
	matches 'a collector finds the newest' '*peerpin_births_total{*} 9*' "$(<"$tmp/a.prom")"
	with PEERPIN_SUMMARY=none PEERPIN_TRACE="$tmp/a.trace" "$client" adapter born=1 sent=1 born=3 settled sent=1 free exit
	kinds=$(python3 -c '
import collections, json, sys
events = json.load(open(sys.argv[1]))
print(sorted(collections.Counter((e["ph"], e["name"]) for e in events if e["ph"] != "C").items()))' "$tmp/a.trace")
	same 'the trace has each event' "[(('M', 'process_name'), 1), (('X', 'deregister'), 4), (('X', 'register'), 4), (('b', 'device memory'), 4), (('e', 'device memory'), 4), (('i', 'exit'), 1)]" "$kinds"
	(with PEERPIN_SUMMARY=none PEERPIN_TRACE="$tmp/b.trace" "$client" adapter born=1 sent=1 born=3 settled kill) 2>/dev/null || :
	same 'the trace of who is killed lacks its end alone' 9 "$(python3 -c '
import json, sys
events = json.loads(open(sys.argv[1]).read().rstrip(",\n") + "]")
print(sum(e["ph"] != "C" for e in events))' "$tmp/b.trace")"
}

# A folder that is somebody else's, or has no room: the numbers stay in memory, and the program runs.
without_a_folder() {
	afresh
	mkdir -m 755 "$tmp/run/peerpin"
	matches 'open to others' *'  process '*$'\nallocations             3 born'* \
		"$(with "$client" adapter born=3 exit 2>&1)"
	same 'it is not used' '' "$(ls "$tmp/run/peerpin")"
	if unshare -rm true 2>/dev/null; then
		rm -rf "$tmp/run/peerpin"
		# shellcheck disable=SC2016 # expanded inside
		matches 'full' *$'\nallocations             3 born'*'=> 0 '$'\n' "$(with unshare -rm bash -c '
			mount -t tmpfs -o size=64k none "$1" && "$2" adapter born=3 exit; echo "=> $? $(ls "$1/peerpin")"' \
			- "$tmp/run" "$client" 2>&1)"$'\n'
		# 100 that were killed just now, on a file system that they all but fill.
		same 'what is left is not let grow where there is little room' '64 PID.stats' "$(with unshare -rm bash -c '
			mount -t tmpfs -o size=16m none "$1" && mkdir -m 700 "$1/peerpin" && cd "$1/peerpin" || exit
			for i in {1..100}; do head -c 150000 /dev/zero >"999999$i.stats"; done
			"$2" born=3 _exit
			echo "$(find . -name "999999*" | wc -l) $(find . -name "*.stats" ! -name "999999*" -printf PID.stats)"' \
			- "$tmp/run" "$client" 2>&1)"
		same 'the last room is left to the program' '=> 0 other' "$(with unshare -rm bash -c '
			mount -t tmpfs -o size=1m none "$1" && head -c 800k /dev/zero >"$1/other"
			"$2" born=3 _exit; echo "=> $? $(find "$1" -type f -printf %f)"' \
			- "$tmp/run" "$client" 2>&1)"
	else
		skip 'a full folder: no user namespaces here'
	fi
}

# What cannot be written is left out, and the program's status is its own.
nowhere_to_write() {
	same 'nobody reads standard error' 0 "$(LD_LIBRARY_PATH="$PWD/src/sim/adapter/.libs:$PWD/src/sim/.libs" \
		python3 - "$library" "$client" <<-'PYTHON'
			import os, subprocess, sys
			environment = dict(os.environ, LD_PRELOAD=sys.argv[1])
			reads, writes = os.pipe()
			os.close(reads)
			print(subprocess.run([sys.argv[2], "adapter", "born=1", "sent=1", "exit"], env=environment, stderr=writes,
			    restore_signals=True).returncode)
		PYTHON
	)"
	matches 'no room for the results' '*File too large*=> 0' "$(outcome with PEERPIN_SUMMARY=none \
		PEERPIN_STATS="$tmp/large.json" "$client" adapter born=1 sent=1 limit=100 exit)"
	same 'no room for the numbers while it runs' $'\n=> 0' "$(outcome with PEERPIN_SUMMARY=none "$client" limit=100 born=1 exit)"
}

at_exit
never_used
nowhere_to_write
reasons
in_silence
however_it_ends
names
unwritten
one_table_for_each_host
forms
trace_of_waits
without_a_folder
finish
