#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_readme.sh -- every command of README, and job script and collection of docs/deployment.md, work as they are
# written: with the simulated GPU and adapter, and stand-ins of mpirun and srun; a test in a bare Debian runs the
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
printf '#!/bin/sh\nexec "%s" "$@"\n' "$peerpin" >"$tmp/bin/peerpin"
mkdir "$tmp/job" "$tmp/run"
printf '#!/bin/sh\nexec "%s" adapter allocated=1 sent=1 allocated=19 sent=6 free exit\n' "$client" >"$tmp/job/app"
chmod +x "$tmp/bin/peerpin" "$tmp/job/app"
export LC_ALL=C.UTF-8 XDG_RUNTIME_DIR=$tmp/run PEERPIN_SIM_SHM=$tmp/shm LD_LIBRARY_PATH=$simulated_adapter:$simulated

count=0
while IFS= read -r line; do
	count=$((count + 1))
	name="README: $line"
	case $line in
	scripts/demo) same "$name: a test runs it" yes "$(grep -q 'scripts/demo' "$here"/../apps/check_demo.sh && echo yes)" ;;
	scripts/* | ../scripts/* | autoreconf*)
		# The test has its own redirections.
		for part in ${line//&&/ }; do
			grep -qwF -e "$part" "$here/../packages/check_deb" || same "$name: a test installs so" "$part" 'not in check_deb'
		done
		;;
	apt-get\ install\ ./packages/peerpin_*.deb) same "$name: a test installs so" yes "$(grep -q 'apt-get install' "$here/../packages/check_deb" && echo yes)" ;;
	*)
		status=0
		output=$(cd "$tmp/job" && bash -c "$line" 2>&1 </dev/null) || status=$?
		expected=0 pattern='*'
		case $line in
		PEERPIN_DISABLE=1*) same "$name: without peerpin no table" '' "$output" ;;
		*' doctor '*) expected='[013]' pattern='*peerpin doctor *' ;;
		*' --html '*) pattern='*job.html*' ;;
		*' observe '*) pattern='' ;;
		*' report observe'*) pattern='*peerpin would save*4 processes*findings*' ;;
		*' report '*) pattern='*4 processes*requests  *28  *' ;;
		*mpirun*) pattern='*requests *hits*' ;;
		esac
		matches "$name: its status" "$expected" "$status"
		matches "$name: its output" "$pattern" "$output"
		;;
	esac
done < <(sed '/^```/,/^```/d' "$here/../../README.md" | sed -n 's/^    //p')
matches 'commands were found' '1[0-9]' "$count"
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
same 'the page of the report was written' yes "$([[ -s $tmp/job/job.html ]] && echo yes)"
finish
