#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_statistics.sh -- table, statistics file and snapshot after every kind of process end
set -euo pipefail

# shellcheck source=tests/tools/preloaded
. "$(dirname "$0")/preloaded"

at_exit() {
	local table long

	afresh
	table=$(with PEERPIN_SUMMARY=table PEERPIN_STATS_FILE="$tmp/exit.json" "$client" adapter allocated=1 sent=1 allocated=19 settled sent=6 free exit 2>&1)
	matches 'the first line names version, program and process' \
		'peerpin [0-9]*  client  host *  process [0-9]*' "${table%%$'\n'*}"
	matches 'the second line has the use of GPUDirect RDMA' *$'\nGPUDirect RDMA   not used: software adapter sim0; dma-buf; 20.0 MiB registered at peak\n'* "$table"
	matches 'allocations' *$'\nfrees            20 of 20 allocations  20 deregistrations ('*')  0 missed'* "$table"
	same 'no file is left in the runtime folder' '' "$(left)"
	for expected in allocations=20 frees=20 allocations_device=20 requests=7 hits=6 synchronous=1 registrations_background=19 \
		invalidated=20 never_used=13 never_used_bytes=13631488 pinned_bytes=0 pinned_bytes_peak=20971520 complete=true ended=exit \
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
	matches 'the summary of one line' 'peerpin: * GPUDirect RDMA not used: software adapter sim0; dma-buf; 1.0 MiB registered at peak, hits 0/1' \
		"$(with PEERPIN_SUMMARY=line "$client" adapter allocated=1 sent=1 exit 2>&1)"
}

# Never used regions of programs that exit with live allocations; a request ends that state.
never_used() {
	with PEERPIN_SUMMARY=none PEERPIN_STATS_FILE="$tmp/alive.json" "$client" adapter allocated=1 sent=1 allocated=19 settled sent=6 exit
	for expected in never_used=13 never_used_bytes=13631488 invalidated=0; do
		same "JSON, alive: $expected" "$expected" "${expected%%=*}=$(number "${expected%%=*}" "$tmp/alive.json")"
	done
	same 'their sizes are in the histogram' 13 "$(python3 -c '
import json,sys
print(sum(json.load(open(sys.argv[1]))["histograms"]["never_used_bytes"]))' "$tmp/alive.json")"
	with PEERPIN_SUMMARY=none PEERPIN_STATS_FILE="$tmp/used.json" "$client" adapter allocated=1 sent=1 allocated=19 settled sent=20 exit
	for expected in never_used=0 never_used_bytes=0 never_used_ns=0; do
		same "JSON, all used: $expected" "$expected" "${expected%%=*}=$(number "${expected%%=*}" "$tmp/used.json")"
	done
	same 'with all used, the histogram is empty' '[]' "$(python3 -c '
import json,sys
print(json.load(open(sys.argv[1]))["histograms"]["never_used_bytes"])' "$tmp/used.json")"
}

kept_memory() {
	local table

	afresh
	table=$(with PEERPIN_SUMMARY=table PEERPIN_KEEP=10% PEERPIN_STATS_FILE="$tmp/kept.json" "$client" adapter allocated=3 free allocated=2 exit 2>&1)
	matches 'kept memory has a line' \
		*$'\nkept memory      3 kept  2 reused  3.0 MiB at peak'* "$table"
	for expected in kept=3 reused=2 kept_released=0 kept_bytes=1048576 kept_bytes_peak=3145728 kept_host_bytes=0; do
		same "JSON, kept: $expected" "$expected" "${expected%%=*}=$(number "${expected%%=*}" "$tmp/kept.json")"
	done
	same 'the settings have the percentage' '{"PEERPIN_KEEP":"10%"}' \
		"$(number settings "$tmp/kept.json" | sed 's/,"PEERPIN_SUMMARY[^}]*//')"
	matches 'kept host memory, too' *'  2 kept  1 reused  0 B at peak  1.0 MiB of host memory'* \
		"$(with PEERPIN_SUMMARY=table PEERPIN_KEEP_HOST=8M "$client" adapter allocated=1 locked=2 free exit 2>&1)"
	with PEERPIN_SUMMARY=none PEERPIN_KEEP=2M PEERPIN_KEEP_HOST=8M PEERPIN_STATS_FILE="$tmp/limit.json" "$client" allocated=4 free locked=1 exit
	# The third free of 1 MiB releases the memory of the first: a limit holds for the peak, too. The fourth keeps nothing.
	for expected in kept=4 kept_released=1 kept_bytes=2097152 kept_bytes_peak=2097152 kept_host_bytes=1048576 kept_host_bytes_peak=1048576; do
		same "JSON, kept within its limit: $expected" "$expected" "${expected%%=*}=$(number "${expected%%=*}" "$tmp/limit.json")"
	done
}

reasons() {
	matches 'host memory alone' *$'\nGPUDirect RDMA   not used: only host memory was registered\n'* \
		"$(with PEERPIN_SUMMARY=table "$client" adapter allocated=1 host=2 exit 2>&1)"
	matches 'nothing registered' *$'\nGPUDirect RDMA   not used: no registration was requested\n'* \
		"$(with PEERPIN_SUMMARY=table "$client" adapter allocated=1 exit 2>&1)"
	matches 'dma-bufs exported, which the provider does not register' \
		*$'\nGPUDirect RDMA   not used: dma-bufs of GPU memory were exported, none was registered\n'* \
		"$(with PEERPIN_SUMMARY=table "$client" adapter allocated=1 size=65536 export host=2 exit 2>&1)"
	matches 'no adapter' *$'\nGPUDirect RDMA   not used: the program opened no RDMA adapter\n'* \
		"$(with PEERPIN_SUMMARY=table "$client" allocated=1 exit 2>&1)"
	same 'nor a table' '' "$(with "$client" allocated=1 exit 2>&1)"
	for setting in PEERPIN_KEEP=1% PEERPIN_KEEP_HOST=1M PEERPIN_PREREGISTER=eager; do
		matches "but with $setting" *$'\nGPUDirect RDMA   not used: the program opened no RDMA adapter\n'* \
			"$(with $setting OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0 "$client" allocated=1 exit 2>&1)"
	done
	matches 'a failed registration is a reason' *$'\n  forwarded      1 registration failed\n'* \
		"$(with PEERPIN_SUMMARY=table PEERPIN_LOG_LEVEL=none PEERPIN_PREREGISTER=off PEERPIN_SIM_ADAPTER_DMABUF=0 PEERPIN_SIM_ADAPTER_PEER=0 \
			"$client" adapter allocated=1 sent=1 exit 2>&1 || :)"
}

# ucx WORD [NAME=VALUE...]: the end of the table of a program with UCX, on a driver with new entries
ucx() {
	with LD_LIBRARY_PATH="$build/src/sim/adapter/.libs:$build/tests/stacks/newer/.libs:$build/tests/intercept/.libs" \
		PEERPIN_SUMMARY=table PEERPIN_STATS_FILE="$tmp/ucx.$1.json" "${@:2}" "$client" adapter allocated=1 "$1" sent=1 exit 2>&1 | grep UCX
}

hooks_of_ucx() {
	local line='*  0 forwarded  1 UCX without hooks: its requests hit (use UCX 1.18.1)'

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
	same 'of the ranks of a host one line is worth it' \
		"peerpin: GPUDirect RDMA not used: no RDMA adapter was opened by local rank 0. Run 'peerpin doctor' on its host." "$(
			for rank in 0 1 2; do
				OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_RANK=$rank with "$client" allocated=1 exit 2>&1
			done)"
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

# snapshot NAME: a number of the only snapshot
snapshot() {
	jq -r ".$1" "$tmp"/run/peerpin/*.stats 2>/dev/null
}

# A killed process leaves its latest snapshot, at most half a second old.
however_it_ends() {
	local word child

	mkfifo "$tmp/requests"
	# An aborting MPI library sends SIGTERM to its ranks, and SIGKILL 1 s later.
	for word in _exit abort segfault terminate kill throw; do
		afresh
		(
			ulimit -c 0
			with PEERPIN_SUMMARY=none "$client" adapter allocated=1 sent=1 allocated=19 settled asked "$word" <"$tmp/requests" >"$tmp/out" 2>&1
		) 2>"$tmp/shell" &
		child=$!
		exec 7>"$tmp/requests"
		echo 1 >&7
		until grep -q . "$tmp/out"; do sleep 0.01; done
		until [[ $(snapshot requests) -gt 16 ]]; do echo 16 >&7 && sleep 0.01; done
		exec 7>&-
		wait $child || :
		same "$word leaves a file" 'PID.stats ' "$(left)"
		same "$word leaves the counters of the latest snapshot" '20 20 20971520 running' \
			"$(jq -r '"\(.allocations) \(.registrations) \(.pinned_bytes_peak) \(.ended)"' "$tmp"/run/peerpin/*.stats)"
		[[ -x src/tools/peerpin-report ]] || { skip "a report after $word: configured with --disable-tools"; continue; }
		same "$word is a kill for a report" '20 1 0' \
			"$("$PWD/src/tools/peerpin-report" --json "$tmp/run/peerpin"/*.stats | jq -r '.jobs[0] | "\(.totals.allocations) \(.killed) \(.running)"')"
	done
}

one_table_for_each_host() {
	local -A ranks=()
	local lock=job.job1.${HOSTNAME%%.*}.lock other=job.job2.${HOSTNAME%%.*}.lock

	afresh
	for i in 1 2 0; do start "$i"; done
	for i in 0 2 1; do end "$i"; done
	same 'other ranks print nothing' '' "$(cat "$tmp/table2" "$tmp/table1")"
	matches 'local rank 0 prints its table' '*process [0-9]* rank 0 job job7 *requests 0 * 10 allocations *' \
		"$(tr -s ' \n' ' ' <"$tmp/table0")"
	same 'each leaves its numbers' 'PID.stats PID.stats PID.stats ' "$(left)"
	[[ ! -x src/tools/peerpin-report ]] || same 'a report has all' '3 30 3 true' \
		"$("$PWD/src/tools/peerpin-report" --json | jq -r '.jobs[0] | "\(.processes) \(.totals.allocations) \(.totals.requests) \(.complete)"')"
	matches 'without a local rank each process prints a line' 'peerpin: rank 3 * GPUDirect RDMA not used: software adapter sim0; *' \
		"$(OMPI_COMM_WORLD_RANK=3 with "$client" adapter allocated=1 sent=1 exit 2>&1)"
	matches 'nor without a launcher' 'peerpin: * GPUDirect RDMA not used: software adapter sim0; *' \
		"$(with "$client" adapter allocated=1 sent=1 exit 2>&1)"
	matches 'with PEERPIN_SUMMARY=table a table' 'peerpin * client *requests *' "$(with PEERPIN_SUMMARY=table "$client" adapter allocated=1 sent=1 exit 2>&1)"
	same 'but not of other local ranks' '' \
		"$(PMIX_RANK=1 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_RANK=1 with PEERPIN_SUMMARY=table "$client" adapter allocated=1 sent=1 exit 2>&1)"
	afresh
	mkdir -m 700 "$tmp/run/peerpin"
	# Files of jobs with only killed ranks, and job names that are not reused.
	touch -d '2 hours ago' "$tmp/run/peerpin/$lock"
	touch "$tmp/run/peerpin/$other"
	with "$client" allocated=1 exit
	same 'the file of a killed job stays for 1 h' "$other " "$(left)"
}

# A folder with wrong permissions or without room: the statistics stay in memory, and the program
# runs.
without_a_folder() {
	afresh
	mkdir -m 755 "$tmp/run/peerpin"
	matches 'open to others' *'  process '*' of 3 allocations '* \
		"$(with PEERPIN_SUMMARY=table "$client" adapter allocated=3 exit 2>&1)"
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
		matches 'full' *' of 3 allocations '*'=> 0 '$'\n' "$(with PEERPIN_SUMMARY=table unshare -rm bash -c '
			mount -t tmpfs -o size=8k none "$1" && "$2" adapter allocated=3 exit; echo "=> $? $(ls "$1/peerpin")"' \
			- "$tmp/run" "$client" 2>&1)"$'\n'
		# Files of 100 recently killed processes almost fill the file system.
		same 'files of ended processes are removed where there is little room' '64 PID.stats' "$(with unshare -rm bash -c '
			mount -t tmpfs -o size=16m none "$1" && mkdir -m 700 "$1/peerpin" && cd "$1/peerpin" || exit
			"$2" allocated=1 _exit
			own=$(echo *.stats)
			rm "$own"
			for i in {1..100}; do head -c 150000 /dev/zero >"999999$i-${own#*-}"; done
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
	local how status

	for how in 'truncate -s 0' 'rm' 'shred -n 1'; do
		afresh
		start 0
		$how "$tmp"/run/peerpin/*
		status=0
		eval 'exec 10>&- 20<&-'
		wait "${ranks[0]}" || status=$?
		rm -f "$tmp/in0" "$tmp/out0"
		same "after $how the program ends as without peerpin" 0 "$status"
		matches "after $how it reports itself" '* of 10 allocations *' "$(tr -s ' \n' ' ' <"$tmp/table0")"
	done
}

# Containers that share the folder, and each number their processes from 1.
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
	same 'each has a file' 'PID.stats PID.stats ' "$(left)"
	# Cleans the folder, in which no process of these numbers lives for it.
	with "$client" allocated=1 exit
	[[ ! -x $report ]] || same 'a report has both, as running' '["running","running"]' \
		"$("$report" --json | jq -c '[.jobs[].ranks[].ended]')"
	exec 12>&- 22<&-
	wait "${others[2]}" || :
	exec 11>&- 21<&-
	wait "${others[1]}" || :
	[[ ! -x $report ]] || same 'each has left its numbers' '2 3 true' \
		"$("$report" --json | jq -r '.jobs[0] | "\(.processes) \(.totals.allocations) \(.complete)"')"
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
	mkdir "$tmp/temporary"
	script='mount -t tmpfs none /dev/shm && mkdir -m 755 "/dev/shm/peerpin-$UID" || exit
		for rank in 0 1; do
			OMPI_COMM_WORLD_RANK=$rank PMIX_NAMESPACE=job10 "$1" adapter allocated=3 exit
		done
		"$1" allocated=5 _exit
		unset LD_PRELOAD
		"$2/peerpin-report"
		"$2/peerpin-top" --once
		echo "theirs: $(ls "/dev/shm/peerpin-$UID")"'
	text=$(with env -u XDG_RUNTIME_DIR -u PEERPIN_SIM_SHM TMPDIR="$tmp/temporary" PEERPIN_SUMMARY=none \
		unshare -rm bash -c "$script" - "$client" "$build/src/tools" 2>&1)
	matches 'it gets a warning' "*<warn>*/dev/shm/peerpin-0 is not used: *The statistics are in $tmp/temporary/peerpin-0/*. Remove it, *" "$text"
	matches 'a report names that folder, and has the statistics of the other one' \
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
finish
