#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_programs.sh -- programs that cannot load the library are named, and run without it
set -euo pipefail

# shellcheck source=tests/launcher/command
. "$(dirname "$0")/command"

# header FILE CLASS MACHINE: an ELF header of another architecture
header() {
	{
		# shellcheck disable=SC2059 # the bytes are the format
		printf "\\177ELF\\$(printf %03o "$2")\\001\\001"
		head -c 9 /dev/zero
		# shellcheck disable=SC2059
		printf "\\002\\000\\$(printf %03o "$3")\\000"
		head -c 200 /dev/zero
	} >"$1"
	chmod +x "$1"
}

setuid() {
	if [[ $(id -u) -ne 0 ]] || ! cp /bin/true "$tmp/setuid" || ! chown 65534 "$tmp/setuid" ||
		findmnt -no OPTIONS -T "$tmp" 2>/dev/null | grep -q nosuid; then
		skip 'a set-uid program is named: it takes root, and a file system that heeds the bit'
		return
	fi
	chmod 755 "$tmp"
	chmod 4755 "$tmp/setuid"
	# The other user may have no access to the libraries of this machine.
	alone=$(outcome "$tmp/setuid")
	matches 'a set-uid program is named' "peerpin: */setuid runs with other privileges *=> ${alone##*=> }" \
		"$(outcome "$peerpin" "$tmp/setuid")"
	chown 0 "$tmp/setuid"
	chmod 4755 "$tmp/setuid"
	same "one of the caller's own is like any other" $'\n=> 0' "$(outcome "$peerpin" "$tmp/setuid")"
	if ! command -v setcap setpriv >/dev/null || ! setcap cap_net_raw+ep "$tmp/setuid" 2>/dev/null; then
		skip 'a program with capabilities is named: no setcap and setpriv, or not on this file system'
		return
	fi
	chmod 755 "$tmp/setuid"
	setcap cap_net_raw+ep "$tmp/setuid"
	same 'file capabilities change nothing for root' $'\n=> 0' "$(outcome "$peerpin" "$tmp/setuid")"
	if setpriv --reuid 65534 --clear-groups "$peerpin" --version >/dev/null 2>&1; then
		matches 'a program with capabilities is named' 'peerpin: */setuid runs with other privileges *=> 0' \
			"$(outcome setpriv --reuid 65534 --clear-groups "$peerpin" "$tmp/setuid")"
	else
		skip 'a program with capabilities is named: others cannot reach the build folder'
	fi
}

# A program that a launcher starts is named, too, and starts as it would without the line.
behind_launchers() {
	local line

	for line in 'env A=1' 'nice -n 1' 'timeout -k 9 60' 'nohup' 'taskset -c 0-999' 'time -p' 'env A=1 nice -n 1'; do
		command -v "${line%% *}" >/dev/null && [[ ${line%% *} != time || -x /usr/bin/time ]] || continue
		# shellcheck disable=SC2086 # words
		matches "behind $line" "peerpin: $tmp/static is statically linked: libpeerpin.so cannot be preloaded
*[[]with]*=> 4" "$(outcome "$peerpin" $line "$tmp/static")"
		# shellcheck disable=SC2086
		matches "an ordinary program behind $line" '[[]with]*=> 4' "$(outcome "$peerpin" $line "$tmp/ordinary" "$tmp/static")"
	done
	fake mpirun 'mpirun (Open MPI) 4.1.4'
	fake srun 'slurm 23'
	for line in 'mpirun -n 2' 'srun -n 2' 'env A=1 mpirun --mca pml ucx' "mpirun -n 1 $tmp/ordinary :" 'mpirun -n 1 env A=1'; do
		# shellcheck disable=SC2086
		matches "behind $line" "peerpin: $tmp/static is statically linked: libpeerpin.so cannot be preloaded
*[[]*LD_PRELOAD=$library][[]*=> 9" "$(outcome "$peerpin" $line "$tmp/static")"
	done
	matches 'an argument of the program is no program' '[[]*=> 9' "$(outcome "$peerpin" mpirun -n 2 "$tmp/ordinary" a "$tmp/static")"
	same 'disabled: no line' '' "$(PEERPIN_DISABLE=1 outcome "$peerpin" mpirun "$tmp/static" | grep ^peerpin)"
	cp "$tmp/static" "$tmp/bin/srun"
	same 'the file of an MPI launcher does not matter' "srun --export=ALL,LD_PRELOAD=$library ./elsewhere"$'\n=> 0' \
		"$(outcome "$peerpin" --dry-run srun ./elsewhere)"
	cp "$tmp/static" "$tmp/bin/docker"
	matches 'a container has other files' "peerpin: $tmp/bin/docker is statically linked*=> 4" "$(outcome "$peerpin" docker run image "$tmp/ordinary")"
	rm "$tmp/bin/mpirun" "$tmp/bin/srun" "$tmp/bin/docker"
}

compiled() {
	if ! command -v gcc >/dev/null; then
		skip 'a static program is named: no gcc'
		return
	fi
	# shellcheck disable=SC2016
	printf '#include <stdio.h>\n#include <stdlib.h>\nint main(void) { printf("[%%s]", getenv("LD_PRELOAD") ? "with" : ""); return 4; }\n' \
		>"$tmp/program.c"
	gcc -o "$tmp/ordinary" "$tmp/program.c"
	same 'an ordinary program' $'[with]\n=> 4' "$(outcome "$peerpin" "$tmp/ordinary")"
	gcc -static -o "$tmp/static" "$tmp/program.c"
	same 'a static program is named, and runs without the library' \
		"peerpin: $tmp/static is statically linked: libpeerpin.so cannot be preloaded
[]
=> 4" "$(outcome "$peerpin" "$tmp/static")"
	same 'one rank of a host prints the line' $'[]\n=> 4' "$(SLURM_LOCALID=3 outcome "$peerpin" "$tmp/static")"
	gcc -static-pie -o "$tmp/static-pie" "$tmp/program.c" 2>/dev/null &&
		matches 'a static position-independent program' 'peerpin: */static-pie is statically linked*=> 4' \
			"$(outcome "$peerpin" "$tmp/static-pie")"
	mkdir -p "$tmp/musl"
	ln -s "$(readelf -l "$tmp/ordinary" | sed -n 's/.*interpreter: \(.*\)]/\1/p')" "$tmp/musl/ld-musl-x.so.1"
	gcc -o "$tmp/musl/program" "$tmp/program.c" -Wl,--dynamic-linker="$tmp/musl/ld-musl-x.so.1"
	same 'another C library' "peerpin: $tmp/musl/program is linked to musl, libpeerpin.so to glibc: it runs without peerpin
[]
=> 4" "$(outcome "$peerpin" "$tmp/musl/program")"
	gcc -o "$tmp/elsewhere" "$tmp/program.c" -Wl,--dynamic-linker=/none/ld.so
	matches 'a program whose dynamic linker is missing' \
		"peerpin: $tmp/elsewhere requires /none/ld.so, which is missing*=> 127" "$(outcome "$peerpin" "$tmp/elsewhere")"
	printf '#!%s -x\n' "$tmp/static" >"$tmp/script"
	chmod +x "$tmp/script"
	behind_launchers
	matches 'a script counts as its interpreter' "peerpin: $tmp/static is statically linked*=> 4" \
		"$(outcome "$peerpin" "$tmp/script")"
	printf '#!/usr/bin/env -S static\n' >"$tmp/script"
	matches 'a script of env counts as its interpreter' "peerpin: $tmp/static is statically linked*=> 4" \
		"$(PATH=$tmp:$PATH outcome "$peerpin" "$tmp/script")"
}

other_architectures() {
	header "$tmp/arm" 2 183
	header "$tmp/intel" 2 62
	header "$tmp/narrow" 1 3
	case $(uname -m) in
	x86_64) matches 'another architecture' 'peerpin: */arm is a program for aarch64: libpeerpin.so is for x86-64 and cannot be preloaded*' \
		"$(outcome "$peerpin" "$tmp/arm")" ;;
	*) matches 'another architecture' 'peerpin: */intel is a program for x86-64: libpeerpin.so is for *' \
		"$(outcome "$peerpin" "$tmp/intel")" ;;
	esac
	matches 'a 32-bit program' 'peerpin: */narrow is a program for 32-bit x86: *' "$(outcome "$peerpin" "$tmp/narrow")"
}

damaged() {
	local size

	# Inspection of a truncated file ends with an ordinary status.
	for size in 3 4 19 20 40 63 64 100; do
		head -c "$size" /bin/true >"$tmp/cut"
		chmod +x "$tmp/cut"
		matches "cut to $size bytes" '=> [01]' "$(outcome "$config" --inspect "$library" "$tmp/cut" | tail -n 1)"
	done
	printf '#!\n' >"$tmp/cut"
	same 'a script with an empty first line' $'\n=> 0' "$(outcome "$config" --inspect "$library" "$tmp/cut")"
	printf '#!%s/cut\n' "$tmp" >"$tmp/cut"
	same 'a script that is its own interpreter' $'\n=> 0' "$(outcome "$config" --inspect "$library" "$tmp/cut")"
	printf '#!%s/none\n' "$tmp" >"$tmp/cut"
	same 'a script whose interpreter is missing' "peerpin: $tmp/cut requires $tmp/none, which is missing"$'\n=> 1' \
		"$(outcome "$config" --inspect "$library" "$tmp/cut")"
	same 'peerpin says so once' "peerpin: $tmp/cut requires $tmp/none, which is missing"$'\n=> 127' "$(outcome "$peerpin" "$tmp/cut")"
	printf '#!/bin/sh\r\n' >"$tmp/cut"
	same 'a script with carriage returns' \
		"peerpin: $tmp/cut requires /bin/sh?, which is missing (its first line ends with a carriage return)"$'\n=> 1' \
		"$(outcome "$config" --inspect "$library" "$tmp/cut")"
	same 'no file' $'\n=> 0' "$(outcome "$config" --inspect "$library" "$tmp/missing")"
}

# sanitized NAME COMPILER OPTION...: runs $tmp/NAME, built so; skips a compiler without that runtime
sanitized() {
	if ! "${@:2}" -o "$tmp/$1" "$tmp/parent.c" 2>/dev/null || [[ $(outcome "$tmp/$1" /bin/true) != $'[]0\n=> 4' ]]; then
		skip "$1: ${*:2} builds no program that runs here"
		return
	fi
	same "$1 starts" $'[with]0\n=> 4' "$(outcome "$peerpin" "$tmp/$1" /bin/true)"
	# It neither is searched for leaks nor prints a line of the dynamic linker.
	same "a child of $1 is as without peerpin" $'[with]0\n=> 4' "$(outcome "$peerpin" "$tmp/$1" "$tmp/leaking")"
	same "$1 behind another program" $'[with]0\n=> 4' "$(outcome "$peerpin" timeout 60 "$tmp/$1" /bin/true)"
	matches "$1 finds its errors" "*$(outcome "$tmp/$1" | grep -o 'ERROR: AddressSanitizer: [a-z-]*' | tail -n 1)*" \
		"$(outcome "$peerpin" "$tmp/$1")"
}

sanitizers() {
	local runtime

	if ! command -v gcc >/dev/null; then
		skip 'programs with a sanitizer: no gcc'
		return
	fi
	cat >"$tmp/parent.c" <<'TEXT'
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words)
{
	char *volatile one = malloc(1);
	int status;
	if (count < 2)
		return one[1];
	free(one);
	status = system(words[1]);
	printf("[%s]%d", getenv("LD_PRELOAD") ? "with" : "", status);
	return 4;
}
TEXT
	printf '#include <stdlib.h>\nint main(void) { void *volatile lost = malloc(10); lost = 0; return 0; }\n' >"$tmp/leaking.c"
	gcc -o "$tmp/leaking" "$tmp/leaking.c"
	sanitized address gcc -g -fsanitize=address
	sanitized undefined gcc -g -fsanitize=undefined
	if command -v clang >/dev/null; then
		runtime=$(dirname "$(clang -print-file-name="libclang_rt.asan-$(uname -m).so")")
		sanitized clang-address clang -g -fsanitize=address -shared-libasan -Wl,-rpath,"$runtime"
		sanitized clang-static clang -g -fsanitize=address
	fi
	if [[ -x $tmp/address ]]; then
		runtime=$(gcc -print-file-name=libasan.so)
		same 'with the runtime in LD_PRELOAD' $'[with]0\n=> 4' "$(LD_PRELOAD=$runtime outcome "$peerpin" "$tmp/address" /bin/true)"
		same 'which stays first' "LD_PRELOAD=$runtime:$library:libc.so.6 true"$'\n=> 0' \
			"$(LD_PRELOAD="$runtime libc.so.6" outcome "$peerpin" --dry-run true)"
		same "the caller's options stay" \
			"ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 LD_PRELOAD=$library $tmp/address"$'\n=> 0' \
			"$(ASAN_OPTIONS=detect_leaks=0 outcome "$peerpin" --dry-run "$tmp/address")"
	fi
	same 'other programs get no option of sanitizers' $'\n=> 1' "$(outcome "$peerpin" printenv ASAN_OPTIONS)"
}

setuid
compiled
sanitizers
other_architectures
damaged
finish
