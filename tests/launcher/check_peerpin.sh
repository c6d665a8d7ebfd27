#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_peerpin.sh -- the command peerpin: options, statuses, the environment of programs, paths of
# its parts
set -euo pipefail

# Run by make check in the build folder.
# shellcheck source=tests/launcher/command
. "$(dirname "$0")/command"

options_and_statuses() {
	matches 'help begins with the usage' 'usage: peerpin *=> 0' "$(outcome "$peerpin" --help)"
	same '-h is --help' "$("$peerpin" --help)" "$("$peerpin" -h)"
	for word in config demo doctor report run site top; do
		# A build with --disable-tools has no doctor, report and top.
		[[ $word != @(doctor|report|top) || -x src/tools/peerpin-$word ]] || continue
		matches "$word --help" 'usage: peerpin *=> 0' "$(outcome "$peerpin" "$word" --help)"
		same "-h of $word is --help" "$(outcome "$peerpin" "$word" --help)" "$(outcome "$peerpin" "$word" -h)"
		same "$word --version is --version" "$(outcome "$peerpin" --version)" "$(outcome "$peerpin" "$word" --version)"
	done
	same 'site KIND --help is site --help' "$("$peerpin" site --help)" "$("$peerpin" site slurm --help)"
	same 'help is --help' "$("$peerpin" --help)" "$("$peerpin" help)"
	same 'help of a subcommand is its --help' "$("$peerpin" config --help)" "$("$peerpin" help config)"
	same 'help of run is --help' "$("$peerpin" --help)" "$("$peerpin" help run)"
	same 'help of another word fails' $'peerpin: help: mpirun is no subcommand (see peerpin --help)\n=> 2' "$(outcome "$peerpin" help mpirun)"
	same 'version is no subcommand' $'peerpin: version: command not found: did you mean peerpin --version?\n=> 127' \
		"$(PATH=/usr/bin:/bin outcome "$peerpin" version)"
	same 'run is a subcommand once' $'peerpin: run: command not found\n=> 127' "$(PATH=/usr/bin:/bin outcome "$peerpin" run run)"
	matches 'help lists the settings' '*--pin-limit VALUE*--\[no-\]verify*=> 0' "$(outcome "$peerpin" --help=settings)"
	same 'help fits on a screen' 0 "$("$peerpin" --help | awk 'NR > 40 { more++ } END { print more + 0 }')"
	same 'help names settings that exist' '' "$("$peerpin" --help | sed -n '/^Often used/,/^$/s/^  \(--[a-z-]*\).*/\1/p' |
		grep -vxFf <("$peerpin" --help=settings | sed -nE 's/^  --(\[no-\])?([a-z-]*).*/--\2/p'))"
	matches 'version' 'peerpin [0-9]*.[0-9]*=> 0' "$(outcome "$peerpin" --version)"
	same 'an unknown option' $'peerpin: unknown option: --bogus (see peerpin --help)\n=> 2' \
		"$(outcome "$peerpin" --bogus true)"
	same 'a misspelt setting' $'peerpin: unknown option: --pinlimit=4M: did you mean --pin-limit?\n=> 2' \
		"$(outcome "$peerpin" --pinlimit=4M true)"
	same 'the beginning of a setting, not an equally short option' $'peerpin: unknown option: --pin=1G: did you mean --pin-limit?\n=> 2' \
		"$(outcome "$peerpin" --pin=1G true)"
	same 'the beginning of a subcommand' $'peerpin: doc: command not found: did you mean peerpin doctor?\n=> 127' \
		"$(PATH=/usr/bin:/bin outcome "$peerpin" doc)"
	same 'a misspelt option' $'peerpin: unknown option: --dryrun: did you mean --dry-run?\n=> 2' \
		"$(outcome "$peerpin" --dryrun true)"
	same '--no- of a setting with values' $'peerpin: unknown option: --no-log-level: did you mean --log-level?\n=> 2' \
		"$(outcome "$peerpin" --no-log-level true)"
	same 'an unknown short option' $'peerpin: unknown option: -n (see peerpin --help)\n=> 2' "$(outcome "$peerpin" -n true)"
	same 'a bad value' $'peerpin: --pin-limit=much is not allowed (auto, or a size of at least 4K, such as 1.5G or inf; 0: none)\n=> 2' \
		"$(outcome "$peerpin" --pin-limit much true)"
	for word in 101% 4X; do
		same "a bad value: $word" "peerpin: --keep=$word is not allowed (auto; or a size of at least 2M, such as 1.5G or inf; or a percentage from 1% to 100%; 0: none)"$'\n=> 2' \
			"$(outcome "$peerpin" --keep $word true)"
	done
	for words in '--keep' '--keep auto' '--keep=auto'; do
		# shellcheck disable=SC2086 # words
		same "no size: $words" "auto sh"$'\n=> 0' "$(outcome "$peerpin" $words sh -c 'echo $PEERPIN_KEEP sh')"
	done
	for word in 4G Inf AUTO; do
		same "a size before the command: $word" "$word"$'\n=> 0' "$(outcome "$peerpin" --keep $word sh -c 'echo $PEERPIN_KEEP')"
	done
	same 'a bad size is no command' "peerpin: --keep=lots is not allowed (auto; or a size of at least 2M, such as 1.5G or inf; or a percentage from 1% to 100%; 0: none)"$'\n=> 2' \
		"$(outcome "$peerpin" --keep=lots true)"
	same 'a size that can only be a mistake' "peerpin: --keep=4 (4 bytes) is not allowed (auto; or a size of at least 2M, such as 1.5G or inf; or a percentage from 1% to 100%; 0: none)"$'\n=> 2' \
		"$(outcome "$peerpin" --keep 4 true)"
	same 'a percentage where only sizes are allowed' $'peerpin: --keep-host=10% is not allowed (a size of at least 4K, such as 1.5G or inf; 0: none)\n=> 2' \
		"$(outcome "$peerpin" --keep-host 10% true)"
	same 'a bad word' $'peerpin: --preregister=never is not allowed (auto, eager or off)\n=> 2' \
		"$(outcome "$peerpin" --preregister=never true)"
	same 'a bad word in the environment' $'peerpin: PEERPIN_PREREGISTER=fast is not allowed (auto, eager or off)\n=> 2' \
		"$(PEERPIN_PREREGISTER=fast outcome "$peerpin" printf started)"
	same 'a bad word with peerpin disabled' $'started\n=> 0' \
		"$(PEERPIN_DISABLE=yes PEERPIN_PREREGISTER=fast outcome "$peerpin" printf started)"
	same 'several bad ones' $'peerpin: --preregister=never is not allowed (auto, eager or off)\npeerpin: --pin-limit=1X is not allowed (auto, or a size of at least 4K, such as 1.5G or inf; 0: none)\n=> 2' \
		"$(PEERPIN_SUMMARY=often outcome "$peerpin" --preregister=never --pin-limit 1X true)"
	same 'a missing file of settings in the environment' "peerpin: PEERPIN_CONFIG_FILE=$tmp/none: it cannot be read"$'\n=> 2' \
		"$(PEERPIN_CONFIG_FILE=$tmp/none outcome "$peerpin" printf started)"
	same 'a missing file of settings with peerpin disabled' $'started\n=> 0' \
		"$(PEERPIN_CONFIG_FILE=$tmp/none outcome "$peerpin" --disable printf started)"
	same 'an option replaces a bad word in the environment' $'started\n=> 0' \
		"$(PEERPIN_PREREGISTER=fast outcome "$peerpin" --preregister=off printf started)"
	same 'a bad word behind a good option' $'peerpin: PEERPIN_SUMMARY=often is not allowed (auto, table, line or none)\n=> 2' \
		"$(PEERPIN_SUMMARY=often outcome "$peerpin" --preregister=off printf started)"
		same 'a missing file of settings' "peerpin: --config-file=$tmp/none: it cannot be read
=> 2" "$(outcome "$peerpin" --config-file "$tmp/none" true)"
	same 'no command' $'peerpin: no command given (see peerpin --help)\n=> 2' \
		"$(outcome "$peerpin")"
	same 'no command after options' "$(outcome "$peerpin")" "$(outcome "$peerpin" --sim --)"
	same 'an option without its value' \
		$'peerpin: --log-level needs a value (see peerpin --help)\n=> 2' \
		"$(outcome "$peerpin" --log-level)"
	same 'an unknown command' $'peerpin: no-such-program: command not found\n=> 127' \
		"$(outcome "$peerpin" no-such-program)"
	same 'a subcommand behind an option is a command' \
		$'peerpin: doctor: command not found (a subcommand must be the first word)\n=> 127' \
		"$(PATH=/usr/bin:/bin outcome "$peerpin" --sim doctor)"
	# Functions and builtins of the shell that runs the script are not programs.
	same 'a function of the script is no command' $'peerpin: start: command not found\n=> 127' "$(PATH=/usr/bin:/bin outcome "$peerpin" start)"
	same 'a shell builtin' $'peerpin: umask is a shell builtin: peerpin sh -c \'umask ...\'\n=> 127' \
		"$(outcome "$peerpin" umask 22)"
	same 'an empty command' $'peerpin: \'\': command not found\n=> 127' "$(outcome "$peerpin" '')"
	printf '#!/bin/sh\necho "a program of that name $*"\n' >"$tmp/bin/usage"
	chmod +x "$tmp/bin/usage"
	same 'a program with the name of a function' $'a program of that name a\n=> 0' "$(outcome "$peerpin" usage a)"
	printf '#!%s\n' "$tmp/none" >"$tmp/bin/say"
	chmod +x "$tmp/bin/say"
	matches 'the inspected program is that of PATH' "peerpin: $tmp/bin/say requires $tmp/none, which is missing*" \
		"$(outcome "$peerpin" say)"
	same 'a misspelt subcommand' $'peerpin: docter: command not found: did you mean peerpin doctor?\n=> 127' \
		"$(outcome "$peerpin" docter)"
	same 'a program with the name of a misspelt subcommand' $'\n=> 0' "$(ln -s /bin/true "$tmp/bin/docter"; outcome "$peerpin" docter)"
	rm "$tmp/bin/usage" "$tmp/bin/say" "$tmp/bin/docter"
	for word in --help --help=settings --version --print-env '--dry-run true' 'config --help' 'config --version' config \
		'demo --help' demo 'site --help' 'site --version' 'site slurm' 'site enroot' 'site apptainer' 'site docker' 'site cdi' \
		'site cdi --preload libc.so.6' 'site lmod' 'config --nearest --sumary' \
		'config --value' 'config --json' 'config --md' 'config --man' 'config --options' \
		'doctor --help' 'doctor --version' 'doctor --no-probe' 'doctor --quiet --no-probe' 'doctor --json --only kernel' \
		'report --help' 'report --version' 'top --help' 'top --version' 'top --once' 'top --json --once'; do
		# A build with --disable-tools has no config --json, doctor, report and top.
		case $word in
		'config --json' | doctor* | report* | top*) [[ -x src/tools/peerpin-doctor ]] || continue ;;
		esac
		# shellcheck disable=SC2086 # words
		matches "$word without output" 'peerpin*standard output*=> [12]' \
			"$(status=0; found=$("$peerpin" $word 2>&1 >/dev/full </dev/null) || status=$?
			[[ $found != *$'\n'* ]] || found="more than a line: $found"; echo "$found=> $status")"
	done
	matches 'site --check without output' 'peerpin*standard output*=> 1' \
		"$(status=0; LD_PRELOAD=$library "$peerpin" site cdi --check 2>&1 >/dev/full || status=$?; echo "=> $status")"
	matches 'help has allowed values' "*--devices*--pin-limit*the size of the GPU's BAR1*default: auto)*as for --log-file*" \
		"$("$peerpin" --help=settings | tr -s ' \n' ' ')"
	matches 'help has defaults' \
		"*--preregister*(auto, eager or off; default: auto)*--log-level V*trace; default: warn)*" \
		"$("$peerpin" --help=settings | tr -s ' \n' ' ')"
	same 'a missing file' $'peerpin: ./no-such-file: no such file\n=> 127' \
		"$(outcome "$peerpin" ./no-such-file)"
	: >"$tmp/data"
	same 'a file without x permission' "peerpin: $tmp/data: not an executable file
=> 126" "$(outcome "$peerpin" "$tmp/data")"
	same 'a folder' "peerpin: $tmp: not an executable file
=> 126" "$(outcome "$peerpin" "$tmp")"
	same 'the status is the command'"'"'s' $'\n=> 7' "$(outcome "$peerpin" sh -c 'exit 7')"
	# shellcheck disable=SC2016 # expanded by the program
	matches "a signal is the command's" '*=> 137' "$(outcome "$peerpin" sh -c 'kill -9 $$')"
	# shellcheck disable=SC2016
	same 'no parent is left' "$(sh -c 'echo $PPID')" "$("$peerpin" sh -c 'echo $PPID')"
	same 'arguments are unchanged' $'[a b][--sim][*][]\n=> 0' \
		"$(outcome "$peerpin" -- printf '[%s]' 'a b' --sim '*' '')"
	same 'run is the default' $'[a]\n=> 0' "$(outcome "$peerpin" run printf '[%s]' a)"
	printf '#!/bin/sh\necho a program of that name\n' >"$tmp/bin/report"
	chmod +x "$tmp/bin/report"
	same 'run starts a program with the name of a subcommand' $'a program of that name\n=> 0' "$(outcome "$peerpin" run report)"
}

what_a_program_gets() {
	# shellcheck disable=SC2016 # expanded by the program
	local show='echo "${LD_PRELOAD-} ${LD_LIBRARY_PATH-} ${PEERPIN_STATS_FILE-} ${PEERPIN_LOG_LEVEL-}"' option variable

	same 'the library' "$library   "$'\n=> 0' "$(outcome "$peerpin" sh -c "$show")"
	same 'the library before an older preload' "$library:libc.so.6   "$'\n=> 0' \
		"$(LD_PRELOAD=libc.so.6 outcome "$peerpin" sh -c "$show")"
	same 'options as variables' "$library  a%r warn"$'\n=> 0' \
		"$(outcome "$peerpin" --stats-file a%r --log-level=warn sh -c "$show")"
	same 'an option overrides the environment' "$library   info"$'\n=> 0' \
		"$(PEERPIN_LOG_LEVEL=trace outcome "$peerpin" --log-level info sh -c "$show")"
	same 'the simulated driver before an older path' "$library $simulated:/old  "$'\n=> 0' \
		"$(LD_LIBRARY_PATH=/old outcome "$peerpin" --sim=driver sh -c "$show")"
	same 'the simulated adapter, too' "$library:$files $simulated_adapter:$simulated  "$'\n=> 0' \
		"$(LD_LIBRARY_PATH='' outcome "$peerpin" --sim sh -c "$show")"
	same 'nothing when disabled' $'   \n=> 0' \
		"$(PEERPIN_DISABLE=1 outcome "$peerpin" sh -c "$show")"
	same 'nothing when disabled by an option' $'   \n=> 0' "$(outcome "$peerpin" --disable sh -c "$show")"
	same 'PEERPIN_DISABLE=0 disables nothing' "$library   "$'\n=> 0' \
		"$(PEERPIN_DISABLE=0 outcome "$peerpin" sh -c "$show")"
	same 'an option enables again' "$library   "$'\n=> 0' \
		"$(PEERPIN_DISABLE=1 outcome "$peerpin" --no-disable sh -c "$show")"
	same 'the driver alone when disabled' " $simulated  "$'\n=> 0' \
		"$(PEERPIN_DISABLE=1 outcome "$peerpin" --sim=driver sh -c "$show")"
	same 'the simulated driver and adapter when disabled' "$files $simulated_adapter:$simulated  "$'\n=> 0' \
		"$(outcome "$peerpin" --disable --sim sh -c "$show")"
	same 'a file of settings' $'/dev/null\n=> 0' "$(outcome "$peerpin" --config-file /dev/null printenv PEERPIN_CONFIG_FILE)"
	# The ranks of a job may have another working folder.
	: >"$tmp/rel.conf"
	same 'a file of settings gets an absolute path' "$tmp/rel.conf"$'\n=> 0' \
		"$(cd "$tmp" && outcome "$peerpin" --config-file rel.conf printenv PEERPIN_CONFIG_FILE)"
	same 'a file of settings in the environment, too' "$tmp/rel.conf"$'\n=> 0' \
		"$(cd "$tmp" && PEERPIN_CONFIG_FILE=rel.conf outcome "$peerpin" printenv PEERPIN_CONFIG_FILE)"
	# The command has each option of the table of settings.
	while read -r option; do
		variable=PEERPIN_$(tr a-z- A-Z_ <<<"${option//[=]/}" | sed 's/^__\(NO_\)\{0,1\}//')
		case $option in
		*=) outcome "$peerpin" "${option}0" printenv "$variable" ;;
		*) outcome "$peerpin" "$option" printenv "$variable" ;;
		esac
	done < <("$config" --options | grep -v -e --disable -e preregister -e '--log-level=' -e '--config-file=') >"$tmp/options"
	same 'every option sets its variable' '' "$(tr '\n' ' ' <"$tmp/options" |
		sed -E 's/([01]) => 0//g; s/ //g')"
}

# MPI on the simulated adapter: variables of UCX and of Open MPI.
clients_of_the_adapter() {
	local name show

	# shellcheck disable=SC2016 # expanded by the program
	show='echo "$UCX_NET_DEVICES $UCX_TLS $OMPI_MCA_pml $OMPI_MCA_osc $OMPI_MCA_btl $PEERPIN_SIM_ADAPTER_DELAY"'
	fake ucx_info ''
	same 'the simulated adapter: variables of MPI, and its delay' $'sim0:1 rc_v,ud_v,self ucx ucx ^openib 500\n=> 0' "$(outcome "$peerpin" --sim sh -c "$show")"
	same "the caller's variables stay, also empty ones" $'lo tcp  ucx self 7\n=> 0' \
		"$(UCX_NET_DEVICES=lo UCX_TLS=tcp OMPI_MCA_pml='' OMPI_MCA_btl=self PEERPIN_SIM_ADAPTER_DELAY=7 outcome "$peerpin" --sim sh -c "$show")"
	for name in --sim=driver --summary=table; do
		same "without the adapter none is set: $name" $'     \n=> 0' "$(outcome "$peerpin" $name sh -c "$show")"
	done
	matches '--help states the delay' '*registrations of 500 us *' "$("$peerpin" --help)"
	matches 'the manual states the delay' $'*\n.BR PEERPIN_SIM_ADAPTER_DELAY ,\n500 unless it is set.\n*' "$(<docs/man/peerpin.1)"
	mkdir -p "$tmp/ucx/ucx" "$tmp/lib/any/ucx"
	: >"$tmp/ucx/libucp.so.0"
	: >"$tmp/lib/any/ucx/libuct_cuda.so.0"
	matches 'UCX beside ucx_info has transports for CUDA' 'sim0:1 rc_v,ud_v,self,cuda_copy *' "$(outcome "$peerpin" --sim sh -c "$show")"
	matches 'UCX of LD_LIBRARY_PATH has none' 'sim0:1 rc_v,ud_v,self ucx*' \
		"$(LD_LIBRARY_PATH=/nowhere:$tmp/ucx outcome "$peerpin" --sim sh -c "$show")"
	: >"$tmp/ucx/ucx/libuct_cuda.so.0"
	rm "$tmp/lib/any/ucx/libuct_cuda.so.0"
	matches 'UCX of LD_LIBRARY_PATH has them' 'sim0:1 rc_v,ud_v,self,cuda_copy *' \
		"$(LD_LIBRARY_PATH=/nowhere:$tmp/ucx outcome "$peerpin" --sim sh -c "$show")"
	same 'the command stays that of the command line' $'[a]\n=> 0' "$(outcome "$peerpin" --sim printf '[%s]' a)"
	matches '--print-env with the simulated adapter' "export PEERPIN_SIM_ADAPTER_DELAY=500
export UCX_NET_DEVICES=sim0:1
export UCX_TLS=rc_v,ud_v,self
export OMPI_MCA_pml=ucx
export OMPI_MCA_osc=ucx
export OMPI_MCA_btl='^openib'
export LD_PRELOAD=$library:$files\"*=> 0" "$(outcome "$peerpin" --sim --print-env)"
	same 'a dry run with the simulated adapter' "PEERPIN_SIM_ADAPTER_DELAY=500 UCX_NET_DEVICES=sim0:1 OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx OMPI_MCA_btl='^openib' LD_LIBRARY_PATH=$simulated_adapter:$simulated LD_PRELOAD=$library:$files true
=> 0" "$(UCX_TLS=all outcome "$peerpin" --sim --dry-run true)"
	rm "$tmp/bin/ucx_info"
}

dry_run_and_print_env() {
	same 'a dry run prints the command' "PEERPIN_LOG_LEVEL=info LD_PRELOAD=$library printf %s 'a b' 'it'\\''s'
=> 0" "$(outcome "$peerpin" --dry-run --log-level info printf %s 'a b' "it's")"
	same 'a printed line runs' "$library/a b/it's/" "$(eval \
		"$("$peerpin" --dry-run sh -c "printf '%s/' \"\$LD_PRELOAD\" \"\$@\"" sh 'a b' "it's")")"
	same 'a dry run with peerpin disabled' "PEERPIN_DISABLE=1 true
=> 0" "$(outcome "$peerpin" --dry-run --disable true)"
	fake mpirun 'mpirun (Open MPI) 4.1.4'
	same 'a dry run of a launcher' "PEERPIN_LOG_LEVEL=info mpirun -x PEERPIN_LOG_LEVEL -x LD_PRELOAD=$library -n 2 ./a
=> 0" "$(outcome "$peerpin" --dry-run --log-level info mpirun -n 2 ./a)"
	same 'the environment for a job script' "export PEERPIN_STATS_FILE='it'\\''s \$HOME'
export LD_PRELOAD=$library\"\${LD_PRELOAD:+:\$LD_PRELOAD}\"
=> 0" "$(outcome "$peerpin" --print-env --stats-file "it's \$HOME")"
	# shellcheck disable=SC2016 # expanded by the shell that evaluates
	same 'a job script evaluates it, with an older preload' "$library:libc.so.6 it's \$HOME" "$(
		"$peerpin" --print-env --stats-file "it's \$HOME" >"$tmp/environment"
		env LD_PRELOAD=libc.so.6 sh -c '. "$1"; echo "$LD_PRELOAD $PEERPIN_STATS_FILE"' sh "$tmp/environment"
	)"
	same "a line of another variable's value is no setting" "export PEERPIN_LOG_LEVEL=info
export LD_PRELOAD=$library\"\${LD_PRELOAD:+:\$LD_PRELOAD}\"
=> 0" "$(OTHER=$'a\nPEERPIN_FOO=1\nPEERPIN_LOG_LEVEL=2' PEERPIN_JOB=outer PEERPIN_LOG_LEVEL=info outcome "$peerpin" --print-env)"
	fake mpirun 'mpirun (Open MPI) 4.1.4'
	same 'such a line is no setting of the ranks' "mpirun -x LD_PRELOAD=$library ./a
=> 0" "$(OTHER=$'a\nPEERPIN_FOO=1' outcome "$peerpin" --dry-run mpirun ./a)"
	matches '--print-env with the simulated driver' "*export LD_LIBRARY_PATH=$simulated\"*=> 0" \
		"$(outcome "$peerpin" --sim=driver --print-env)"
	same '--print-env takes no command' $'peerpin: --print-env takes no command: true\n=> 2' \
		"$(outcome "$peerpin" --print-env true)"
}

installed_places() {
	local root=$tmp/root relative

	# Relative to the script, so that a moved or staged tree works.
	mkdir -p "$root/bin"
	# Another prefix, so that an installed peerpin is not found.
	sed "s|^prefix=.*|prefix=$tmp/nowhere|" "$peerpin" >"$root/bin/peerpin"
	chmod +x "$root/bin/peerpin"
	matches 'without the library the program runs' $'peerpin: libpeerpin.so is missing: *\n[[]a]\n=> 3' \
		"$(outcome "$root/bin/peerpin" sh -c 'printf [a]; exit 3')"
	same 'one rank of a host prints the line' $'[a]\n=> 0' \
		"$(OMPI_COMM_WORLD_LOCAL_RANK=1 outcome "$root/bin/peerpin" printf '[a]')"
	matches 'no simulated driver' 'peerpin: libcuda.so.1 is missing: *=> 1' \
		"$(PEERPIN_DISABLE=1 outcome "$root/bin/peerpin" --sim true)"
	matches 'no config' "peerpin: peerpin-config is missing: looked in $root/bin/../* and $tmp/nowhere/*: peerpin is incompletely installed
=> 127" "$(outcome "$root/bin/peerpin" config)"
	# Status 1 of doctor means that GPUDirect RDMA does not work.
	for word in doctor report top; do
		matches "no $word" "peerpin: peerpin-$word is missing: looked in $root/bin/../* and $tmp/nowhere/*: peerpin was configured with --disable-tools, or is incompletely installed
=> 127" "$(outcome "$root/bin/peerpin" "$word" --help)"
	done
	same 'an unknown option without tools' $'peerpin: unknown option: --minsize (see peerpin --help)\n=> 2' \
		"$(outcome "$root/bin/peerpin" --minsize true)"
	mkdir -p "$root/lib/peerpin"
	relative=$(sed -n 's/^pkglibdir=//p' "$peerpin" | sed "s|\${exec_prefix}|$root|")
	relative=${relative#"$root"/}
	mkdir -p "$root/$relative"
	cp "$library" "$root/$relative/libpeerpin.so"
	same 'a moved tree' "$root/$relative/libpeerpin.so"$'\n=> 0' \
		"$(outcome "$root/bin/peerpin" sh -c "echo \$LD_PRELOAD")"
	same 'with an empty PATH' "$root/$relative/libpeerpin.so"$'\n=> 0' \
		"$(PATH='' outcome "$root/bin/peerpin" /bin/sh -c "echo \$LD_PRELOAD")"
	# Folders beside a prefix are not peerpin's.
	mkdir -p "$root/src/.libs" "$root/src/tools" "$root/src/sim/.libs"
	cp "$library" "$root/src/.libs/libpeerpin.so"
	cp "$library" "$root/src/sim/.libs/libcuda.so.1"
	printf '#!/bin/sh\necho a tool of another program\n' >"$root/src/tools/peerpin-config"
	chmod +x "$root/src/tools/peerpin-config"
	same 'a folder src in the prefix is no build folder' "$root/$relative/libpeerpin.so"$'\n=> 0' \
		"$(outcome "$root/bin/peerpin" sh -c "echo \$LD_PRELOAD")"
	matches 'nor for a tool' 'peerpin: peerpin-config is missing: *=> 127' "$(outcome "$root/bin/peerpin" config)"
	matches 'nor for the simulated driver' 'peerpin: libcuda.so.1 is missing: *=> 1' "$(outcome "$root/bin/peerpin" --sim=driver true)"
	: >"$root/config.status"
	same 'nor with a file of that name' "$root/$relative/libpeerpin.so"$'\n=> 0' \
		"$(outcome "$root/bin/peerpin" sh -c "echo \$LD_PRELOAD")"
	rm -r "$root/src" "$root/config.status"
	ln -s "$root/bin/peerpin" "$tmp/bin/linked"
	same 'called through a link' "$root/$relative/libpeerpin.so"$'\n=> 0' \
		"$(outcome linked sh -c "echo \$LD_PRELOAD")"
	mv "$root" "$tmp/with blank"
	matches 'in a folder with a blank in its name' $'peerpin: the loader accepts no blank*\n[[]]\n=> 0' \
		"$(outcome "$tmp/with blank/bin/peerpin" sh -c "echo [\$LD_PRELOAD]")"
}

options_and_statuses
what_a_program_gets
clients_of_the_adapter
dry_run_and_print_env
installed_places
finish
