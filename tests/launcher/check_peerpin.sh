#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_peerpin.sh -- the command peerpin: options, statuses, what programs and launchers get
set -euo pipefail

# Run by make check in the build folder.
# shellcheck source=tests/launcher/checks
. "$(dirname "$0")/checks"

build=$PWD
peerpin=$build/scripts/peerpin
library=$build/src/.libs/libpeerpin.so
library=$(readlink -f "$library")
driver=$(readlink -f "$build/src/sim/.libs/libcuda.so.1")
simulated=${driver%/*}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset LD_PRELOAD LD_LIBRARY_PATH
for name in ${!PEERPIN_@}; do unset "$name"; done
mkdir "$tmp/bin"
PATH=$tmp/bin:$PATH

# fake NAME VERSION: a launcher that shows its arguments and its own environment
fake() {
	cat >"$tmp/bin/$1" <<TEXT
#!/bin/sh
if [ "\$*" = --version ]; then echo '$2'; exit; fi
for word; do printf '[%s]' "\$word"; done
echo " preload=\${LD_PRELOAD-}"
exit 9
TEXT
	chmod +x "$tmp/bin/$1"
}

options_and_statuses() {
	matches 'help says how to call it' 'usage: peerpin *=> 0' "$(outcome "$peerpin" --help)"
	matches 'version' 'peerpin [0-9]*.[0-9]*=> 0' "$(outcome "$peerpin" --version)"
	same 'an unknown option' $'peerpin: unknown option: --bogus (see peerpin --help)\n=> 2' \
		"$(outcome "$peerpin" --bogus true)"
	same 'no command' $'peerpin: no command given (see peerpin --help)\n=> 2' \
		"$(outcome "$peerpin")"
	same 'no command after options' "$(outcome "$peerpin")" "$(outcome "$peerpin" --sim --)"
	same 'an option without its value' \
		$'peerpin: --log needs a value (see peerpin --help)\n=> 2' \
		"$(outcome "$peerpin" --log)"
	same 'an unknown command' $'peerpin: no-such-program: command not found\n=> 127' \
		"$(outcome "$peerpin" no-such-program)"
	same 'a missing file' $'peerpin: ./no-such-file: no such file\n=> 127' \
		"$(outcome "$peerpin" ./no-such-file)"
	: >"$tmp/data"
	same 'a file that is no program' "peerpin: $tmp/data: not an executable file
=> 126" "$(outcome "$peerpin" "$tmp/data")"
	same 'a folder' "peerpin: $tmp: not an executable file
=> 126" "$(outcome "$peerpin" "$tmp")"
	same 'the status is the command'"'"'s' $'\n=> 7' "$(outcome "$peerpin" sh -c 'exit 7')"
	# shellcheck disable=SC2016 # expanded by the program
	matches "a signal is the command's" '*=> 137' "$(outcome "$peerpin" sh -c 'kill -9 $$')"
	same 'words reach the command as they are' $'[a b][--sim][*][]\n=> 0' \
		"$(outcome "$peerpin" -- printf '[%s]' 'a b' --sim '*' '')"
}

what_a_program_gets() {
	# shellcheck disable=SC2016 # expanded by the program
	local show='echo "${LD_PRELOAD-} ${LD_LIBRARY_PATH-} ${PEERPIN_STATS-} ${PEERPIN_LOG-}"'

	same 'the library' "$library   "$'\n=> 0' "$(outcome "$peerpin" sh -c "$show")"
	same 'the library before an older preload' "$library:libc.so.6   "$'\n=> 0' \
		"$(LD_PRELOAD=libc.so.6 outcome "$peerpin" sh -c "$show")"
	same 'options as variables' "$library  a%r warn"$'\n=> 0' \
		"$(outcome "$peerpin" --stats a%r --log=warn sh -c "$show")"
	same 'the simulated driver before an older path' "$library $simulated:/old  "$'\n=> 0' \
		"$(LD_LIBRARY_PATH=/old outcome "$peerpin" --sim sh -c "$show")"
	same 'nothing when disabled' $'   \n=> 0' \
		"$(PEERPIN_DISABLE=1 outcome "$peerpin" sh -c "$show")"
	same 'PEERPIN_DISABLE=0 disables nothing' "$library   "$'\n=> 0' \
		"$(PEERPIN_DISABLE=0 outcome "$peerpin" sh -c "$show")"
	same 'the driver alone when disabled' " $simulated  "$'\n=> 0' \
		"$(PEERPIN_DISABLE=1 outcome "$peerpin" --sim sh -c "$show")"
}

what_ranks_get() {
	local ours

	fake mpirun 'mpirun (Open MPI) 4.1.4'
	ours="[-x][PEERPIN_LOG][-x][LD_PRELOAD=$library]"
	same 'Open MPI: the ranks alone, each program of the line' \
		"${ours}[-n][1][./a b][:]${ours}[./c] preload="$'\n=> 9' \
		"$(outcome "$peerpin" --log warn mpirun -n 1 './a b' : ./c)"
	same 'Open MPI: simulated driver, older preload' \
		"[-x][LD_PRELOAD=$library:libc.so.6][-x][LD_LIBRARY_PATH=$simulated][./a] preload=libc.so.6
=> 9" "$(LD_PRELOAD=libc.so.6 outcome "$peerpin" --sim mpirun ./a)"
	same 'Open MPI: disabled' $'[./a] preload=\n=> 9' \
		"$(PEERPIN_DISABLE=1 outcome "$peerpin" mpirun ./a)"
	fake mpiexec 'HYDRA build details:'
	same 'Hydra' \
		"[-genv][LD_PRELOAD][$library][-genv][PEERPIN_LOG][a \"b\"][./a][:][./c] preload="$'\n=> 9' \
		"$(PEERPIN_LOG='a "b"' outcome "$peerpin" mpiexec ./a : ./c)"
	fake srun 'slurm 23'
	same 'srun keeps the environment' \
		"[--export=ALL,PEERPIN_LOG,LD_PRELOAD=$library][./a] preload="$'\n=> 9' \
		"$(PEERPIN_LOG=info outcome "$peerpin" srun ./a)"
	matches "srun with the caller's own --export" \
		"\[--export=ALL,*\]\[--export=FOO,LD_PRELOAD=$library\]\[./a\] preload="$'\n=> 9' \
		"$(outcome "$peerpin" srun --export=FOO ./a)"
	fake mpirun 'something else'
	same 'an unknown launcher' "peerpin: mpirun is unknown to peerpin: it gets the environment of its ranks
[./a] preload=$library
=> 9" "$(outcome "$peerpin" mpirun ./a)"
}

installed_places() {
	local root=$tmp/root

	# Relative to the script, so that a moved or staged tree works.
	mkdir -p "$root/bin"
	cp "$peerpin" "$root/bin/peerpin"
	matches 'no library' 'peerpin: libpeerpin.so is missing: *=> 1' \
		"$(outcome "$root/bin/peerpin" true)"
	mkdir -p "$root/lib/peerpin"
	relative=$(sed -n 's/^pkglibdir=//p' "$peerpin" | sed "s|\${exec_prefix}|$root|")
	relative=${relative#"$root"/}
	mkdir -p "$root/$relative"
	cp "$library" "$root/$relative/libpeerpin.so"
	same 'a moved tree' "$root/$relative/libpeerpin.so"$'\n=> 0' \
		"$(outcome "$root/bin/peerpin" sh -c "echo \$LD_PRELOAD")"
	ln -s "$root/bin/peerpin" "$tmp/bin/linked"
	same 'called through a link' "$root/$relative/libpeerpin.so"$'\n=> 0' \
		"$(outcome linked sh -c "echo \$LD_PRELOAD")"
}

programs_out_of_reach() {
	cp /bin/true "$tmp/setuid"
	chmod u+s "$tmp/setuid"
	matches 'a set-uid program is named' 'peerpin: */setuid runs with other rights *=> 0' \
		"$(outcome "$peerpin" "$tmp/setuid")"
	if ! command -v gcc readelf >/dev/null; then
		skip 'a static program is named: no gcc or readelf'
		return
	fi
	echo 'int main(void) { return 0; }' >"$tmp/static.c"
	gcc -static -o "$tmp/static" "$tmp/static.c"
	matches 'a static program is named' 'peerpin: */static is linked statically*=> 0' \
		"$(outcome "$peerpin" "$tmp/static")"
}

options_and_statuses
what_a_program_gets
what_ranks_get
installed_places
programs_out_of_reach
finish
