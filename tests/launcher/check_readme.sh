#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_readme.sh -- every command of README, docs/observe.md, docs/keep.md and docs/quickstart.md, job script and collection
# of docs/deployment.md work as they are written: with the simulated GPU and adapter, and stand-ins of mpirun and srun; a test in a bare Debian runs the
# installation
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/launcher/command
. "$here/command"
client=$(built "$PWD/tests/tools/client")
[[ -x $client && -x src/tools/peerpin-report ]] || exit 77

# runs NAME: a launcher that runs the program for each rank, with the variables of -x
runs() {
	cat >"$tmp/bin/$1" <<'TEXT'
#!/bin/bash
[[ $* != --version ]] || { echo "$0 (Open MPI) 4.1.4"; exit; }
while [[ $1 == -* ]]; do
	case $1 in
	-n) ranks=$2 ;;
	-x) [[ $2 != *=* ]] || export "${2?}" ;;
	--export=*LD_PRELOAD=*) export LD_PRELOAD="${1##*LD_PRELOAD=}" ;;
	esac
	[[ $1 == --export=* ]] && shift || shift 2
done
for ((rank = 0; rank < ranks; rank++)); do
	OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_RANK=$rank OMPI_COMM_WORLD_SIZE=$ranks "$@" || exit
done
TEXT
	chmod +x "$tmp/bin/$1"
}
runs mpirun
runs srun
# torchrun --nproc-per-node RANKS SCRIPT: the program as each rank, in the script's place
printf '#!/bin/sh\nfor LOCAL_RANK in $(seq 0 $(($2 - 1))); do export LOCAL_RANK; ./app || exit; done\n' >"$tmp/bin/torchrun"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$peerpin" >"$tmp/bin/peerpin"
mkdir "$tmp/job" "$tmp/run"
printf '#!/bin/sh\nexec "%s" adapter allocated=1 sent=1 allocated=19 sent=6 free exit\n' "$client" >"$tmp/job/app"
chmod +x "$tmp"/bin/{peerpin,torchrun} "$tmp/job/app"
export LC_ALL=C.UTF-8 XDG_RUNTIME_DIR=$tmp/run PEERPIN_SIM_SHM=$tmp/shm LD_LIBRARY_PATH=$simulated_adapter:$simulated

# runs_as_written PAGE LINE: in $tmp/job, with the output that the page promises
runs_as_written() {
	local name="$1: $2" line=$2 status=0 expected=0 pattern='*' output

	output=$(cd "$tmp/job" && bash -c "$line" 2>&1 </dev/null) || status=$?
	case $line in
	PEERPIN_DISABLE=1*) same "$name: without peerpin no table" '' "$output" ;;
	*' doctor '*) expected='[013]' pattern='*peerpin doctor *' ;;
	*' --html '*) pattern='*.html*' ;;
	*' observe '*) pattern='' ;;
	*' report --json '*) pattern='{*"findings": *' ;;
	*' report --csv '*) pattern='program,processes,*"client",4,*' ;;
	*' report observe'*) pattern='*peerpin would save*4 processes*findings*' ;;
	*' report '*) pattern='*4 processes*requests  *28  *' ;;
	*torchrun*) pattern='peerpin: *hits *' ;;
	*mpirun* | *srun*) pattern='*requests *hits*' ;;
	esac
	matches "$name: its status" "$expected" "$status"
	matches "$name: its output" "$pattern" "$output"
}

# has_a_test PAGE LINE WORDS FILE: FILE has WORDS
has_a_test() { same "$1: $2: a test runs it" yes "$(grep -qwF -e "$3" "$here/$4" && echo yes)"; }

# page_runs PAGE: its commands, one after the other in an empty folder; sets count
page_runs() {
	local line part

	count=0
	rm -f "$tmp"/job/*.{json,html}
	while IFS= read -r line; do
		count=$((count + 1))
		case $line in
		scripts/demo) has_a_test "$1" "$line" scripts/demo ../apps/check_demo.sh ;;
		scripts/* | ../scripts/* | autoreconf*)
			# The test has its own redirections.
			for part in ${line//&&/ }; do has_a_test "$1" "$line" "$part" ../packages/check_deb; done
			;;
		'apt-get install '*) has_a_test "$1" "$line" 'apt-get install' ../packages/check_deb ;;
		'docker run '* | ' '*'$(peerpin site docker)'*) has_a_test "$1" "$line" 'site docker' ../site/run ;;
		'eval '*) eval_line=$line ;;
		srun*./app) runs_as_written "$1" "${eval_line:+$eval_line; }$line" ;;
		*) runs_as_written "$1" "$line" ;;
		esac
	done < <(sed '/^```/,/^```/d' "$here/../../$1" | sed -n 's/^    //p')
}

page_runs README.md
same 'the page of the report was written' yes "$([[ -s $tmp/job/job.html ]] && echo yes)"
matches 'README: commands were found' '1[0-9]' "$count"
page_runs docs/observe.md
matches 'observe.md: commands were found' '[5-9]' "$count"
page_runs docs/keep.md
matches 'keep.md: commands were found' '[1-9]' "$count"
page_runs docs/quickstart.md
matches 'quickstart.md: commands were found' '@([7-9]|1[0-9])' "$count"
# docs/deployment.md: the job script, and the files that a site collects with its line of /etc/peerpin.conf.
mkdir "$tmp/batch" "$tmp/spool"
cp "$tmp/job/app" "$tmp/batch"
deployment=$here/../../docs/deployment.md
sed -n '/^#!.bin.bash/,/^```/p' "$deployment" | sed '$d' >"$tmp/batch/script"
matches 'deployment: the job script' '*requests *hits*8 processes*requests  *56  *' "$(cd "$tmp/batch" && SLURM_JOB_ID=7 bash script 2>&1)"
sed -n "s|^PEERPIN_STATS_FILE = /var/spool/peerpin|PEERPIN_STATS_FILE = $tmp/spool|p" "$deployment" >"$tmp/site.conf"
export PEERPIN_CONFIG_FILE=$tmp/site.conf
for job in 7 8; do SLURM_JOB_ID=$job "$tmp/bin/peerpin" "$client" allocated=1 free exit >/dev/null 2>&1; done
SLURM_JOB_ID=9 "$client" allocated=1 free exit >/dev/null 2>&1
SLURM_JOB_ID=10 "$tmp/bin/peerpin" true
unset PEERPIN_CONFIG_FILE
collected=$(cd "$tmp/spool" && bash -c "$(sed -n 's/^    \(for job in .*\)/\1/p' "$deployment")")
matches 'deployment: a line for each job with peerpin and GPU memory, also without an adapter' \
	'client  job 7  1 process*GPUDirect RDMA *client  job 8  1 process*GPUDirect RDMA *no RDMA adapter' "$collected"
same 'deployment: two jobs' 4 "$(wc -l <<<"$collected")"
finish
