#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_statistics.sh -- table, statistics file and segment after every kind of process end
set -euo pipefail

# shellcheck source=tests/tools/preloaded
. "$(dirname "$0")/preloaded"

at_exit() {
	local table long

	afresh
	table=$(with PEERPIN_STATS_FILE="$tmp/exit.json" "$client" adapter allocated=1 sent=1 allocated=19 settled sent=6 free exit 2>&1)
	matches 'the first line names version, program and process' \
		'peerpin [0-9]*  client  host *  process [0-9]*' "${table%%$'\n'*}"
	matches 'the second line has the use of GPUDirect RDMA' *$'\nGPUDirect RDMA   not used: software adapter sim0; dma-buf; 20.0 MiB registered at peak\n'* "$table"
	matches 'allocations' *$'\nfrees            20 of 20 allocations  20 deregistrations ('*')  0 missed'* "$table"
	same 'no file is left in the runtime folder' '' "$(left)"
	for expected in allocations=20 frees=20 allocations_device=20 requests=7 hits=6 synchronous=1 registrations_background=19 \
		invalidated=20 never_used=13 never_used_bytes=13631488 never_used_pinned=0 pinned_bytes=0 pinned_bytes_peak=20971520 complete=true ended=exit \
		protection_domains=1 used=false; do
		same "JSON: $expected" "$expected" "${expected%%=*}=$(number "${expected%%=*}" "$tmp/exit.json")"
	done
	same 'the statistics file is private' 600 "$(stat -c %a "$tmp/exit.json")"
	same 'an existing file is not replaced' '' "$(with PEERPIN_SUMMARY=none PEERPIN_STATS_FILE="$tmp/exit.json" "$client" adapter allocated=1 exit 2>&1)"
	same 'the second file has a number' 1 "$(number allocations "$tmp/exit-1.json")"
	# shellcheck disable=SC2016 # expanded inside
	with bash -c 'touch "$1.partial.$$"; PEERPIN_SUMMARY=none PEERPIN_STATS_FILE=$1 exec "$2" adapter allocated=1 exit' - \
		"$tmp/again.json" "$client"
	same 'a partial file of an earlier process with this number does not matter' 1 "$(number allocations "$tmp/again.json")"
	long=$(printf '%0200d' 1 2 3 | sed 's/.\{200\}/&\//g')
	mkdir -p "$tmp/$long"
	with PEERPIN_SUMMARY=none PEERPIN_STATS_FILE="$tmp/${long}x.json" "$client" adapter allocated=1 exit
	same 'a long path works' 1 "$(number allocations "$tmp/${long}x.json")"
	matches 'a path beyond the limit gets a warning' '*<warn>*no statistics written: File name too long*' \
		"$(with PEERPIN_SUMMARY=none PEERPIN_STATS_FILE="$(printf '%05000d' 1)" "$client" adapter allocated=1 exit 2>&1)"
	matches 'the summary of one line' 'peerpin: * GPUDirect RDMA not used: software adapter sim0; *, hits 0/1, registered 1.0 MiB at peak' \
		"$(with PEERPIN_SUMMARY=line "$client" adapter allocated=1 sent=1 exit 2>&1)"
}

# Never used regions of programs that exit with live allocations; a request ends that state.
never_used() {
	with PEERPIN_STATS_FILE="$tmp/alive.json" "$client" adapter allocated=1 sent=1 allocated=19 settled sent=6 exit 2>/dev/null
	for expected in never_used=13 never_used_bytes=13631488 never_used_pinned=13 never_used_pinned_bytes=13631488 \
		invalidated=0; do
		same "JSON, alive: $expected" "$expected" "${expected%%=*}=$(number "${expected%%=*}" "$tmp/alive.json")"
	done
	same 'their sizes are in the histogram' 13 "$(python3 -c '
import json,sys
print(sum(json.load(open(sys.argv[1]))["histograms"]["never_used_bytes"]))' "$tmp/alive.json")"
	with PEERPIN_SUMMARY=none PEERPIN_STATS_FILE="$tmp/used.json" "$client" adapter allocated=1 sent=1 allocated=19 settled sent=20 exit
	for expected in never_used=0 never_used_bytes=0 never_used_ns=0 never_used_pinned=0 never_used_pinned_bytes=0; do
		same "JSON, all used: $expected" "$expected" "${expected%%=*}=$(number "${expected%%=*}" "$tmp/used.json")"
	done
	same 'with all used, the histogram is empty' '[]' "$(python3 -c '
import json,sys
print(json.load(open(sys.argv[1]))["histograms"]["never_used_bytes"])' "$tmp/used.json")"
}

kept_memory() {
	local table

	afresh
	table=$(with PEERPIN_KEEP=10% PEERPIN_STATS_FILE="$tmp/kept.json" "$client" adapter allocated=3 free allocated=2 exit 2>&1)
	matches 'kept memory has a line' \
		*$'\nkept memory      3 kept  2 reused  3.0 MiB at peak'* "$table"
	for expected in kept=3 reused=2 kept_released=0 kept_bytes=1048576 kept_bytes_peak=3145728 kept_host_bytes=0; do
		same "JSON, kept: $expected" "$expected" "${expected%%=*}=$(number "${expected%%=*}" "$tmp/kept.json")"
	done
	same 'the settings have the percentage' '{"PEERPIN_KEEP":"10%"}' \
		"$(number settings "$tmp/kept.json" | sed 's/,"PEERPIN_STATS_FILE[^}]*//')"
	matches 'kept host memory, too' *'  2 kept  1 reused  0 B at peak  1.0 MiB of host memory'* \
		"$(with PEERPIN_KEEP_HOST=8M "$client" adapter allocated=1 locked=2 free exit 2>&1)"
	with PEERPIN_SUMMARY=none PEERPIN_KEEP=1M PEERPIN_KEEP_HOST=8M PEERPIN_STATS_FILE="$tmp/kept.prom" "$client" allocated=3 free locked=1 exit
	# The second free of 1 MiB releases the memory of the first: a limit holds for the peak, too. The third keeps nothing.
	same 'Prometheus has kept memory, with its types, within its limit' '# TYPE peerpin_kept_bytes gauge
# TYPE peerpin_kept_bytes_peak gauge
# TYPE peerpin_kept_host_bytes gauge
# TYPE peerpin_kept_host_bytes_peak gauge
# TYPE peerpin_kept_released_total counter
# TYPE peerpin_kept_total counter
peerpin_kept_bytes 1048576
peerpin_kept_bytes_peak 1048576
peerpin_kept_host_bytes 1048576
peerpin_kept_host_bytes_peak 1048576
peerpin_kept_released_total 1
peerpin_kept_total 3' "$(sed 's/{.*}//' "$tmp/kept.prom" | grep -v HELP | grep -w 'peerpin_kept[a-z_]*' | sort)"
}

reasons() {
	matches 'host memory alone' *$'\nGPUDirect RDMA   not used: only host memory was registered\n'* \
		"$(with "$client" adapter allocated=1 host=2 exit 2>&1)"
	matches 'nothing registered' *$'\nGPUDirect RDMA   not used: no registration was requested\n'* \
		"$(with "$client" adapter allocated=1 exit 2>&1)"
	matches 'dma-bufs exported, which the provider does not register' \
		*$'\nGPUDirect RDMA   not used: dma-bufs of GPU memory were exported, none was registered\n'* \
		"$(with "$client" adapter allocated=1 size=65536 export host=2 exit 2>&1)"
	matches 'no adapter' *$'\nGPUDirect RDMA   not used: the program opened no RDMA adapter\n'* \
		"$(with PEERPIN_SUMMARY=table "$client" allocated=1 exit 2>&1)"
	same 'nor a table' '' "$(with "$client" allocated=1 exit 2>&1)"
	for setting in PEERPIN_KEEP=1% PEERPIN_KEEP_HOST=1M PEERPIN_PREREGISTER=eager; do
		matches "but with $setting" *$'\nGPUDirect RDMA   not used: the program opened no RDMA adapter\n'* \
			"$(with $setting "$client" allocated=1 exit 2>&1)"
	done
	matches 'a failed registration is a reason' *$'\n  bypassed       1 registration failed\n'* \
		"$(with PEERPIN_LOG_LEVEL=none PEERPIN_PREREGISTER=off PEERPIN_SIM_ADAPTER_DMABUF=0 PEERPIN_SIM_ADAPTER_PEER=0 \
			"$client" adapter allocated=1 sent=1 exit 2>&1 || :)"
}

# ucx WORD [NAME=VALUE...]: the end of the table of a program with UCX, on a driver with new entries
ucx() {
	with LD_LIBRARY_PATH="$build/src/sim/adapter/.libs:$build/tests/stacks/newer/.libs:$build/tests/intercept/.libs" \
		PEERPIN_STATS_FILE="$tmp/ucx.$1.json" "${@:2}" "$client" adapter allocated=1 "$1" sent=1 exit 2>&1 | grep UCX
}

hooks_of_ucx() {
	local line='*  0 bypassed  1 UCX without hooks: its requests hit (use UCX 1.18.1)'

	[[ $(uname -m) == x86_64 ]] || { skip 'hooks of UCX: not x86-64'; return; }
	matches 'UCX that did not patch a new driver' "$line" "$(ucx unhooked)"
	same 'JSON: its number' 1 "$(number ucx_unhooked "$tmp/ucx.unhooked.json")"
	same 'UCX that patched it' '' "$(ucx hooked)"
	same 'JSON: that has none' 0 "$(number ucx_unhooked "$tmp/ucx.hooked.json")"
	same 'UCX that patches nothing' '' "$(ucx unhooked UCX_MEM_CUDA_HOOK_MODE=reloc)"
	same 'UCX on an older driver' '' "$(ucx unhooked \
		LD_LIBRARY_PATH="$build/src/sim/adapter/.libs:$build/src/sim/.libs:$build/tests/intercept/.libs")"
}

adapters_chosen() {
	local devices=PEERPIN_DEVICES

	afresh
	for name in nearest sim1 other,sim; do
		matches "unknown adapter $name gets a warning" "peerpin: <warn>*$devices=$name names no adapter that the program has opened (sim0): *Name adapters as *" \
			"$(with PEERPIN_SUMMARY=none $devices=$name "$client" adapter allocated=1 sent=1 exit 2>&1)"
	done
	for name in sim0 other,sim0 ^sim0 ^other; do
		same "adapter list $name is known" $'\n=> 0' "$(outcome with PEERPIN_SUMMARY=none $devices=$name "$client" adapter allocated=1 sent=1 exit)"
	done
	same 'without an adapter no warning' $'\n=> 0' "$(outcome with PEERPIN_SUMMARY=none $devices=nearest "$client" allocated=1 exit)"
}

in_silence() {
	afresh
	same 'a CUDA program without an adapter' $'\n=> 0' "$(outcome with "$client" allocated=9 free exit)"
	same 'a CUDA program without an adapter leaves no file' '' "$(left)"
	same 'of ranks of a job one line is worth it' \
		"peerpin: GPUDirect RDMA not used: no RDMA adapter was opened on this host. Run 'peerpin doctor' there." "$(
			mkfifo "$tmp/in0" "$tmp/out0"
			export OMPI_COMM_WORLD_RANK=0 PMIX_NAMESPACE=job8
			with "$client" allocated=1 ready wait exit <"$tmp/in0" >"$tmp/out0" 2>&1 &
			exec 8>"$tmp/in0" 9<"$tmp/out0"
			read -r <&9
			OMPI_COMM_WORLD_RANK=1 with "$client" allocated=1 exit 8>&-
			exec 8>&-
			cat <&9
			wait
		)"
	rm "$tmp/in0" "$tmp/out0"
	afresh
	same 'bash' $'\n=> 0' "$(outcome with bash -c 'exit 0')"
	same 'python3' $'\n=> 0' "$(outcome with python3 -c 'import ctypes')"
	if command -v ssh >/dev/null; then
		same 'ssh' "$(outcome ssh -V)" "$(outcome with ssh -V)"
	else
		skip 'ssh is not installed'
	fi
	same 'programs without CUDA make no folder' '' "$(ls "$tmp/run")"
}

# A killed process leaves its statistics segment.
however_it_ends() {
	local word

	# An aborting MPI library sends SIGTERM to its ranks, and SIGKILL 1 s later.
	for word in _exit abort segfault terminate kill throw; do
		afresh
		(
			ulimit -c 0
			with PEERPIN_SUMMARY=none "$client" adapter allocated=1 sent=1 allocated=19 settled sent=6 "$word" >"$tmp/out" 2>&1
		) 2>"$tmp/shell" || :
		same "$word leaves a file" 'PID.stats ' "$(left)"
		[[ -x src/tools/peerpin-report ]] || { skip "$word loses nothing: configured with --disable-tools"; continue; }
		"$PWD/src/tools/peerpin-report" --json "$tmp/run/peerpin"/*.stats >"$tmp/report.json" 2>"$tmp/complaints" || :
		same "$word keeps all counts" '20 20 7 6 20971520 13 killed' "$(python3 - "$tmp/report.json" <<-'PYTHON'
			import json, sys
			def find(value):
			    if isinstance(value, dict):
			        if value.get("schema") == "peerpin-stats/1" or {"allocations", "pid"} <= set(value):
			            return value
			        value = list(value.values())
			    for one in value if isinstance(value, list) else []:
			        found = find(one)
			        if found:
			            return found
			one = find(json.load(open(sys.argv[1])))
			print(*[one[key] for key in ("allocations", "registrations", "requests", "hits", "pinned_bytes_peak", "never_used", "ended")])
		PYTHON
		)"
	done
}

one_table_for_each_host() {
	local -A ranks=()
	local lock=job.job7.${HOSTNAME%%.*}.lock

	afresh
	for i in 1 2 3; do start "$i"; done
	end 2
	end 1
	same 'who ends first leaves the telling to the last' '' "$(cat "$tmp/table2" "$tmp/table1")"
	end 3
	matches 'the last process to exit prints the table for all' '*3 processes job job7 *requests 6 * 30 allocations *' \
		"$(tr -s ' \n' ' ' <"$tmp/table3")"
	matches 'all of whom use it' '*GPUDirect RDMA not used: software adapter sim0; *' "$(tr -s ' \n' ' ' <"$tmp/table3")"
	same 'nothing is left' '' "$(left)"
	for i in 1 2 0; do start "$i"; done
	for i in 0 2 1; do end "$i"; done
	matches 'one without requests counts too' '*3 processes job job7 *requests 3 *' \
		"$(tr -s ' \n' ' ' <"$tmp/table1")"
	start 1
	sleep 0.5
	start 2
	end 1
	end 2
	same 'the time is that of the longest' 'half a second' "$(awk 'NR == 1 && ($NF == "s" || ($NF == "ms" && $(NF - 1) >= 500)) {
		print "half a second" }' "$tmp/table2")"
	for i in 1 2; do start "$i"; done
	end 1
	{ kill -9 "${ranks[2]}" && wait "${ranks[2]}" || :; } 2>/dev/null
	end 2
	same 'nobody speaks after a kill' '' "$(cat "$tmp/table1" "$tmp/table2")"
	same 'but both have left their numbers' "PID.stats PID.stats $lock " "$(left)"
	start 3
	end 3
	matches 'a later process of the job prints them' '*3 processes, 1 of them killed job job7 *requests 6 * 30 allocations *' \
		"$(tr -s ' \n' ' ' <"$tmp/table3")"
	same 'the file of who was killed stays' 'PID.stats ' "$(left)"
	# Files of jobs with only killed ranks, and job names that are not reused.
	touch -d '2 hours ago' "$tmp/run/peerpin/job.job1.$HOSTNAME.lock"
	touch "$tmp/run/peerpin/job.job2.$HOSTNAME.lock"
	with "$client" allocated=1 exit
	same 'the file of a killed job stays for 1 h' "PID.stats job.job2.$HOSTNAME.lock " "$(left)"
}

# A folder with wrong permissions or without room: the statistics stay in memory, and the program
# runs.
without_a_folder() {
	afresh
	mkdir -m 755 "$tmp/run/peerpin"
	matches 'open to others' *'  process '*' of 3 allocations '* \
		"$(with "$client" adapter allocated=3 exit 2>&1)"
	same 'it is not used' '' "$(ls "$tmp/run/peerpin")"
	if unshare -rm true 2>/dev/null; then
		rm -rf "$tmp/run/peerpin"
		mkdir "$tmp/disk"
		# shellcheck disable=SC2016 # expanded inside
		matches 'a statistics file on a full disk' '*: no statistics written: No space left on device. Make room, or name a file on another file system. *' \
			"$(with unshare -rm bash -c 'mount -t tmpfs -o size=4k none "$1" && head -c 4k /dev/zero >"$1/other" &&
				PEERPIN_STATS_FILE=$1/stats.json exec "$2" allocated=1 exit' \
				- "$tmp/disk" "$client" 2>&1)"
		# shellcheck disable=SC2016 # expanded inside
		matches 'full' *' of 3 allocations '*'=> 0 '$'\n' "$(with unshare -rm bash -c '
			mount -t tmpfs -o size=64k none "$1" && "$2" adapter allocated=3 exit; echo "=> $? $(ls "$1/peerpin")"' \
			- "$tmp/run" "$client" 2>&1)"$'\n'
		# Files of 100 recently killed processes almost fill the file system.
		same 'what is left is not let grow where there is little room' '64 PID.stats' "$(with unshare -rm bash -c '
			mount -t tmpfs -o size=16m none "$1" && mkdir -m 700 "$1/peerpin" && cd "$1/peerpin" || exit
			for i in {1..100}; do head -c 150000 /dev/zero >"999999$i.stats"; done
			"$2" allocated=3 _exit
			echo "$(find . -name "999999*" | wc -l) $(find . -name "*.stats" ! -name "999999*" -printf PID.stats)"' \
			- "$tmp/run" "$client" 2>&1)"
		same 'the last room is left to the program' '=> 0 other' "$(with unshare -rm bash -c '
			mount -t tmpfs -o size=1m none "$1" && head -c 950k /dev/zero >"$1/other"
			"$2" allocated=3 _exit; echo "=> $? $(find "$1" -type f -printf %f)"' \
			- "$tmp/run" "$client" 2>&1)"
	else
		skip 'a full folder: no user namespaces here'
	fi
}

# A file of the runtime folder that anybody of the user truncates or removes costs at most statistics.
harmed_files() {
	local -A ranks=()
	local file id how status

	for how in 'truncate -s 0' 'rm' 'shred -n 1'; do
		afresh
		start 1
		file=$tmp/run/peerpin/${ranks[1]}.stats
		id=$(segment_number "$file")
		$how "$tmp"/run/peerpin/*
		status=0
		eval 'exec 11>&- 21<&-'
		wait "${ranks[1]}" || status=$?
		rm -f "$tmp/in1" "$tmp/out1"
		same "after $how the program ends as without peerpin" 0 "$status"
		matches "after $how it reports itself" '* of 10 allocations *' "$(tr -s ' \n' ' ' <"$tmp/table1")"
		same "after $how no shared memory is left" gone "$(ipcs -m -i "$id" 2>&1 | grep -q "shmid=$id" && echo left || echo gone)"
	done
}

# Containers that share the folder and the IPC namespace, and each number their processes from 1.
equal_numbers() {
	local rank others=() report=$PWD/src/tools/peerpin-report

	if ! unshare -rpf true 2>/dev/null; then
		skip 'equal process numbers: no PID namespaces here'
		return
	fi
	afresh
	for rank in 1 2; do
		mkfifo "$tmp/in$rank" "$tmp/out$rank"
		with PEERPIN_SUMMARY=none unshare -rpf "$client" adapter allocated="$rank" ready wait exit \
			<"$tmp/in$rank" >"$tmp/out$rank" &
		others[rank]=$!
		eval "exec 1$rank>'$tmp/in$rank' 2$rank<'$tmp/out$rank'"
		read -r <&"2$rank"
	done
	same 'each has a file' '1-1.stats 1.stats' "$(cd "$tmp/run/peerpin" && echo *)"
	# Cleans the folder, in which no process of these numbers lives for it.
	with "$client" allocated=1 exit
	[[ ! -x $report ]] || same 'a report has both, as running' '[[1,"running"],[2,"running"]]' \
		"$("$report" --json | python3 -c 'import json,sys; print(json.dumps(sorted([rank["allocations"], rank["ended"]] for job in json.load(sys.stdin)["jobs"] for rank in job["ranks"]), separators=(",", ":")))')"
	exec 12>&- 22<&-
	wait "${others[2]}" || :
	same 'the first to end leaves the file of the other' 1.stats "$(cd "$tmp/run/peerpin" && echo *)"
	exec 11>&- 21<&-
	wait "${others[1]}" || :
	same 'the other removes its own' '' "$(left)"
}

# A host with 8 segments, of which others use 0 or 4.
scarce_segments() {
	local script

	if ! unshare -rim bash -c 'echo 8 >/proc/sys/kernel/shmmni' 2>/dev/null; then
		skip 'few segments of shared memory: no IPC namespaces here'
		return
	fi
	# shellcheck disable=SC2016 # expanded inside
	script='echo 8 >/proc/sys/kernel/shmmni
		segments() { ipcs -m | grep -c ^0x; }
		for ((i = 0; i < $3; i++)); do ipcmk -M 4096 >/dev/null; done
		for i in {1..4}; do "$2" allocated=3 _exit; rm -rf "$1/peerpin"; done
		echo -n "$(segments) "
		"$2" allocated=3 exit
		segments'
	afresh
	same 'segments that killed processes and lost files have left are removed' '4 0' \
		"$(with unshare -ri bash -c "$script" - "$tmp/run" "$client" 0)"
	afresh
	same 'half of the segments stay for others' '4 4' \
		"$(with unshare -ri bash -c "$script" - "$tmp/run" "$client" 4)"
	# shellcheck disable=SC2016 # expanded inside
	script='echo 8 >/proc/sys/kernel/shmmni
		ipcmk -M 4096 >/dev/null
		export PMIX_NAMESPACE=job11
		coproc OMPI_COMM_WORLD_RANK=0 "$1" adapter allocated=3 ready wait exit 2>&1
		exec {output}<&"${COPROC[0]}" # its own descriptors end with it
		read -r <&"$output"
		for rank in 1 2; do OMPI_COMM_WORLD_RANK=$rank "$1" adapter allocated=3 exit; done
		eval "exec ${COPROC[1]}>&-"
		cat <&"$output"'
	afresh
	matches 'those of ranks that have ended stay for the leader' '*3 processes  job job11 *' \
		"$(with unshare -ri bash -c "$script" - "$client")"
}

# Another user has made the folder in /dev/shm.
occupied_folder() {
	local text script

	if ! unshare -rm true 2>/dev/null; then
		skip 'an occupied folder: no user namespaces here'
		return
	fi
	[[ -x src/tools/peerpin-report ]] || { skip 'an occupied folder: configured with --disable-tools'; return; }
	# shellcheck disable=SC2016 # expanded inside
	script='mount -t tmpfs none /dev/shm && mkdir -m 755 "/dev/shm/peerpin-$UID" || exit
		for rank in 0 1; do
			OMPI_COMM_WORLD_RANK=$rank PMIX_NAMESPACE=job10 "$1" adapter allocated=3 exit
		done
		"$1" allocated=5 _exit
		unset LD_PRELOAD
		cd /dev/shm && echo folders: peerpin-*
		"$2/peerpin-report"
		"$2/peerpin-top" --once
		echo "theirs: $(ls "peerpin-$UID")"'
	text=$(with env -u XDG_RUNTIME_DIR -u PEERPIN_SIM_SHM unshare -rm bash -c "$script" - "$client" "$build/src/tools" 2>&1)
	matches 'it gets a warning' '*<warn>*/dev/shm/peerpin-0 is not used: *The statistics are in /dev/shm/peerpin-0.*. Remove it, *' "$text"
	same 'one for the ranks of a job, and one of another process' 2 "$(grep -c 'warn.*is not used' <<<"$text")"
	matches 'all processes share one private folder' $'folders: peerpin-0 peerpin-0.*[0-9a-f]' "$(grep folders: <<<"$text")"
	matches 'a report names that folder, and has the statistics of the private one' \
		$'*\npeerpin report: /dev/shm/peerpin-0 is not private to you: *1 killed*' "$text"
	matches 'top says so' $'*\n/dev/shm/peerpin-0 is not private to you: *' "$text"
	same 'nothing is in the folder of the other user' 'theirs: ' "$(grep theirs: <<<"$text")"
	matches 'a folder of the session that others can reach gets a warning' "*<warn>*$tmp/run/peerpin is not used: *" "$(
		afresh
		mkdir -m 755 "$tmp/run/peerpin"
		with unshare -rm bash -c 'mount -t tmpfs none /dev/shm; "$1" allocated=1 exit' - "$client" 2>&1)"
}

# Failed writes are skipped, and the exit status of the program is unchanged.
nowhere_to_write() {
	same 'nobody reads standard error' 0 "$(LD_LIBRARY_PATH="$PWD/src/sim/adapter/.libs:$PWD/src/sim/.libs" \
		python3 - "$library" "$client" <<-'PYTHON'
			import os, subprocess, sys
			environment = dict(os.environ, LD_PRELOAD=sys.argv[1])
			reads, writes = os.pipe()
			os.close(reads)
			print(subprocess.run([sys.argv[2], "adapter", "allocated=1", "sent=1", "exit"], env=environment, stderr=writes,
			    restore_signals=True).returncode)
		PYTHON
	)"
	matches 'no room for the results' '*File too large*=> 0' "$(outcome with PEERPIN_SUMMARY=none \
		PEERPIN_STATS_FILE="$tmp/large.json" "$client" adapter allocated=1 sent=1 limit=100 exit)"
	same 'no room for the numbers while it runs' $'\n=> 0' "$(outcome with PEERPIN_SUMMARY=none "$client" limit=100 allocated=1 exit)"
}

at_exit
never_used
kept_memory
nowhere_to_write
reasons
hooks_of_ucx
adapters_chosen
in_silence
however_it_ends
one_table_for_each_host
without_a_folder
harmed_files
occupied_folder
equal_numbers
scarce_segments
finish
