#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_launchers.sh -- the ranks of each launcher get the library, and the launcher does not
set -euo pipefail

# shellcheck source=tests/launcher/command
. "$(dirname "$0")/command"

open_mpi() {
	local ours unknown other

	fake mpirun 'mpirun (Open MPI) 4.1.4'
	ours="[-x][PEERPIN_LOG_LEVEL][-x][LD_PRELOAD=$library]"
	same 'Open MPI: the ranks alone, each program of the line' \
		"${ours}[-n][1][./a b][:]${ours}[./c] preload="$'\n=> 9' \
		"$(outcome "$peerpin" --log-level warn mpirun -n 1 './a b' : ./c)"
	same 'simulated driver, older preload' \
		"[-x][LD_LIBRARY_PATH=$simulated][-x][LD_PRELOAD=$library:libc.so.6][./a] preload=libc.so.6
=> 9" "$(LD_PRELOAD=libc.so.6 outcome "$peerpin" --sim=driver mpirun ./a)"
	same "the caller's preload follows peerpin's" \
		"[-x][LD_PRELOAD=$library][-x][LD_PRELOAD=$library:/other.so][./a] preload=
=> 9" "$(outcome "$peerpin" mpirun -x LD_PRELOAD=/other.so ./a)"
	same '-x LD_PRELOAD without a value exports the merged preload' \
		"[-x][LD_PRELOAD=$library:libc.so.6][-x][LD_PRELOAD=$library:libc.so.6][./a] preload=libc.so.6
=> 9" "$(LD_PRELOAD=libc.so.6 outcome "$peerpin" mpirun -x LD_PRELOAD ./a)"
	matches 'the simulated driver before the libraries of the caller' \
		"*[[]-x][[]LD_LIBRARY_PATH=$simulated:/other][[]./a]*" \
		"$(outcome "$peerpin" --sim=driver mpirun -x LD_LIBRARY_PATH=/other ./a)"
	same 'disabled' $'[./a] preload=\n=> 9' "$(PEERPIN_DISABLE=1 outcome "$peerpin" mpirun ./a)"
	same 'the simulated adapter: its preload, and the variables of UCX' \
		"[-x][PEERPIN_SIM_ADAPTER_DELAY][-x][UCX_NET_DEVICES][-x][UCX_TLS][-x][LD_LIBRARY_PATH=$simulated_adapter:$simulated][-x][LD_PRELOAD=$library:$files][./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" --sim mpirun ./a)"
	matches 'the simulated adapter without peerpin, and a variable of UCX that the caller sets' \
		"[[]-x][[]PEERPIN_[DS]*][[]-x][[]PEERPIN_[DS]*][[]-x][[]UCX_NET_DEVICES][[]-x][[]LD_LIBRARY_PATH=$simulated_adapter:$simulated][[]-x][[]LD_PRELOAD=$files][[]./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" --sim --disable env UCX_TLS=tcp mpirun ./a)"
	matches "the simulated adapter: the caller's preload stays" "*[[]-x][[]LD_PRELOAD=$library:$files:/other.so][[]./a]*" \
		"$(outcome "$peerpin" --sim mpirun -x LD_PRELOAD=/other.so ./a)"
	same 'a list of variables lacks those that Open MPI forwards' \
		"[--mca][mca_base_env_list][A;PEERPIN_SIM_ADAPTER_DELAY;UCX_NET_DEVICES;UCX_TLS;LD_LIBRARY_PATH=$simulated_adapter:$simulated;LD_PRELOAD=$library:$files][./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" --sim mpirun --mca mca_base_env_list A ./a)"
	same 'a list of variables as an option is extended' \
		"[--mca][mca_base_env_list][A;B=c;PEERPIN_LOG_LEVEL;LD_PRELOAD=$library][./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" --log-level warn mpirun --mca mca_base_env_list 'A;B=c' ./a)"
	same 'a list of variables as a variable is extended' \
		"OMPI_MCA_mca_base_env_list='A;LD_PRELOAD=$library' mpirun ./a"$'\n=> 0' \
		"$(OMPI_MCA_mca_base_env_list=A outcome "$peerpin" --dry-run mpirun ./a)"
	matches 'a file of programs gets a warning' 'peerpin: programs in programs.txt run without peerpin*=> 9' \
		"$(outcome "$peerpin" mpirun --app programs.txt)"
	same "words with colons are arguments of the program" "[-x][LD_PRELOAD=$library][./a][std::][a:][:b] preload="$'\n=> 9' \
		"$(outcome "$peerpin" mpirun ./a std:: a: :b)"
	same 'words behind the program are its own, up to a lone colon' \
		"[-x][LD_PRELOAD=$library][--mca][x][-app][--oversubscribe][-N][2][./a][-app][f][-x][LD_PRELOAD=y][:][-x][LD_PRELOAD=$library][-x][LD_PRELOAD=$library:z][./b] preload="$'\n=> 9' \
		"$(outcome "$peerpin" mpirun --mca x -app --oversubscribe -N 2 ./a -app f -x LD_PRELOAD=y : -x LD_PRELOAD=z ./b)"
	same 'an unknown option may have a value' \
		"[-x][LD_PRELOAD=$library][--new][value][-x][LD_PRELOAD=$library:z][./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" mpirun --new value -x LD_PRELOAD=z ./a)"
	same 'an unknown option before an option has none' \
		"[-x][LD_PRELOAD=$library][--new][-x][LD_PRELOAD=$library:z][./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" mpirun --new -x LD_PRELOAD=z ./a)"
	same 'an MCA parameter may begin with a hyphen' \
		"[-x][LD_PRELOAD=$library][--mca][plm_rsh_args][-p 2222][./a][-x][LD_PRELOAD=z] preload="$'\n=> 9' \
		"$(outcome "$peerpin" mpirun --mca plm_rsh_args '-p 2222' ./a -x LD_PRELOAD=z)"
	same 'Open MPI 4: display-topo has no value' \
		"[-x][LD_PRELOAD=$library][--display-topo][./a][-x][LD_PRELOAD=z] preload="$'\n=> 9' \
		"$(outcome "$peerpin" mpirun --display-topo ./a -x LD_PRELOAD=z)"
	fake mpirun 'mpirun (Open MPI) 5.0.7'
	same 'Open MPI 5: display-topo has a value' \
		"[-x][LD_PRELOAD=$library][--display-topo][0][-x][LD_PRELOAD=$library:z][./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" mpirun --display-topo 0 -x LD_PRELOAD=z ./a)"
	fake mpirun 'something else'
	unknown=': its ranks on other hosts may run without: put peerpin in front of the program instead'
	same 'an unknown launcher' "peerpin: mpirun is an unknown launcher$unknown (mpirun ... peerpin ./app)
[./a] preload=$library
=> 9" "$(outcome "$peerpin" mpirun ./a)"
	for other in aprun ibrun mpirun_rsh poe; do
		fake $other ''
		same "$other, which is known to be one" "peerpin: $other is an unknown launcher$unknown ($other ... peerpin ./app)
[./a] preload=$library
=> 9" "$(outcome "$peerpin" $other ./a)"
	done
}

# named COMMAND...: the words that Hydra gets, with the job's name as NAME
named() {
	sed -E "s/\[PEERPIN_JOB\]\[$(uname -n | cut -d. -f1 | cut -c1-24)-[0-9]+-[0-9]{10}\]/[PEERPIN_JOB][NAME]/" <<<"$(outcome "$@")"
}

hydra() {
	local ours="[-genv][PEERPIN_JOB][NAME][-genv][LD_PRELOAD][$library]" form

	fake mpiexec 'HYDRA build details:'
	same 'Hydra' "[-genv][PEERPIN_STATS_FILE][a \"b\"]${ours}[./a][:][./c] preload="$'\n=> 9' \
		"$(PEERPIN_STATS_FILE='a "b"' named "$peerpin" mpiexec ./a : ./c)"
	for form in '-genv LD_PRELOAD ' '-genv LD_PRELOAD=' '--genv LD_PRELOAD=' '-genv=LD_PRELOAD=' '-env LD_PRELOAD ' \
		'-env LD_PRELOAD=' '-n 1 : -verbose -env LD_PRELOAD='; do
		# shellcheck disable=SC2086 # words
		same "Hydra: the caller's own preload stays: $form" "${ours}$(printf '[%s]' $form"$library":/other.so) [./a] preload="$'\n=> 9' \
			"$(named "$peerpin" mpiexec $form/other.so ./a | sed 's/\[[.]/ &/')"
	done
	same "Hydra: what looks like an option behind the program is the program's" \
		"${ours}[-print-all-exitcodes][-n][1][./a][-env][LD_PRELOAD=/other.so][-genv][LD_PRELOAD][/other.so] preload="$'\n=> 9' \
		"$(named "$peerpin" mpiexec -print-all-exitcodes -n 1 ./a -env LD_PRELOAD=/other.so -genv LD_PRELOAD /other.so)"
	matches 'Hydra on the simulated adapter' \
		"[[]-genv][[]PEERPIN_SIM_ADAPTER_DELAY][[]500][[]-genv][[]UCX_NET_DEVICES][[]sim0:1][[]-genv][[]UCX_TLS][[]rc_v,ud_v,self][[]-genv][[]PEERPIN_JOB]*[[]$library:$files][[]./a]*" \
		"$(outcome "$peerpin" --sim mpiexec ./a)"
	same 'Hydra: the name is not that of the surrounding job' "${ours}[./a] preload="$'\n=> 9' \
		"$(PEERPIN_JOB=outer named "$peerpin" mpiexec ./a)"
	same 'Hydra: a dry run has no job name' "mpiexec -genv LD_PRELOAD $library ./a"$'\n=> 0' \
		"$(outcome "$peerpin" --dry-run mpiexec ./a)"
	fake mpiexec 'Intel(R) MPI Library for Linux* OS, Version 2021.10'
	same 'Intel MPI' "${ours}[./a] preload="$'\n=> 9' "$(named "$peerpin" mpiexec ./a)"
}

slurm() {
	local ours="[--export=ALL,LD_PRELOAD=$library]" none="[--export=LD_PRELOAD=$library]" end=$' preload=\n=> 9'

	fake srun 'slurm 23'
	same 'srun keeps the environment' "[--export=ALL,PEERPIN_LOG_LEVEL,LD_PRELOAD=$library][./a]$end" \
		"$(PEERPIN_LOG_LEVEL=info outcome "$peerpin" srun ./a)"
	same 'srun on the simulated adapter' \
		"[--export=ALL,PEERPIN_SIM_ADAPTER_DELAY,UCX_NET_DEVICES,UCX_TLS,OMPI_MCA_pml,OMPI_MCA_osc,OMPI_MCA_btl,LD_LIBRARY_PATH=$simulated_adapter:$simulated,LD_PRELOAD=$library:$files][./a]$end" \
		"$(outcome "$peerpin" --sim srun ./a)"
	same "the caller's list, which counts for more" "${ours}[-n][2][--export=FOO,LD_PRELOAD=$library][./a]$end" \
		"$(outcome "$peerpin" srun -n 2 --export=FOO ./a)"
	same 'a list as a separate word' "${ours}[--export][FOO,LD_PRELOAD=$library][./a]$end" \
		"$(outcome "$peerpin" srun --export FOO ./a)"
	same '--export=NONE' "${ours}${none}[./a]$end" "$(outcome "$peerpin" srun --export=NONE ./a)"
	same 'SLURM_EXPORT_ENV=NONE' "${none}[./a]$end" "$(SLURM_EXPORT_ENV=NONE outcome "$peerpin" srun ./a)"
	same 'a list in SLURM_EXPORT_ENV' "[--export=A,B,LD_PRELOAD=$library][./a]$end" \
		"$(SLURM_EXPORT_ENV=A,B outcome "$peerpin" srun ./a)"
	same "the caller's own preload stays" \
		"${ours}[--export=ALL,LD_PRELOAD=/other.so,X,LD_PRELOAD=$library:/other.so][./a]$end" \
		"$(outcome "$peerpin" srun --export=ALL,LD_PRELOAD=/other.so,X ./a)"
	same "srun's own environment lacks the caller's preload, which would win over the list" \
		"[--export=ALL,LD_PRELOAD=$library:libc.so.6][./a]$end" "$(LD_PRELOAD=libc.so.6 outcome "$peerpin" srun ./a)"
	same 'also one that env sets' "[--export=ALL,LD_PRELOAD=$library:libc.so.6][./a]$end" \
		"$(outcome "$peerpin" env LD_PRELOAD=libc.so.6 srun ./a)"
	same 'a preload with peerpin stays' "[--export=ALL,LD_PRELOAD=$library:libc.so.6][./a] preload=$library:libc.so.6"$'\n=> 9' \
		"$(LD_PRELOAD=$library:libc.so.6 outcome "$peerpin" srun ./a)"
	same 'the preload stays where peerpin is off' $'[./a] preload=libc.so.6\n=> 9' \
		"$(LD_PRELOAD=libc.so.6 PEERPIN_DISABLE=1 outcome "$peerpin" srun ./a)"
	same 'a longer path of libraries, too' "env -u LD_PRELOAD LD_LIBRARY_PATH=$simulated:/old srun --export=ALL,LD_LIBRARY_PATH=$simulated:/old,LD_PRELOAD=$library:libc.so.6 ./a"$'\n=> 0' \
		"$(LD_PRELOAD=libc.so.6 LD_LIBRARY_PATH=/old outcome "$peerpin" --sim=driver --dry-run srun ./a)"
	same "what looks like an option behind the program is the program's" "${ours}[-n2][--label][--time][5][./a][--export=FOO]$end" \
		"$(outcome "$peerpin" srun -n2 --label --time 5 ./a --export=FOO)"
	same 'each program of the line' \
		"${ours}[-n1][--export=A,LD_PRELOAD=$library][./a][:]${ours}[-n][1][./b]$end" \
		"$(outcome "$peerpin" srun -n1 --export=A ./a : -n 1 ./b)"
	same 'a program behind two hyphens' "${ours}[--][./a]$end" "$(outcome "$peerpin" srun -- ./a)"
}

# The options of srun(1) in the form of getopt: one colon: a value; two: an optional value in the
# same word.
srun_letters=A:B:c:C:d:D:e:F:G:i:J:L:m:M:n:N:o:p:q:r:S:t:T:w:W:x:EhHlOQsuvVXZI::k::K::
srun_options='accel-bind: account: acctg-freq: bb: bbf: bcast:: bcast-exclude: begin: cluster-constraint: clusters: comment:
	compress:: consolidate-segments constraint: container: container-id: contiguous core-spec: cores-per-socket: cpu-bind:
	cpu-freq: cpus-per-gpu: cpus-per-task: deadline: debugger-test delay-boot: dependency: chdir: disable-status
	distribution: epilog: error: exact exclude: exclusive:: export: external-launcher extra: extra-node-info: gid: gpu-bind:
	gpu-freq: gpus: gpus-per-node: gpus-per-socket: gpus-per-task: gres: gres-flags: help het-group: hint: hold immediate::
	input: interactive jobid: job-name: kill-on-bad-exit:: label licenses: mail-type: mail-user: mcs-label: mem: mem-bind:
	mem-per-cpu: mem-per-gpu: mincpus: mpi: msg-timeout: multi-prog network: nice:: no-allocate no-bell nodefile: nodelist:
	nodes: no-kill:: ntasks: ntasks-per-core: ntasks-per-gpu: ntasks-per-node: ntasks-per-socket: oom-kill-step:: open-mode:
	output: overcommit overlap oversubscribe partition: power: prefer: preserve-env priority: profile: prolog: propagate::
	pty:: qos: quiet quit-on-interrupt reboot relative: reservation: resv-ports:: segment: send-libs:: share signal:
	slurmd-debug: sockets-per-node: spread-job stepmgr switches: task-epilog: task-prolog: tasks-per-node: test-only
	thread-spec: threads: threads-per-core: time: time-min: tmp: treewidth: tres-bind: tres-per-task: uid: unbuffered usage
	use-min-nodes verbose version wait: wckey: whole x11::'

# A srun that parses its arguments as the real one does, and prints each program with its last
# export list.
parsing_srun() {
	cat >"$tmp/bin/srun" <<TEXT
#!/usr/bin/env bash
show() {
	local parsed list=

	parsed=\$(getopt -n srun -o +$srun_letters -l $(tr -s ' \n\t' ',' <<<"$srun_options" | sed 's/,$//') -- "\$@") || exit
	eval "set -- \$parsed"
	while [ "\$1" != -- ]; do
		[ "\$1" != --export ] || list=\$2
		shift
	done
	shift
	echo "\$list \$*"
}
part=()
for word; do
	if [ "\$word" = : ]; then
		show "\${part[@]}"
		part=()
	else
		part+=("\$word")
	fi
done
show "\${part[@]}"
TEXT
	chmod +x "$tmp/bin/srun"
}

# is_unique OPTION: no other long option of srun has this beginning
is_unique() {
	[[ $(tr -s ' \n\t' '\n' <<<"$srun_options" | grep -c -- "^${1#--}") -eq 1 ]]
}

# Each option precedes two programs, the second with a list of the caller; no program loses or gains
# a word.
each_option_of_srun() {
	local option name expected='' line=() forms=()

	if getopt -T >/dev/null 2>&1 || [[ $? -ne 4 ]]; then
		skip 'the options of srun: no getopt with long options'
		return
	fi
	parsing_srun
	for option in $srun_options; do
		name=--${option%%:*}
		case $option in
		export:) continue ;;
		*::) forms+=("$name" "$name=value") ;;
		*:)
			forms+=("$name value" "$name=value")
			! is_unique "${name%?}" || forms+=("${name%?} value")
			;;
		*) forms+=("$name") ;;
		esac
	done
	while read -r option; do
		case $option in
		?::) forms+=("-${option%::}" "-${option%::}5" "-l${option%::}") ;;
		?:) forms+=("-${option%:} 5" "-${option%:}5" "-l${option%:} 5" "-lu${option%:}5") ;;
		*) forms+=("-$option" "-l$option") ;;
		esac
	done < <(sed -E 's/[A-Za-z]:*/&\n/g' <<<"$srun_letters" | grep .)
	for option in "${forms[@]}"; do
		# shellcheck disable=SC2206 # words
		line+=($option ./app "$option" --export=own : $option --export=their -n 1 ./app --export own :)
		expected+="ALL,LD_PRELOAD=$library ./app $option --export=own
their,LD_PRELOAD=$library ./app --export own
"
	done
	same 'each option of srun, in each form' "${expected}ALL,LD_PRELOAD=$library ./last"$'\n=> 0' \
		"$(outcome "$peerpin" srun "${line[@]}" ./last)"
	matches 'hundreds of forms' '[3-9][0-9][0-9]' "${#forms[@]}"
}

others() {
	fake jsrun 'jsrun 10'
	same 'jsrun' "[-E][PEERPIN_STATS_FILE=a b][-E][LD_PRELOAD=$library][-n][2][./a] preload="$'\n=> 9' \
		"$(PEERPIN_STATS_FILE='a b' outcome "$peerpin" jsrun -n 2 ./a)"
	fake flux 'commands: 0.50'
	same 'flux run' "[run][--env=LD_PRELOAD=$library][-n2][./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" flux run -n2 ./a)"
	matches 'flux as a program' "[[]jobs] preload=$library"$'\n=> 9' "$(outcome "$peerpin" flux jobs)"
}

# ranks COMMAND...: the output of the ranks, sorted. The launcher's input never ends: Hydra (4.0.2)
# forwards its end, and SIGPIPE kills the launcher and its output if the ranks have ended by then.
mkfifo "$tmp/input"
ranks() {
	sort <<<"$("$@" 2>&1 <>"$tmp/input")"
}

# Options of the installed mpirun: those of every version, and those of 5 alone.
open_mpi_options=('--display-map' '--tag-output' '--oversubscribe' '--timeout 600' '--np 1' '--mca a b' '-mca a b'
	'-x A=9' '--host localhost:2' '--merge-stderr-to-stdout' '-v')
open_mpi_5_options=('--overs' '--timeout=600' '--display-topo 0' '--display topo' '--display=map' '--output tag' '--output=tag' '--forward-signals SIGUSR1'
	'--get-stack-traces' '--stop-in-app' '--no-aggregate-help' '--display-comm' '--soft' '--fwd-environment'
	'--fwd-environment=1' '--output-proctable' '--output-proctable=-' '--pmixmca a b' '--prtemca a b' '--omca a b'
	'--gomca a b' '--parsable' '-p' '--bind-to none' '--map-by :oversubscribe' '--stdin none' '--initial-errhandler mpi_abort'
	'--x A=9' '--x=A=9' '-x=A=9')

# After each option the caller's preload follows peerpin's, and the program's arguments are
# unchanged.
each_option_of_open_mpi() {
	local option form count

	for option in "$@"; do
		count='-n 1'
		# Open MPI 6 rejects the same option twice.
		[[ $option != --np* ]] || count=''
		# shellcheck disable=SC2086 # words
		for form in "$option -x LD_PRELOAD=" "-x LD_PRELOAD=libc.so.6 $option -x LD_PRELOAD="; do
			matches "Open MPI: $form" "*[[]0 $library:libc.so.6 info]*" "$(ranks "$peerpin" --log-level info mpirun \
				${form}libc.so.6 $count sh -c "$show")"
		done
		# shellcheck disable=SC2086 # words
		matches "Open MPI: $option before the program" "*[[]0 $library info]-x LD_PRELOAD=libc.so.6*" \
			"$(ranks "$peerpin" --log-level info mpirun $count $option sh -c "$show"'"$*"' sh -x LD_PRELOAD=libc.so.6)"
	done
}

# prte is a persistent PRRTE, in which prun starts ranks.
real_prun() {
	local uri=$tmp/dvm

	if ! command -v prte >/dev/null || ! command -v prun >/dev/null; then
		skip 'with a real prun: there is none'
		return
	fi
	prte --allow-run-as-root --no-ready-msg --report-uri "$uri" </dev/null >"$tmp/prte" 2>&1 &
	until [[ -s $uri ]]; do
		kill -0 $! 2>/dev/null || { same 'prte starts' '' "$(cat "$tmp/prte")"; return; }
		sleep 0.05
	done
	# A file: prun of PRRTE 3.0 takes the quotes out of its arguments.
	printf '#!/bin/sh\n%s\n' "$show" >"$tmp/show"
	chmod +x "$tmp/show"
	same 'prun' "$expected" "$(ranks "$peerpin" --log-level info prun --allow-run-as-root --dvm "file:$uri" -n 2 "$tmp/show")"
	kill $!
	wait $! || :
}

# The installed Open MPI, if any.
real_open_mpi() {
	# shellcheck disable=SC2016 # expanded by the ranks
	local show='echo "[${OMPI_COMM_WORLD_RANK-$PMIX_RANK} ${LD_PRELOAD-} ${PEERPIN_LOG_LEVEL-}]"' expected version

	rm -f "$tmp/bin/mpirun" "$tmp/bin/prun"
	version=$(mpirun --version 2>/dev/null || :)
	if [[ $version != *'Open MPI'* ]]; then
		skip 'with a real Open MPI: there is none'
		return
	fi
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
	# The name since Open MPI 6; its former one brings a warning there.
	if [[ $version == *'(Open MPI) '[1-5].* ]]; then
		export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
	else
		export PRTE_MCA_mapby=:oversubscribe
	fi
	expected="[0 $library info]
[1 $library info]"
	same 'two ranks' "$expected" "$(ranks "$peerpin" --log-level info mpirun -n 2 sh -c "$show")"
	# Open MPI 5 of Debian 13 ends by a segmentation fault with two programs, also without
	# peerpin (open-mpi/ompi#13303), unless this component of PMIx is left out.
	mpirun -n 1 true : -n 1 true >/dev/null 2>&1 || export PMIX_MCA_pmdl=^ompi
	same 'two programs' "$expected" \
		"$(ranks "$peerpin" --log-level info mpirun -n 1 sh -c "$show" : -n 1 sh -c "$show")"
	same 'two programs, with a list of variables' "$expected" \
		"$(OMPI_MCA_mca_base_env_list='HOME' ranks "$peerpin" --log-level info mpirun -n 1 sh -c "$show" : -n 1 sh -c "$show")"
	unset PMIX_MCA_pmdl
	same 'with a list of variables as an option' "$expected" \
		"$(ranks "$peerpin" --log-level info mpirun --mca mca_base_env_list HOME -n 2 sh -c "$show")"
	same "with the caller's own -x" "$expected" \
		"$(ranks "$peerpin" --log-level info mpirun -x HOME -n 2 sh -c "$show")"
	same 'with a preload of the caller' "${expected//"$library"/"$library":libc.so.6}" \
		"$(ranks "$peerpin" --log-level info mpirun -x LD_PRELOAD=libc.so.6 -n 2 sh -c "$show")"
	same 'with -x LD_PRELOAD without a value' "${expected//"$library"/"$library":libc.so.6}" \
		"$(LD_PRELOAD=libc.so.6 ranks "$peerpin" --log-level info mpirun -x LD_PRELOAD -n 2 sh -c "$show")"
	same 'both before the launcher and in front of each rank' "$expected" \
		"$(ranks "$peerpin" --log-level info mpirun -n 2 "$peerpin" sh -c "$show")"
	same 'in front of each rank' "$expected" "$(ranks mpirun -n 2 "$peerpin" --log-level info sh -c "$show")"
	matches 'the status is that of the ranks' '*=> 5' "$(outcome "$peerpin" mpirun -n 2 sh -c 'exit 5')"
	each_option_of_open_mpi "${open_mpi_options[@]}"
	if [[ $version != *'(Open MPI) '[1-4].* ]]; then
		each_option_of_open_mpi "${open_mpi_5_options[@]}"
		same 'prterun' "$expected" "$(ranks "$peerpin" --log-level info prterun --allow-run-as-root -n 2 sh -c "$show")"
		real_prun
	fi
	one_job 'Open MPI' '*' mpirun --oversubscribe -n 3
}

# A program that starts a launcher runs without the library, like the launcher.
started_by_another() {
	local ours="[-x][LD_PRELOAD=$library]" end=$' preload=\n=> 9' line

	fake mpirun 'mpirun (Open MPI) 4.1.4'
	for line in 'timeout -s INT 60' 'timeout --kill-after=5 60' 'nice -n 0' 'env A=1' 'env nohup setsid -w' \
		'env A=1 timeout 60 nice'; do
		# shellcheck disable=SC2086 # words
		same "behind $line" "${ours}[-n][2][./a]$end" "$(outcome "$peerpin" $line mpirun -n 2 ./a | grep -v '^nohup: ')"
	done
	same 'assignments of env count' "[-x][PEERPIN_LOG_LEVEL][-x][LD_PRELOAD=$library:libc.so.6][./a] preload=libc.so.6"$'\n=> 9' \
		"$(outcome "$peerpin" env LD_PRELOAD=libc.so.6 PEERPIN_LOG_LEVEL=info mpirun ./a)"
	same 'disabled by env' "[./a]$end" "$(outcome "$peerpin" env PEERPIN_DISABLE=1 mpirun ./a)"
	same 'a program of another name, with a launcher among its words' $'[mpirun]\n=> 0' \
		"$(outcome "$peerpin" nice printf '[%s]' mpirun)"
	for line in 'env -u A' "env PATH=$PATH" 'nice env -u A'; do
		# shellcheck disable=SC2086
		matches "a launcher behind $line gets a warning" $'peerpin: mpirun is started by env: *directly in front of mpirun\n[[]./a] *=> 9' \
			"$(outcome "$peerpin" $line mpirun ./a)"
	done
	printf '#!/bin/sh\nshift\nexec "$@"\n' >"$tmp/bin/strace"
	chmod +x "$tmp/bin/strace"
	matches 'a launcher behind strace gets a warning' "peerpin: mpirun is started by strace: *=> 9" "$(outcome "$peerpin" strace -f mpirun ./a)"
	mv "$tmp/bin/strace" "$tmp/bin/salloc"
	matches 'a launcher behind salloc gets a warning' "peerpin: mpirun is started by salloc: *=> 9" "$(outcome "$peerpin" salloc -N2 mpirun ./a)"
	rm "$tmp/bin/salloc"
	fake flux 'commands: 0.50'
	same 'flux behind another program' "[run][--env=LD_PRELOAD=$library][./a]$end" "$(outcome "$peerpin" timeout 60 flux run ./a)"
}

# With each shell that may be sh.
long_lines() {
	local shell words count round linear

	fake mpirun 'mpirun (Open MPI) 4.1.4'
	mapfile -t words < <(seq 1 6000)
	for shell in dash bash; do
		if ! command -v "$shell" >/dev/null; then
			skip "a long line in $shell: there is none"
			continue
		fi
		same "a long line stays as it is in $shell" "$(printf '[%s]' -x "LD_PRELOAD=$library" ./a "${words[@]}" "it's") preload="$'\n=> 9' \
			"$(outcome "$shell" "$peerpin" mpirun ./a "${words[@]}" "it's")"
		# Processor time for two lengths: quadratic work takes 16 times as long for 4 times
		# as many words. The least of 20 rounds counts, since other load only adds time.
		: >"$tmp/took"
		for round in {1..20}; do
			for count in 1500 6000; do
				TIMEFORMAT="$count %U"
				{ time "$shell" "$peerpin" --dry-run mpirun ./a "${words[@]:0:count}" >/dev/null; } 2>>"$tmp/took"
			done
			linear=$(awk '!($1 in least) || $2 < least[$1] { least[$1] = $2 }
				END { print least[6000] < 9 * least[1500] + 0.03 }' "$tmp/took")
			((round < 3 || !linear)) || break
		done
		same "four times as many words take no more than about four times as long in $shell" 1 "$linear"
	done
}

# The installed Hydra, if any.
real_hydra() {
	# shellcheck disable=SC2016 # expanded by the ranks
	local show='echo "[$PMI_RANK ${LD_PRELOAD-} ${PEERPIN_LOG_LEVEL-}]"' expected form

	rm -f "$tmp/bin/mpiexec"
	if [[ $(mpiexec.hydra --version 2>/dev/null) != *HYDRA* ]]; then
		skip 'with a real Hydra: there is none'
		return
	fi
	expected="[0 $library info]
[1 $library info]"
	set -- "$peerpin" --log-level info mpiexec.hydra
	same 'Hydra: two ranks' "$expected" "$(ranks "$@" -n 2 sh -c "$show")"
	same 'Hydra: two programs' "$expected" "$(ranks "$@" -n 1 sh -c "$show" : -n 1 sh -c "$show")"
	same 'Hydra: in front of each rank' "$expected" "$(ranks mpiexec.hydra -n 2 "$peerpin" --log-level info sh -c "$show")"
	# In one line: MPICH 4.2 reads no other.
	printf -- '-n 1 %s : -n 1 %s\n' "$tmp/show" "$tmp/show" >"$tmp/programs"
	printf '#!/bin/sh\n%s\n' "$show" >"$tmp/show"
	chmod +x "$tmp/show"
	same 'Hydra: a file of programs' "$expected" "$(ranks "$@" -configfile "$tmp/programs")"
	for form in '-genv LD_PRELOAD ' '-genv LD_PRELOAD=' '-env LD_PRELOAD ' '-env LD_PRELOAD='; do
		# shellcheck disable=SC2086 # words
		same "Hydra: a preload of the caller's own: $form" "${expected//"$library"/"$library":libc.so.6}" \
			"$(ranks "$@" ${form}libc.so.6 -n 2 sh -c "$show")"
	done
	for form in '-genvnone' '-genvlist LD_PRELOAD' '-envlist HOME'; do
		# shellcheck disable=SC2086
		same "Hydra: less of the environment: $form" "$expected" "$(ranks "$@" $form -n 2 /bin/sh -c "$show")"
	done
	one_job Hydra '*-*' mpiexec.hydra -n 3
}

# run_together LAUNCHER...: all ranks use memory before the first one ends. Their error output is in
# $tmp/errors.
run_together() {
	local together=0

	mkfifo "$tmp/gate" "$tmp/ready"
	"$@" "$tmp/rank" <>"$tmp/input" >"$tmp/ready" 2>"$tmp/errors" &
	exec 8<"$tmp/ready" 9>"$tmp/gate"
	while [[ $together -lt 3 ]] && read -r -t 600 -u 8; do together=$((together + 1)); done
	exec 8<&- 9>&-
	wait $! || :
	rm "$tmp/gate" "$tmp/ready"
	same 'three ranks ran at one time' 3 "$together"
}

# one_job NAME PATTERN LAUNCHER...: the ranks of a run share a job name of this pattern, and runs
# have different ones, with peerpin before the launcher and before the program.
one_job() {
	local client=$PWD/tests/tools/client name=$1 pattern=$2 form run

	shift 2
	if [[ ! -x $client ]]; then
		skip "$name: the ranks are one job: tests/tools/client is not built"
		return
	fi
	export XDG_RUNTIME_DIR=$tmp PEERPIN_SIM_SHM=$tmp/shm
	# shellcheck disable=SC2016 # expanded by the ranks
	printf '#!/bin/sh\nexec "%s" allocated=2 ready wait exit <"%s"\n' "$client" "$tmp/gate" >"$tmp/rank"
	chmod +x "$tmp/rank"
	for form in first second; do
		mkdir -p "$tmp/$name/$form"
		for run in 1 2; do
			local ours=("$peerpin" --sim=driver --summary table --stats-file "$tmp/$name/$form/%j") line
			if [[ $form = first ]]; then
				line=("${ours[@]}" "$@")
			else
				line=("$@" "${ours[@]}")
			fi
			PEERPIN_PIN_LIMT=1 run_together "${line[@]}"
			same "$name: one table for a host, $form form, run $run" '1 1' \
				"$(grep -c '^peerpin [0-9]' "$tmp/errors" || :) $(grep -c '^peerpin [0-9].* rank 0[ ,]' "$tmp/errors" || :)"
			same "$name: a warning once for a host, $form form, run $run" 'PEERPIN_PIN_LIMT is unknown' \
				"$(grep '<warn>' "$tmp/errors" | grep -o 'PEERPIN_[A-Z_]* is unknown' || :)"
		done
		same "$name: two runs are two jobs, $form form" '3 3' \
			"$(find "$tmp/$name/$form" -type f -name "$pattern.[012]" | sed 's/\.[012]$//' | sort | uniq -c | awk '{ print $1 }' | xargs)"
	done
}

# Programs with AddressSanitizer's shared runtime refuse to start behind another preload, unless an option turns that off.
sanitizers() {
	local flag=verify_asan_link_order=0 asan=$tmp/asan

	if ! command -v gcc >/dev/null; then
		skip 'ranks with a sanitizer: no gcc'
		return
	fi
	echo 'int main(void) { return 0; }' | gcc -shared -fPIC -Wl,-soname,libasan.so.99 -x c -o "$tmp/runtime.so" -
	echo 'int main(void) { return 0; }' | gcc -x c -o "$asan" - -x none -Wl,--no-as-needed "$tmp/runtime.so"
	fake mpirun 'mpirun (Open MPI) 4.1.4'
	same 'a rank with a sanitizer' "[-x][ASAN_OPTIONS][-x][LD_PRELOAD=$library][-n][2][$asan] preload="$'\n=> 9' \
		"$(outcome "$peerpin" mpirun -n 2 "$asan")"
	matches 'in any program of the line, behind any program' "*[[]./a][[]:]*[[]-x][[]ASAN_OPTIONS]*[[]env][[]$asan] *" \
		"$(outcome "$peerpin" mpirun ./a : env "$asan")"
	same 'the value is in the environment of the launcher' "ASAN_OPTIONS=a=b:$flag mpirun -x ASAN_OPTIONS -x LD_PRELOAD=$library $asan"$'\n=> 0' \
		"$(ASAN_OPTIONS=a=b outcome "$peerpin" --dry-run mpirun "$asan")"
	matches "the caller's options for the ranks stay" "*[[]-x][[]ASAN_OPTIONS=a=b:$flag][[]$asan]*" \
		"$(outcome "$peerpin" mpirun -x ASAN_OPTIONS=a=b "$asan")"
	same 'without one, nothing' "[-x][LD_PRELOAD=$library][-x][ASAN_OPTIONS=a=b][./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" mpirun -x ASAN_OPTIONS=a=b ./a)"
	same "a runtime in the caller's list stays first" \
		"[-x][LD_PRELOAD=$library][-x][LD_PRELOAD=/x/libasan.so.8:$library:/other.so][./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" mpirun -x LD_PRELOAD=/x/libasan.so.8:/other.so ./a)"
	fake mpirun HYDRA
	matches 'Hydra' "*[[]-genv][[]ASAN_OPTIONS][[]$flag]*[[]-genv][[]ASAN_OPTIONS][[]a=b:$flag][[]$asan]*" \
		"$(outcome "$peerpin" mpirun -genv ASAN_OPTIONS a=b "$asan")"
	fake srun slurm
	matches 'Slurm' "*[[]--export=ALL,ASAN_OPTIONS,LD_PRELOAD=$library][[]$asan]*" "$(outcome "$peerpin" srun "$asan")"
	matches "Slurm, with the caller's list" \
		"*,ASAN_OPTIONS,LD_PRELOAD=/x/libasan.so.8:$library,ASAN_OPTIONS=a=b:$flag][[]$asan]*" \
		"$(outcome "$peerpin" srun --export=ALL,ASAN_OPTIONS=a=b,LD_PRELOAD=/x/libasan.so.8 "$asan")"
}

open_mpi
hydra
sanitizers
slurm
each_option_of_srun
others
started_by_another
long_lines
real_open_mpi
real_hydra
finish
