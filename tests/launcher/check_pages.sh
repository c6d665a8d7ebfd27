#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_pages.sh -- every command of README, SUPPORT.md and docs/*.md works as it is written: with the simulated GPU and
# adapter, and stand-ins of launchers; another test runs an installation, a build or a container
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/launcher/command
. "$here/command"
client=$(built "$PWD/tests/tools/client")
[[ -x $client && -x src/tools/peerpin-report ]] || exit 77

# runs NAME [WORD]: a launcher that runs the program for each rank, with the variables of -x; behind WORD
runs() {
	cat >"$tmp/bin/$1" <<TEXT
#!/bin/bash
[[ \$* != --version ]] || { echo "\$0 (Open MPI) 4.1.4"; exit; }
[[ \$1 != "${2-}" ]] || shift
TEXT
	cat >>"$tmp/bin/$1" <<'TEXT'
while [[ $1 == -* ]]; do
	case $1 in
	-n | -np) ranks=$2 ;;
	-x | -E) [[ $2 != *=* ]] || export "${2?}" ;;
	--e*=*LD_PRELOAD=*) export LD_PRELOAD="${1##*LD_PRELOAD=}" ;;
	esac
	[[ $1 == --e*=* ]] && shift || shift 2
done
[[ $1 != HOSTS ]] || shift
for ((rank = 0; rank < ranks; rank++)); do
	OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_RANK=$rank OMPI_COMM_WORLD_SIZE=$ranks "$@" || exit
done
TEXT
	chmod +x "$tmp/bin/$1"
}
for name in mpirun mpiexec mpirun_rsh srun jsrun; do runs "$name"; done
runs flux run
# Programs that start the rest of their words.
printf '#!/bin/sh\nexec "$@"\n' >"$tmp/bin/sudo"
printf '#!/bin/sh\nshift 2 && exec "$@"\n' >"$tmp/bin/apptainer"
# torchrun --nproc-per-node RANKS SCRIPT: the program as each rank, in the script's place
printf '#!/bin/sh\nfor LOCAL_RANK in $(seq 0 $(($2 - 1))); do export LOCAL_RANK; ./app || exit; done\n' >"$tmp/bin/torchrun"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$peerpin" >"$tmp/bin/peerpin"
mkdir "$tmp/job" "$tmp/run"
printf '#!/bin/sh\nexec "%s" adapter allocated=1 sent=1 allocated=19 sent=6 free exit\n' "$client" >"$tmp/job/app"
cp "$tmp/job/app" "$tmp/job/job.sh"
chmod +x "$tmp"/bin/{apptainer,peerpin,sudo,torchrun} "$tmp"/job/{app,job.sh}
export LC_ALL=C.UTF-8 XDG_RUNTIME_DIR=$tmp/run PEERPIN_SIM_SHM=$tmp/shm LD_LIBRARY_PATH=$simulated_adapter:$simulated

PEERPIN_STATS_FILE=$tmp/job.json "$peerpin" "$tmp/job/app" >/dev/null 2>&1

# runs_as_written PAGE LINE: in $tmp/job, with the output that the page promises
runs_as_written() {
	local name="$1: $2" line=$2 status=0 expected=0 pattern='*' output

	case $line in
	*' --help='*) pattern='*PEERPIN_KEEP*' ;;
	*' --version') pattern='peerpin [0-9]*' ;;
	*' --dry-run '*) pattern='*LD_PRELOAD=*' ;;
	*'-- AFTER...') line=${line/BEFORE.../observe.*.json} line=${line/AFTER.../observe.*.json} ;;
	*' site '*' --check') expected='@(0|1|127)' pattern='*: *' ;;
	*' site docker '*) pattern='*--env=LD_PRELOAD=*' ;;
	*' site '*) pattern='*libpeerpin.so*' ;;
	PEERPIN_DISABLE=1*) pattern='' ;;
	*' doctor'*) expected='[013]' pattern='*' ;;
	*' --html '*) pattern='*.html*' ;;
	*' observe --top '*) ;;
	*' observe '*) pattern='' ;;
	*' report --json '*) pattern='{*"findings": *' ;;
	*' report --csv '*) pattern='program,processes,*"client",4,*' ;;
	*' report observe'*) pattern='*peerpin would save*4 processes*findings*' ;;
	*' >report.txt') pattern='' ;;
	*' report '*) pattern='*4 processes*requests  *28  *' ;;
	*torchrun*) pattern='peerpin: *hits *' ;;
	*mpirun* | *srun* | *mpiexec* | *flux*) pattern='*requests *hits*' ;;
	*./app | *./job.sh) pattern='*hits *' ;;
	esac
	output=$(cd "$tmp/job" && bash -c "$line" 2>&1 </dev/null) || status=$?
	matches "$name: its status" "$expected" "$status"
	matches "$name: its output" "$pattern" "$output"
}

# has_a_test PAGE LINE WORDS FILE: FILE has WORDS
has_a_test() { same "$1: $2: a test runs it" yes "$(grep -qwF -e "$3" "$here/$4" && echo yes)"; }

# commands PAGE: its lines of code and its words of code that are commands
commands() {
	local runs='peerpin (-|\./|COMMAND|(demo|config|doctor|site|torchrun)( |$)|(observe|report|mpi[a-z]*|srun|jsrun|flux) )'

	{
		sed '/^```/,/^```/d' "$here/../../$1" | sed -n 's/^     *//p' | sed 's/  *# .*//'
		# shellcheck disable=SC2016 # backquotes of Markdown
		grep -oE '`[^`]+`' "$here/../../$1" | tr -d '`' |
			grep -E "^([A-Z_]+=[^ ]+ |sudo |srun [^p]*|mpirun[a-z_]* .*)?$runs|^(make|git|tar|docker|apt-get|(\.\./)?(scripts/|configure)[a-z-]*|tests/hardware/run) "
	} | awk '!seen[$0]++'
}

# example LINE: with the words that a reader replaces
example() {
	sed -E "s/ +\$//; s/mpirun \.\.\.\$/mpirun -n 4 .\/app/; s/mpirun \.\.\./mpirun -n 4/; s/COMMAND\.\.\./.\/app/
		s/--preload LIST/--preload other.so/; s/--job FILE/--job ..\/job.json/; s/ FILE( |\$)/ host.txt\1/
		s/(doctor --dump)\$/\1 host.txt/; s/(report --[a-z]+)\$/\1 *.json/; s/(observe --top)\$/\1 .\/app/" <<<"$1"
}

# page_runs PAGE: its commands, one after the other; sets count
page_runs() {
	local line part kind

	count=0
	rm -f "$tmp"/job/*.{json,html}
	while IFS= read -r line; do
		count=$((count + 1))
		ran+=$line$'\n'
		case $line in
		scripts/demo) has_a_test "$1" "$line" scripts/demo ../apps/check_demo.sh ;;
		'make distcheck') ;; # The release is made by it.
		'make uninstall') has_a_test "$1" "$line" uninstall ../tools/check_man.sh ;;
		'tests/hardware/run --host '*) has_a_test "$1" "$line" '--host other' ../hardware/check_hardware.sh ;;
		make\ *hardware* | *hardware/run | tar\ *)
			part=${line#make } && has_a_test "$1" "$line" "${part%% FILE*}" ../hardware/check_hardware.sh
			;;
		'git clone '*) ;;
		scripts/* | ../scripts/* | autoreconf* | ../configure*)
			# The test has its own redirections.
			for part in ${line//&&/ }; do
				[[ $part == @(KIND|test|demo|--prefix=*|make|install|../configure) ]] ||
					has_a_test "$1" "$line" "$part" ../packages/check_deb
			done
			;;
		'apt-get '*) has_a_test "$1" "$line" "$(cut -d' ' -f 1-2 <<<"$line")" ../packages/check_deb ;;
		'docker run '* | *'$(peerpin site docker)'*) has_a_test "$1" "$line" 'site docker' ../site/run ;;
		'for job '* | 'export '*) ;; # below; in the shell of a program with a sanitizer
		'eval '*) eval_line=$line ;;
		srun*./app) runs_as_written "$1" "${eval_line:+$eval_line; }$line" ;;
		*' KIND'*)
			for kind in slurm lmod enroot apptainer docker cdi; do runs_as_written "$1" "${line/KIND/$kind}"; done
			;;
		*) runs_as_written "$1" "$(example "$line")" ;;
		esac
	done < <(commands "$1")
}

ran=''
for page in README.md SUPPORT.md "$here"/../../docs/*.md; do
	page=${page#"$here"/../../}
	page_runs "$page"
	case $page in
	README.md)
		same 'the page of the report was written' yes "$([[ -s $tmp/job/job.html ]] && echo yes)"
		matches 'README: commands were found' '1[0-9]' "$count"
		;;
	docs/deployment.md | docs/hardware.md | docs/observe.md | docs/quickstart.md | docs/troubleshooting.md)
		matches "$page: commands were found" '@([7-9]|[12][0-9])' "$count"
		;;
	esac
done
known=$(for name in '' config demo doctor observe report site top; do "$peerpin" ${name:+"$name"} --help 2>/dev/null || :; done)
while IFS= read -r option; do
	grep -qwF -e "$option" <<<"$known" || continue
	same "a test uses $option" yes "$({ grep -wF -e "$option" <<<"$ran" || grep -rwF -e "$option" --include=check_*.sh "$here" "$here/../tools" "$here/../doctor"; } |
		grep -q . && echo yes)"
done < <(cat "$here"/../../{README,SUPPORT}.md "$here"/../../docs/*.md | grep -oE -- '(^|[ `])--[a-z][a-z-]+' | tr -d '` ' | sort -u)
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
