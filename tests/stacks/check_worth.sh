#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_worth.sh -- results of jobs of tests/stacks/worth reach their rows, no more jobs run than fit, in both orders
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/launcher/checks
. "$here/../launcher/checks"
command -v python3 >/dev/null || { echo 'SKIPPED: no python3'; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Three patterns (the second is skipped), two sizes, two repeats: a case is
# (repeat * 2 + size) * 3 + pattern, and has two phases. Figures depend on the phase alone.
python3 - "$tmp" <<'PYTHON'
import json, os, sys

folder = sys.argv[1]
PATTERNS, SIZES, REPEATS, ROUNDS = ("halo", "threads", "pool"), (64, 128), 2, 2

def write(name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))

def result(first, later, allocating=12):
    return {"first_send_ns": first * 1000, "send_ns": [us * 1000 for us in later], "allocation_ns": allocating * 1000}

def results(job, pattern, size, repeat):
    """Of both ranks; a round is over when the slower one has done."""
    if pattern != "pool" or size != 128:
        return [result(1000000, [999999, 999999])] * 2
    if job == "cache.keep":
        return [result(1000, [(1000, 2000)[repeat]] * 2, (3, 6)[repeat]), result(1000, [500, 1500], (3, 6)[repeat])]
    if job == "cache.again":
        return [result(9000, [4000, 4000], (12, 24)[repeat])] * 2
    if job.endswith(".with"):
        return [result((3000, 16000)[repeat], [(1750, 2500)[repeat]] * 2)] * 2
    if repeat:
        return [result(8000, [5000, 5000]), result(2000, [100, 100])]
    return [result(4000, [2000, 4000]), result(6000, [3000, 1000])]

write("plan", f"patterns {','.join(PATTERNS)}\nsizes 64,128\nrepeats {REPEATS}\nrounds {ROUNDS}\nkind vm\nadded_us 7\nbinding core\nsecond the second way\ngpu \nload 0\n")
for job in ("cache.without", "cache.keep", "cache.again", "cache.with", "direct.with", "direct.without"):
    witness, requests, hits = {}, 0, 0
    for case in range(REPEATS * len(SIZES) * len(PATTERNS)):
        pattern = PATTERNS[case % 3]
        size, repeat = SIZES[case // 3 % 2], case // 6
        for phase in (2 * case, 2 * case + 1):
            skipped = pattern == "threads"
            number = 0 if skipped else phase + 1
            witness |= {f"phase{phase}_gpu_by_program": number, f"phase{phase}_gpu_by_worker": 10 * number,
                        f"phase{phase}_gpu_program_ns": 1000 * number,
                        f"phase{phase}_gpu_request_ns": number * (1000 if job.endswith("without") else 500), f"phase{phase}_gpu_deregistrations": 3 * number}
            requests, hits = requests + number, hits + (number > 0)
            if not (skipped and phase % 2):
                witness |= {f"phase{phase}_peerpin_requests": requests, f"phase{phase}_peerpin_hits": hits}
        if pattern != "threads":
            for rank, one in enumerate(results(job, pattern, size, repeat)):
                write(f"{job}.{pattern}.{size}.{repeat}.{rank}", one)
    for rank in range(2):
        write(f"{job}.witness.{rank}", witness)
PYTHON

# fields NAME...: of the row of pool with 128 bytes, without a cache
fields() {
	fields_of False "$@"
}

# fields_of CACHE NAME...
fields_of() {
	python3 -c '
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    rows = json.load(file)["rows"]
row, = (row for row in rows if (row["case"], row["bytes"], str(row["cache"])) == ("pool", 128, sys.argv[2]))
print(len(rows), *(row.get(name) for name in sys.argv[3:]))' "$tmp/table" "$@"
}

"$here/worth_table" "$tmp" >"$tmp/table" 2>"$tmp/complaint"
same 'a pattern that was skipped is named' 'worth_table: without results, and left out: threads' "$(<"$tmp/complaint")"
# Cases 5 and 11 of 2 ranks: first phases 10 and 22, later ones 11 and 23. 2 * (12 + 24) in
# 8 rounds, 2 * (11 + 23) in 4.
same 'registrations are those of its phases' '8 9.0 17.0 9.0 17.0' "$(fields registrations_without \
	first_registrations_without registrations_with first_registrations_with)"
same 'and what peerpin counted in them' '8 72 4' "$(fields requests hits)"
same 'a time is the median of both repeats' '8 4250.0 2125.0 7000.0 9500.0' "$(fields without_us with_us first_without_us first_with_us)"
same 'ratios are of each repeat' '8 2.0 2.0 2.0 1.25 0.5 2.0' \
	"$(fields ratio low_ratio high_ratio first_ratio first_low_ratio first_high_ratio)"
# (11 + 12) * 2 ranks / 2, and half of that; (23 + 24) in the second repetition.
same 'as is the time of requests, of all rounds' '8 35.0 17.5 2.0 2.0 2.0' "$(fields requesting_without_us requesting_with_us \
	requesting_ratio requesting_low_ratio requesting_high_ratio)"
# Median round of each repetition: without 3500 and 5000 us, with kept memory 1250 and 2000, again without 4000.
same 'kept memory is compared with the first job without peerpin' '8 4250.0 1625.0 2.65 2.5 2.8' \
	"$(fields_of True keep_without_us keep_with_us keep_ratio keep_low_ratio keep_high_ratio)"

# The source of the adapter is replaced, in a copy. As many phases fit as the witness has room for: one pattern and one
# size have 2 for each repeat, and one more.
mkdir -p "$tmp/copy/tests/"{rdma,stacks} "$tmp/build/tests/stacks"
cp "$here/worth" "$here/worth_jobs" "$here/verbs_witness.h" "$tmp/copy/tests/stacks"
printf '#!/bin/sh\necho it runs >&2\nexit 125\n' >"$tmp/copy/tests/rdma/run"
printf '#!/bin/sh\nprintf "%%s\\n" halo crash\n' >"$tmp/build/tests/stacks/patterns"
chmod +x "$tmp/build/tests/stacks/patterns" "$tmp/copy/tests/rdma/run"
room=$(sed -n 's/^#define PHASES[[:space:]]*//p' "$here/verbs_witness.h")
matches 'as many phases are run as there is room for' '*it runs*=> 125' \
	"$(outcome "$tmp/copy/tests/stacks/worth" --sizes 64 --repeats $(((room - 1) / 2)) "$tmp/build")"
matches 'and no more' "*1 patterns, 1 sizes and --repeats * phases, and the witness has room for $room
=> 2" "$(outcome "$tmp/copy/tests/stacks/worth" --sizes 64 --repeats $(((room - 1) / 2 + 1)) "$tmp/build")"

# A mock mpirun, or peerpin before it, whose two ranks take turns as tests/stacks/turns.c does, and note each case.
# Rank 1 is slower, so that a turn which starts before both ranks have ended the last one is found.
mkdir -p "$tmp/turns" "$tmp/build/scripts"
cat >"$tmp/turns/mpirun" <<'MOCK'
#!/usr/bin/env bash
while [[ $1 != -n ]]; do shift; done
IFS=, read -ra patterns <<<"$4"
IFS=, read -ra sizes <<<"$6"
repeats=$8 job=${12} from=${14} to=${16}
rank() {
	local case
	exec {in}<>"$from.$1" {out}<>"$to.$1"
	[[ $job != */direct.with ]] || sleep 0.3
	echo "ready ${job##*/}" >>"${job%/*}/ready"
	printf t >&"$out"
	read -rN1 -t 30 -u "$in" || exit
	(($(wc -l <"${job%/*}/ready") == 12)) || echo "${job##*/} is early" >>"${job%/*}/noted"
	for ((case = 0; case < repeats * ${#sizes[@]} * ${#patterns[@]}; case++)); do
		(($1 == 0)) || sleep 0.01
		echo "$case ${job##*/}" >>"${job%/*}/noted"
		printf t >&"$out"
		read -rN1 -t 30 -u "$in" || exit
	done
}
rank 0 &
rank 1 &
wait
MOCK
chmod +x "$tmp/turns/mpirun"
cp "$tmp/turns/mpirun" "$tmp/build/scripts/peerpin"
names=(cache.without cache.keep cache.again cache.with direct.with direct.without)

# turns PATTERNS SIZES REPEATS: status of the jobs; of each turn the number of ranks that took it, case and job
turns() {
	local status=0

	rm -rf "$tmp/jobs" && mkdir "$tmp/jobs"
	PATH=$tmp/turns:$PATH RDMA_TEST_DEVICE=none RDMA_TEST_GID_INDEX=0 timeout 30 \
		"$here/worth_jobs" "$tmp/build" "$tmp/jobs" "$2" "$3" 1 "$1" >/dev/null 2>&1 || status=$?
	echo "status $status"
	uniq -c "$tmp/jobs/noted" | awk '{ print $1, $2, $3 }'
}

# expected CASES REPEATS: of turns
expected() {
	local case turn

	echo 'status 0'
	for ((case = 0; case < $1 * $2; case++)); do
		for turn in 0 1 2 3 4 5; do
			echo "2 $case ${names[case / $1 % 2 ? 5 - turn : turn]}"
		done
	done
}
same 'every second repetition has the jobs in reverse order' "$(expected 3 3)" "$(turns halo,pool,small 64 3)"
finish
