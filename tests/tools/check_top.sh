#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_top.sh -- peerpin top and peerpin report over snapshots of running, exited and killed
# processes
set -euo pipefail

here=$(dirname "$0")
# shellcheck source=tests/launcher/checks
. "$here/../launcher/checks"
command -v python3 >/dev/null && command -v jq >/dev/null || exit 77

top=$PWD/src/tools/peerpin-top
report=$PWD/src/tools/peerpin-report
client=$(built "$PWD/tests/tools/client")
watched=(adapter size=2097152 allocated=1 asked)
library=$(readlink -f src/.libs/libpeerpin.so)
simulated=$PWD/src/sim/adapter/.libs:$PWD/src/sim/.libs
tmp=$(mktemp -d)
pids=()
requests=()
# shellcheck disable=SC2317 # by the trap
clean_up() {
	((${#pids[@]} == 0)) || kill -9 "${pids[@]}" 2>/dev/null || true
	rm -rf "$tmp"
}
trap clean_up EXIT
# Without this folder top would read the folder of all processes of this user.
mkdir -p "$tmp/run"
mkdir -m 700 "$tmp/run/peerpin"
export XDG_RUNTIME_DIR=$tmp/run LC_ALL=C.UTF-8 TERM=xterm
for name in ${!PEERPIN_@}; do unset "$name"; done
export PEERPIN_SIM_SHM=$tmp/shm # hides other processes of this user

# start RANK JOB: a client with a snapshot, connected to descriptors 1RANK and 2RANK
start() {
	mkfifo "$tmp/in$1" "$tmp/out$1"
	OMPI_COMM_WORLD_RANK=$1 PMIX_NAMESPACE=$2 PEERPIN_SUMMARY=none PEERPIN_STATS_FILE="$tmp/results.%r.json" \
		LD_LIBRARY_PATH=$simulated LD_PRELOAD=$library "$client" "${watched[@]}" <"$tmp/in$1" >"$tmp/out$1" &
	pids[$1]=$!
	eval "exec 1$1>'$tmp/in$1' 2$1<'$tmp/out$1'"
	request "$1" 0
}

# request RANK NUMBER: makes that many requests
request() {
	local answer

	echo "$2" >&"1$1"
	read -r answer <&"2$1"
	[[ $answer == "done" ]]
}

# number RANK KEY: of the latest snapshot
number() {
	jq ".$2" "$XDG_RUNTIME_DIR/peerpin/${pids[$1]}"-*.stats
}

# settle RANK: makes requests until a snapshot has the last ones, and stores their number in requests[RANK]
settle() {
	local before

	before=$(number "$1" requests)
	until [[ $(number "$1" requests) != "$before" ]]; do
		request "$1" 16
		sleep 0.01
	done
	requests[$1]=$(number "$1" requests)
}

# end RANK: closes its input
end() {
	eval "exec 1$1>&-"
	wait "${pids[$1]}"
}

options_and_statuses() {
	matches 'help begins with the usage' 'usage: peerpin top *=> 0' "$(outcome "$top" --help)"
	matches 'version' 'peerpin [0-9]*=> 0' "$(outcome "$top" --version)"
	same 'an unknown option' $'peerpin top: unknown option: --bogus (see peerpin top --help)\n=> 2' "$(outcome "$top" --bogus)"
	for word in 0 -1 nan inf 1e9 a ''; do
		matches "interval '$word'" '*--interval takes*=> 2' "$(outcome "$top" --interval "$word")"
	done
	for word in a 0 -- -5 12a 99999999999999999999; do
		[[ $word = -- ]] || matches "process '$word'" '*=> 2' "$(outcome "$top" --once -- "$word")"
	done
	matches 'no process' '*0 running*No process of yours uses peerpin on this host now.*=> 1' "$(outcome "$top" --once)"
	same '-n 1 is --once' "$(outcome "$top" --once | sed 's/..:..:..//')" "$(outcome "$top" -n 1 | sed 's/..:..:..//')"
	same '-n 3 prints three times' 3 "$(timeout 60 "$top" --json --interval 0.05 -n 3 | grep -c . || true)"
	for word in 0 -1 x 1x ''; do
		matches "-n '$word'" '*-n takes*=> 2' "$(outcome "$top" -n "$word")"
	done
	matches 'output that is no terminal' 'peerpin top: standard output is no terminal: *--once*=> 2' "$(outcome timeout 60 "$top")"
	for option in --once '--interval 0.05' --json; do
		# shellcheck disable=SC2086 # words
		same "a process number that does not exist, with $option" $'peerpin top: no process has the number 99999999\n=> 1' \
			"$(outcome timeout 60 "$top" $option 99999999)"
	done
	same 'no process, as JSON' '[]' "$("$top" --once --json | jq -c .processes || true)"
}

running() {
	local json

	settle 0
	settle 1
	json=$("$top" --once --json)
	same 'running processes' "[[0,${pids[0]},${requests[0]},\"running\"],[1,${pids[1]},${requests[1]},\"running\"]]" \
		"$(jq -c '[.processes[] | [.rank, .pid, .requests, .ended]]' <<<"$json")"
	same 'pinned bytes' '[2097152,2097152]' "$(jq -c '[.processes[].pinned_bytes]' <<<"$json")"
	matches 'the plain form' "*2 running, 0 killed*requests *
    0 *${pids[0]} *client *2.00 MiB *running
    1 *${pids[1]} *client *2.00 MiB *running*" "$("$top" --once)"
	matches 'host and job' "peerpin top  $(uname -n | cut -d. -f1 | cut -c1-16)  *
    0 *${pids[0]} 4711 *" "$("$top" --once)"
	same 'one process' "[${pids[1]}]" "$("$top" --once --json "${pids[1]}" | jq -c '[.processes[].pid]')"
	same 'a job' 2 "$("$top" --once --json --job 4711 | jq '.processes | length')"
	matches 'another job' '*No process of job 4712 uses peerpin on this host now.*=> 1' "$(outcome "$top" --once --job 4712)"
	matches 'another process' '*That process does not use peerpin on this host now.*=> 1' "$(outcome "$top" --once $$)"
	matches 'other processes' '*None of these processes uses peerpin on this host now.*=> 1' "$(outcome "$top" --once $$ 1)"
	matches 'report of a running job' '*client  job 4711  2 processes *  2 running*not used: software adapter sim0; *=> 0' "$(outcome "$report")"
	matches 'its advice names the program'"'"'s file' "*-> peerpin doctor $client"$'\n'* "$("$report")"
	jq '.start_ticks += 1' "$tmp/run/peerpin/${pids[0]}"-*.stats >"$tmp/later.stats"
	same 'a reused process number is another process' '["killed"]' \
		"$("$report" --json "$tmp/later.stats" | jq -c '[.jobs[0].ranks[].ended]')"
	jq '.pid_namespace += 1' "$tmp/run/peerpin/${pids[0]}"-*.stats >"$tmp/run/peerpin/1-1.stats"
	same 'a process of a container counts as running' '["running"]' \
		"$("$report" --json "$tmp/run/peerpin/1-1.stats" | jq -c '[.jobs[0].ranks[].ended]')"
	touch -d '2 hours ago' "$tmp/run/peerpin/1-1.stats"
	same 'for an hour' '["killed"]' "$("$report" --json "$tmp/run/peerpin/1-1.stats" | jq -c '[.jobs[0].ranks[].ended]')"
	rm "$tmp/run/peerpin/1-1.stats"
	same 'the tools leave the files' "$(printf '%s\n' "${pids[@]}" | sort -n | xargs)" "$(files)"
}

# Requests between two blocks of a stream are in the later block alone.
stream() {
	local first later

	exec 3< <(exec "$top" --json --interval 0.05)
	read -r first <&3
	settle 1
	# The first block after these requests.
	until read -r later <&3 && [[ $(jq '.processes[1].requests' <<<"$later") == "${requests[1]}" ]]; do :; done
	exec 3<&-
	same 'a stream has new counts' true "$(jq --argjson later "${requests[1]}" '.processes[1].requests < $later' <<<"$first")"
	same 'a process with requests has a rate' true "$(jq '.processes[1].requests_per_1000_s > 0' <<<"$later")"
	same 'a process without requests has a rate of 0' 0 "$(jq '.processes[0].requests_per_1000_s' <<<"$later")"
	matches 'a closed pipe is no error' '*peerpin top *=> 0' \
		"$(outcome bash -c "timeout 120 '$top' --interval 0.05 | head -1; [[ \${PIPESTATUS[0]} != 124 ]]")"
}

# titles COLUMNS PROCESSES: titles of the columns on a terminal, the number of their line, and lines
# that are too wide or lack the state of their process
titles() {
	timeout 300 python3 - "$top" "$1" "$2" <<'TEXT'
import fcntl, os, pty, re, struct, sys, termios

pid, fd = pty.fork()
if pid == 0:
    columns = int(sys.argv[2])
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24 if columns else 0, columns, 0, 0))
    os.execv(sys.argv[1], [sys.argv[1], "--interval", "0.05"])
seen = b""
while seen.count(b"peerpin top") < 2:
    seen += os.read(fd, 4096)
os.write(fd, b"q")
lines = re.sub(r"\x1b\[[?0-9]*[a-zA-Z]", "", seen.decode().split("peerpin top")[1]).replace("\r", "").split("\n")
titles = [line for line in lines if line.startswith(" rank")]
print(" ".join(titles[0].split()), lines.index(titles[0]))
for line in lines[1:]:
    if len(line) > (int(sys.argv[2]) or 80):
        print("too wide:", line)
if sum(line.endswith("  running") for line in lines) != int(sys.argv[3]):
    print("no state:", lines)
TEXT
}

# At every width no line is cut, and the most important columns remain.
narrow() {
	local columns left

	for columns in 200 80 60 0; do
		left=$(titles $columns 2)
		case $columns in
		200) same '200 columns show everything' 'rank pid job program pinned peak regs /s requests/s hits waited failed age state 4' "$left" ;;
		# A terminal of unknown size counts as 80 columns wide.
		80 | 0) same "in $columns columns" 'rank pid program pinned requests/s hits failed state 4' "$left" ;;
		60) same 'in 60 columns' 'rank pid pinned requests/s hits failed state 4' "$left" ;;
		esac
	done
}

on_a_terminal() {
	same 'q, INT, TERM and HUP restore the terminal' 'q: 0
INT: -2
TERM: -15
HUP: -1' "$(timeout 300 python3 - "$top" <<'TEXT'
import os, pty, signal, sys, termios

def run(how):
    told, tell = os.pipe()
    wait, stay = os.pipe()
    leader, fd = pty.fork()
    # The end of the session leader hangs up the terminal and may drop unread output: keep the leader.
    if leader == 0:
        os.close(stay)
        pid = os.fork()
        if pid == 0:
            os.execv(sys.argv[1], [sys.argv[1], "--interval", "0.05"])
        os.write(tell, b"%d\n" % pid)
        os.write(tell, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        os.read(wait, 1)
        os._exit(0)
    lines = os.fdopen(told)
    pid = int(lines.readline())
    seen = b""
    # 2 redraws: top is in its loop.
    while seen.count(b"peerpin top") < 2:
        seen += os.read(fd, 4096)
    assert seen.startswith(b"\033[?1049h") and b"rank" in seen, seen
    assert not termios.tcgetattr(fd)[3] & (termios.ICANON | termios.ECHO)
    if how == "q":
        os.write(fd, b"q")
    else:
        os.kill(pid, getattr(signal, "SIG" + how))
    while b"\033[?1049l" not in seen:
        seen += os.read(fd, 4096)
    # top restores the mode after its last output.
    status = lines.readline().strip()
    mode = termios.tcgetattr(fd)[3]
    assert mode & termios.ICANON and mode & termios.ECHO, mode
    os.close(stay)
    os.waitpid(leader, 0)
    os.close(fd)
    os.close(tell)
    os.close(wait)
    lines.close()
    print(how + ": " + status)

for how in ("q", "INT", "TERM", "HUP"):
    run(how)
TEXT
)"
}

# The library uses only private folders; the tools must ignore others.
open_folder() {
	local count='[.jobs[]? | select(.job == "4711")] | length' mode

	mkdir -p "$tmp/open/peerpin"
	cp "$tmp/run/peerpin/${pids[1]}"-*.stats "$tmp/open/peerpin"
	for mode in 700:1 755:0; do
		chmod "${mode%:*}" "$tmp/open/peerpin"
		same "a folder with mode ${mode%:*}" "${mode#*:}" \
			"$({ XDG_RUNTIME_DIR=$tmp/open "$report" --json || true; } 2>/dev/null | jq "$count")"
	done
}

# A process that keeps memory, in a runtime folder of its own.
kept() {
	local watched=(adapter size=2097152 allocated=3 free allocated=1 locked=1 locked=1 asked)
	local -x XDG_RUNTIME_DIR=$tmp/keeping PEERPIN_KEEP=64M PEERPIN_KEEP_HOST=1G

	mkdir "$tmp/keeping"
	start 5 4713
	request 5 20 # so many hit that no hint stands above the columns
	settle 5
	matches 'kept memory has a line of sums and a column' '*
frees kept 5  reused 2  released 0  kept now 4.00 MiB  of the host 2.00 MiB

 rank *  pinned      peak      kept     regs *
    5 *  4.00 MiB *' "$("$top" --once)"
	same '200 columns show kept memory' 'rank pid job program pinned peak kept regs /s requests/s hits waited failed age state 5' "$(titles 200 1)"
	same '84 columns show kept memory' 'rank pid program pinned kept requests/s hits failed state 5' "$(titles 84 1)"
	same '80 columns show the sums' 'rank pid program pinned requests/s hits failed state 5' "$(titles 80 1)"
	kill -9 "${pids[5]}"
	wait "${pids[5]}" 2>/dev/null || true
	matches 'a killed process keeps nothing' '*
frees kept 5  reused 2  released 0  kept now 0 B  of the host 0 B
*' "$("$top" --once --job 4713)"
}

# Rank 1 is killed, rank 0 continues.
killed() {
	kill -9 "${pids[1]}"
	wait "${pids[1]}" 2>/dev/null || true
	same 'a killed process keeps its counters' "[[0,${requests[0]},\"running\"],[1,${requests[1]},\"killed\"]]" \
		"$("$top" --once --json | jq -c '[.processes[] | [.rank, .requests, .ended]]')"
	matches 'a killed process pins nothing' "*1 running, 1 killed  pinned 2.00 MiB
*    1 *${pids[1]} *client * 0 B  2.00 MiB *killed*" "$("$top" --once)"
	open_folder
	end 0
	same 'a process with a statistics file removes its snapshot' "${pids[1]}" "$(files)"
	matches 'without running ranks top refers to the report' '*No process*1 process was killed earlier and left its counters: peerpin report*=> 1' \
		"$(outcome "$top" --once)"
	same 'top shows a killed process by number' killed "$("$top" --once --json "${pids[1]}" | jq -r '.processes[0].ended')"
	requests[0]=$(jq .requests "$tmp/results.0.json")
	same 'the report adds the snapshot of the killed rank' "[[0,${requests[0]},\"exit\"],[1,${requests[1]},\"killed\"]]" \
		"$("$report" --json "$tmp/results.0.json" | jq -c '[.jobs[0].ranks[] | [.rank, .requests, .ended]]')"
	same 'such a report is incomplete' "false 1 $((requests[0] + requests[1]))" \
		"$("$report" --json "$tmp/results.0.json" | jq -r '.jobs[0] | "\(.complete) \(.killed) \(.totals.requests)"')"
	matches 'the table names the killed rank' '*rank 1: killed (no final record:*=> 0' "$(outcome "$report" "$tmp/results.0.json")"
	sed 's/"job": "4711"/"job": "4712"/' "$tmp/results.0.json" >"$tmp/other.json"
	sed 's/"started_ns": [0-9]*/"started_ns": 1/' "$tmp/results.0.json" >"$tmp/old.json"
	same 'snapshots are not added to an older job of this name' 1 "$("$report" --json "$tmp/old.json" | jq '.jobs[0].processes')"
	same 'snapshots are not added to another job' 1 "$("$report" --json "$tmp/other.json" | jq '.jobs[0].processes')"
}

# A zombie: its parent does not wait for it.
zombie() {
	mkdir "$tmp/zombie"
	mkfifo "$tmp/in9"
	(
		LD_LIBRARY_PATH=$simulated LD_PRELOAD=$library XDG_RUNTIME_DIR=$tmp/zombie "$client" "${watched[@]}" <"$tmp/in9" >"$tmp/out9" &
		echo $! >"$tmp/pid9"
		exec sleep 1000
	) &
	pids[9]=$!
	exec 19>"$tmp/in9"
	echo 1 >&19
	until grep -q . "$tmp/out9" 2>/dev/null; do sleep 0.01; done
	kill -9 "$(cat "$tmp/pid9")"
	# Wait for the last thread: the first may be a zombie while others still run.
	until [[ $(cut -d' ' -f3,20 "/proc/$(cat "$tmp/pid9")/stat") == 'Z 1' ]]; do sleep 0.01; done
	same 'a zombie is killed' '["killed"]' \
		"$(XDG_RUNTIME_DIR=$tmp/zombie "$report" --json | jq -c '[.jobs[0].ranks[].ended]')"
	kill -9 "${pids[9]}"
	wait "${pids[9]}" 2>/dev/null || true
}

# The report names damaged files; top omits them.
damaged() {
	local file

	file=$(echo "$tmp/run/peerpin/${pids[1]}"-*.stats)
	head -c 1000 "$file" >"$tmp/run/peerpin/1-1.stats"
	{ printf PEERPIN1 && head -c 9000 /dev/zero; } >"$tmp/run/peerpin/2.stats"
	head -c 1000 "$file" >"$tmp/run/peerpin/${pids[1]}-1.stats.new"
	python3 - "$file" "$tmp" <<'TEXT'
import random, sys
snapshot = open(sys.argv[1], "rb").read()
random.seed(1)
for at in range(40):
    damaged = bytearray(snapshot)
    for _ in range(random.choice([1, 1, 1, 300])):
        damaged[random.randrange(len(damaged))] = random.randrange(256)
    open(f"{sys.argv[2]}/damaged{at}.stats", "wb").write(damaged)
TEXT
	matches 'a truncated file' '*/1-1.stats: truncated in line*=> 1' "$(outcome "$report")"
	same 'files of an older version and parts are no problem' 1 "$("$report" --json 2>/dev/null | jq '.problems | length')"
	for at in 3 4 5 6; do cp "$tmp/run/peerpin/1-1.stats" "$tmp/run/peerpin/$at-1.stats"; done
	same 'of many such files 3 are listed' \
		'peerpin report: 2 more files for these reasons (--json lists all)
3' "$("$report" 2>&1 >/dev/null | grep -c 'truncated' >"$tmp/named"; "$report" 2>&1 >/dev/null | grep 'more files'; cat "$tmp/named")"
	rm "$tmp/run/peerpin/6-1.stats"
	matches '1 more has no plural' '*: 1 more file for these reasons*' "$("$report" 2>&1 >/dev/null || :)"
	rm "$tmp"/run/peerpin/[345]-1.stats
	same 'top omits it' 1 "$("$top" --once --json "${pids[1]}" | jq '.processes | length')"
	for at in {0..39}; do
		[[ $(outcome "$report" "$tmp/damaged$at.stats") == *'=> '[01] ]] || same "damage $at" 'an exit status of 0 or 1' \
			"$(outcome "$report" "$tmp/damaged$at.stats")"
	done
	rm "$tmp/run/peerpin/1-1.stats" "$tmp/run/peerpin/2.stats" "$tmp/run/peerpin/${pids[1]}-1.stats.new"
}

# files: process numbers of the snapshots
files() {
	(cd "$tmp/run/peerpin" && find . -name '*.stats' | sed 's|^\./\([0-9]*\).*|\1|' | sort -n | xargs)
}

# --remove removes reported snapshots of ended processes only.
removing() {
	local both file

	start 2 4711
	# Ranks of a job start within 600 s of each other, which this test may exceed on a busy machine.
	file=$(echo "$tmp/run/peerpin/${pids[1]}"-*.stats)
	jq --slurpfile late <(cat "$tmp/run/peerpin/${pids[2]}"-*.stats) '.started_ns = $late[0].started_ns' "$file" >"$tmp/late.json"
	cp "$tmp/late.json" "$file"
	both=$(printf '%s\n' "${pids[1]}" "${pids[2]}" | sort -n | xargs)
	"$report" >/dev/null
	same 'a report removes nothing' "$both" "$(files)"
	"$report" --remove "$tmp/other.json" >/dev/null
	same '--remove leaves unreported snapshots' "$both" "$(files)"
	"$report" --remove "$tmp/run/peerpin/${pids[2]}"-*.stats >/dev/null
	same '--remove removes the killed process and leaves the running one' "${pids[2]}" "$(files)"
	kill -9 "${pids[2]}"
	wait "${pids[2]}" 2>/dev/null || true
	echo '{' >"$tmp/run/peerpin/2-1.stats"
	matches '--remove with an unreadable file' '*2-1.stats: truncated*=> 1' "$(outcome "$report" --remove)"
	same '--remove leaves the unreadable file and removes the others' 2 "$(files)"
	rm "$tmp/run/peerpin/2-1.stats"
}

options_and_statuses
start 0 4711
start 1 4711
running
stream
narrow
kept
on_a_terminal
killed
zombie
damaged
removing
finish
