#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_launchers.sh -- the ranks of each launcher get the library, and the launcher does not
set -euo pipefail

# shellcheck source=tests/launcher/command
. "$(dirname "$0")/command"

open_mpi() {
	local ours

	fake mpirun 'mpirun (Open MPI) 4.1.4'
	ours="[-x][PEERPIN_LOG][-x][LD_PRELOAD=$library]"
	same 'Open MPI: the ranks alone, each program of the line' \
		"${ours}[-n][1][./a b][:]${ours}[./c] preload="$'\n=> 9' \
		"$(outcome "$peerpin" --log warn mpirun -n 1 './a b' : ./c)"
	same 'simulated driver, older preload' \
		"[-x][LD_LIBRARY_PATH=$simulated][-x][LD_PRELOAD=$library:libc.so.6][./a] preload=libc.so.6
=> 9" "$(LD_PRELOAD=libc.so.6 outcome "$peerpin" --sim mpirun ./a)"
	same "the caller's own preload stays, behind ours" \
		"[-x][LD_PRELOAD=$library][-x][LD_PRELOAD=$library:/other.so][./a] preload=
=> 9" "$(outcome "$peerpin" mpirun -x LD_PRELOAD=/other.so ./a)"
	same 'without a value it is what the caller has' \
		"[-x][LD_PRELOAD=$library:libc.so.6][-x][LD_PRELOAD=$library:libc.so.6][./a] preload=libc.so.6
=> 9" "$(LD_PRELOAD=libc.so.6 outcome "$peerpin" mpirun -x LD_PRELOAD ./a)"
	matches 'the simulated driver before the libraries of the caller' \
		"*[[]-x][[]LD_LIBRARY_PATH=$simulated:/other][[]./a]*" \
		"$(outcome "$peerpin" --sim mpirun -x LD_LIBRARY_PATH=/other ./a)"
	same 'disabled' $'[./a] preload=\n=> 9' "$(PEERPIN_DISABLE=1 outcome "$peerpin" mpirun ./a)"
	same 'a list of variables as an option: ours goes into it' \
		"[--mca][mca_base_env_list][A;B=c;PEERPIN_LOG;LD_PRELOAD=$library][./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" --log warn mpirun --mca mca_base_env_list 'A;B=c' ./a)"
	same 'a list of variables as a variable' \
		"OMPI_MCA_mca_base_env_list='A;LD_PRELOAD=$library' mpirun ./a"$'\n=> 0' \
		"$(OMPI_MCA_mca_base_env_list=A outcome "$peerpin" --dry-run mpirun ./a)"
	matches 'a file of programs is not looked into' 'peerpin: programs in programs.txt run without peerpin*=> 9' \
		"$(outcome "$peerpin" mpirun --app programs.txt)"
	fake mpirun 'something else'
	same 'an unknown launcher' "peerpin: mpirun is unknown to peerpin: it gets the environment of its ranks
[./a] preload=$library
=> 9" "$(outcome "$peerpin" mpirun ./a)"
}

hydra() {
	fake mpiexec 'HYDRA build details:'
	same 'Hydra' \
		"[-genv][PEERPIN_LOG][a \"b\"][-genv][LD_PRELOAD][$library][./a][:][./c] preload="$'\n=> 9' \
		"$(PEERPIN_LOG='a "b"' outcome "$peerpin" mpiexec ./a : ./c)"
	same "Hydra: the caller's own preload stays" \
		"[-genv][LD_PRELOAD][$library][-n][1][-env][LD_PRELOAD][$library:/other.so][./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" mpiexec -n 1 -env LD_PRELOAD /other.so ./a)"
	fake mpiexec 'Intel(R) MPI Library for Linux* OS, Version 2021.10'
	same 'Intel MPI' "[-genv][LD_PRELOAD][$library][./a] preload="$'\n=> 9' "$(outcome "$peerpin" mpiexec ./a)"
}

slurm() {
	local none="[--export=LD_PRELOAD=$library][./a] preload="$'\n=> 9'

	fake srun 'slurm 23'
	same 'srun keeps the environment' \
		"[--export=ALL,PEERPIN_LOG,LD_PRELOAD=$library][./a] preload="$'\n=> 9' \
		"$(PEERPIN_LOG=info outcome "$peerpin" srun ./a)"
	same "the caller's list" "[-n][2][--export=FOO,LD_PRELOAD=$library][./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" srun -n 2 --export=FOO ./a)"
	same 'as a word of its own' "[--export][FOO,LD_PRELOAD=$library][./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" srun --export FOO ./a)"
	same 'none of the environment' "$none" "$(outcome "$peerpin" srun --export=NONE ./a)"
	same 'none of it, by the variable' "$none" "$(SLURM_EXPORT_ENV=NONE outcome "$peerpin" srun ./a)"
	same 'a list in the variable' "[--export=A,B,LD_PRELOAD=$library][./a] preload="$'\n=> 9' \
		"$(SLURM_EXPORT_ENV=A,B outcome "$peerpin" srun ./a)"
	same "the caller's own preload stays" \
		"[--export=ALL,LD_PRELOAD=/other.so,X,LD_PRELOAD=$library:/other.so][./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" srun --export=ALL,LD_PRELOAD=/other.so,X ./a)"
	same "what looks like an option behind the program is the program's" \
		"[-n2][--label][--time][5][--export=ALL,LD_PRELOAD=$library][./a][--export=FOO] preload="$'\n=> 9' \
		"$(outcome "$peerpin" srun -n2 --label --time 5 ./a --export=FOO)"
	same 'each program of the line' \
		"[-n1][--export=A,LD_PRELOAD=$library][./a][:][-n][1][--export=ALL,LD_PRELOAD=$library][./b] preload="$'\n=> 9' \
		"$(outcome "$peerpin" srun -n1 --export=A ./a : -n 1 ./b)"
	same 'a program behind two hyphens' "[--export=ALL,LD_PRELOAD=$library][--][./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" srun -- ./a)"
}

others() {
	fake jsrun 'jsrun 10'
	same 'jsrun' "[-E][PEERPIN_LOG=a b][-E][LD_PRELOAD=$library][-n][2][./a] preload="$'\n=> 9' \
		"$(PEERPIN_LOG='a b' outcome "$peerpin" jsrun -n 2 ./a)"
	fake flux 'commands: 0.50'
	same 'flux run' "[run][--env=LD_PRELOAD=$library][-n2][./a] preload="$'\n=> 9' \
		"$(outcome "$peerpin" flux run -n2 ./a)"
	matches 'flux as a program' "[[]jobs] preload=$library"$'\n=> 9' "$(outcome "$peerpin" flux jobs)"
}

# The one that is installed, if any.
real_open_mpi() {
	# shellcheck disable=SC2016 # expanded by the ranks
	local show='echo "[$OMPI_COMM_WORLD_RANK ${LD_PRELOAD-} ${PEERPIN_LOG-}]"' expected

	rm -f "$tmp/bin/mpirun"
	if ! mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
		skip 'with a real Open MPI: there is none'
		return
	fi
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
	expected="[0 $library info]
[1 $library info]"
	ranks() {
		sort <<<"$("$@" 2>&1 </dev/null)"
	}
	same 'two ranks' "$expected" "$(ranks "$peerpin" --log info mpirun -n 2 sh -c "$show")"
	same 'two programs' "$expected" \
		"$(ranks "$peerpin" --log info mpirun -n 1 sh -c "$show" : -n 1 sh -c "$show")"
	same 'two programs, with a list of variables' "$expected" \
		"$(OMPI_MCA_mca_base_env_list='HOME' ranks "$peerpin" --log info mpirun -n 1 sh -c "$show" : -n 1 sh -c "$show")"
	same 'with a list of variables as an option' "$expected" \
		"$(ranks "$peerpin" --log info mpirun --mca mca_base_env_list HOME -n 2 sh -c "$show")"
	same "with the caller's own -x" "$expected" \
		"$(ranks "$peerpin" --log info mpirun -x HOME -n 2 sh -c "$show")"
	same 'with a preload of his own' "${expected//"$library"/"$library":libc.so.6}" \
		"$(ranks "$peerpin" --log info mpirun -x LD_PRELOAD=libc.so.6 -n 2 sh -c "$show")"
	same 'and without saying which' "${expected//"$library"/"$library":libc.so.6}" \
		"$(LD_PRELOAD=libc.so.6 ranks "$peerpin" --log info mpirun -x LD_PRELOAD -n 2 sh -c "$show")"
	same 'both before the launcher and in front of each rank' "$expected" \
		"$(ranks "$peerpin" --log info mpirun -n 2 "$peerpin" sh -c "$show")"
	same 'in front of each rank' "$expected" "$(ranks mpirun -n 2 "$peerpin" --log info sh -c "$show")"
	matches 'the status is that of the ranks' '*=> 5' "$(outcome "$peerpin" mpirun -n 2 sh -c 'exit 5')"
}

open_mpi
hydra
slurm
others
real_open_mpi
finish
