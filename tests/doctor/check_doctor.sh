#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_doctor.sh -- text, JSON and exit status of peerpin doctor over test hosts; each check can
# fail
#
# hosts/NAME.expected is the output for NAME.dump, followed by "=> STATUS", and by the other fixes and results of --verbose.
# Those that program-good, a host without problems, has too are left out; "none": a result that only program-good has.
# REWRITE=1 writes these files: review each change. hosts/ has dumps of real machines; make_hosts.py generates the other
# dumps in the build folder.
set -u
folder=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/launcher/checks
. "$folder/../launcher/checks"
doctor=$PWD/src/tools/peerpin-doctor
[ -x "$doctor" ] || exit 77
recorded=$folder/hosts/h200-no-adapter.dump
generated=$PWD/tests/doctor/generated
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset NO_COLOR PEERPIN_SYSROOT LD_PRELOAD

# status FILE ARGUMENT...: the output goes to FILE
status() {
	local to=$1

	"$doctor" "${@:2}" >"$to" 2>&1 </dev/null
	echo $?
}

# ---- recorded and generated hosts ----
python=$(command -v python3) || skip 'no Python: hosts that make_hosts.py generates, JSON'
if [ "$python" ]; then
	rm -rf "$generated" && mkdir -p "$generated"
	same 'make_hosts.py generates hosts' '' "$("$python" "$folder/make_hosts.py" "$generated" 2>&1)"
fi
good=$folder/hosts/program-good.expected
# other VERBOSE: its lines that neither the output of this host nor the good host has
other() {
	awk '/^(OK|-|[?]|WARN|FAIL) / { if (FILENAME == ARGV[1] && $2 != "program") missed[$2]; else if (FILENAME == ARGV[3]) delete missed[$2] }
		FILENAME != ARGV[3] { known[$0]; next } !($0 in known)
		END { for (check in missed) print "none  " check | "sort" }' "$good" "$work/$name.text" "$1"
}
mapfile -t dumps < <(find "$folder/hosts" ${python:+"$generated"} -name '*.dump' | sort)
for dump in ${python:+"$generated/program-good.dump"} "${dumps[@]}"; do
	name=$(basename "$dump" .dump)
	found=$(outcome "$doctor" --from "$dump")
	printf '%s\n' "$found" >"$work/$name.text"
	"$doctor" --verbose --from "$dump" | grep -E '^(OK|-|[?]|WARN|FAIL|fix) ' >"$work/$name.verbose"
	[ "$name" = program-good ] && more=cat || more=other
	whole=$(cat "$work/$name.text"; echo; $more "$work/$name.verbose")
	if [ "${REWRITE:-}" ]; then
		printf '%s\n' "$whole" >"$folder/hosts/$name.expected"
	fi
	same "$name" "$(cat "$folder/hosts/$name.expected" 2>&1)" "$whole"
	code=${found##*=> }
	same "$name: each unknown check is listed" "$(sed -n '2s/.* \([0-9]*\) unknown.*/\1/p' <<<"$found")" \
		"$(sed -n 's/^?     .*: //p' <<<"$found" | tr , '\n' | grep -c . | grep -v '^0$')"
	same "$name: status with --json" "$code" "$(status "$work/$name.json" --json --from "$dump")"
	same "$name: --quiet is the second line and the status" "$(sed -n '2p;$p' <<<"$found")" "$(outcome "$doctor" --quiet --from "$dump")"
	same "$name: a dump of a dump has the same output" "$found" \
		"$("$doctor" --quiet --from "$dump" --dump "$work/again" >/dev/null 2>&1
			outcome "$doctor" --from "$work/again")"
done
if [ "$python" ]; then
	same 'each host has an expected output, and each expected output has a host' '' \
		"$(diff <(cd "$folder/hosts" && printf '%s\n' *.expected | sort) \
			<(printf '%s\n' "${dumps[@]##*/}" | sed 's/dump$/expected/' | sort))"
	same 'JSON has the same results; each check is OK on one host, and not OK on another' '' \
		"$("$python" "$folder/check_results.py" "$work" 2>&1)"
	same 'each name in a table is defined, and each value is used' '' "$("$python" "$folder/check_rules.py" "$folder/../../src/tools/doctor" 2>&1)"
	same 'unreadable data are neither OK nor a failure' '' "$(nice "$python" "$folder/check_unreadable.py" "$doctor" 2>&1)"
fi

# ---- this machine ----
live=$(status "$work/live" --no-probe --dump "$work/live.dump")
same 'a recorded run has the same status' "$live" "$(status "$work/replayed" --from "$work/live.dump")"
same 'and the same output' "$(cat "$work/live")" "$(cat "$work/replayed")"
status "$work/live.verbose" --no-probe --verbose --only kernel,limits >/dev/null
status "$work/replayed.verbose" --verbose --only kernel,limits --from "$work/live.dump" >/dev/null
same 'also with --verbose' "$(cat "$work/live.verbose")" "$(cat "$work/replayed.verbose")"
same 'no colour in a file' '' "$(grep -c $'\033' "$work/live" | grep -v '^0$')"
same 'only the owner can read a dump' 600 "$(stat -c %a "$work/live.dump")"
echo mine >"$work/mine"
chmod 644 "$work/mine"
ln -s mine "$work/link.dump"
mkfifo "$work/fifo.dump"
mkdir "$work/folder.dump"
# A copy: root with the rule broken would replace the true one.
cp -a /dev/null "$work/device.dump" 2>/dev/null || rm -f "$work/device.dump"
for file in "$work/link.dump" "$work/fifo.dump" "$work/folder.dump" "$work/device.dump"; do
	[[ -e $file ]] || continue
	before=$(ls -ld "$file")
	matches "no dump to $file" "*peerpin doctor: $file is no regular file: name a new or a regular one*=> 2" \
		"$(outcome timeout 60 "$doctor" --quiet --from "$recorded" --dump "$file")"
	same "$file stays" "$before" "$(ls -ld "$file")"
done
same "a link's target stays" mine "$(cat "$work/mine")"
status "$work/replaced" --from "$recorded" --dump "$work/mine" >/dev/null
matches 'a dump replaces a file, which its owner alone can read' "600 $(head -n 1 "$recorded")" \
	"$(stat -c %a "$work/mine") $(head -n 1 "$work/mine")"

# ---- a simulated driver and adapter ----
simulated=$PWD/src/sim/adapter/.libs:$PWD/src/sim/.libs
if [ -e "$PWD/src/sim/.libs/libcuda.so.1" ] && [ -e "$PWD/src/sim/adapter/.libs/libibverbs.so.1" ]; then
	export PEERPIN_SIM_DEVICES=2 PEERPIN_SIM_ADAPTER_DEVICES=2
	found=$(LD_LIBRARY_PATH=$simulated outcome "$doctor" --dump "$work/simulated.dump")
	matches 'simulated GPUs work' '*GPUDirect RDMA works on this host (GPU0-sim0 GPU1-sim?) by software adapters alone*=> 0' "$found"
	matches 'and the probe registers memory' '*OK *probe *GPU0-sim0 *dma-buf 64 MiB * ms/GiB*' \
		"$("$doctor" --verbose --from "$work/simulated.dump")"
	same 'a recorded registration has the same times' "$found" "$(outcome "$doctor" --from "$work/simulated.dump")"
	same 'the port of a simulated adapter' 'ACTIVE InfiniBand' "$(sed -n '/^== verbs.sim1.port.1/{n;p}' "$work/simulated.dump")"
	matches 'the probe registers host memory of an integrated GPU' '*OK *gpu *integrated*OK *probe *GPU0-sim0 *peermem 64 MiB*=> 0' \
		"$(PEERPIN_SIM_INTEGRATED=1 LD_LIBRARY_PATH=$simulated outcome "$doctor" --verbose --only gpu,probe)"
	found=$(LD_LIBRARY_PATH=$simulated outcome "$doctor" --verbose --no-probe)
	matches 'without the probe the conclusion is undecided' '*Undecided: *[?] *probe *skipped*=> 3' "$found"
	found=$(LD_LIBRARY_PATH=$simulated outcome "$doctor" --verbose --limit 0 "$(command -v bash)")
	for check in gpu verbs dma-buf program; do
		matches "without time $check is unknown" "*[?] *$check *no time was left*" "$found"
	done
	# A host with an empty /dev/infiniband lacks the simulated adapter's device, which is seen without time.
	same 'without time no check fails, and the conclusion is undecided' '=> 3' \
		"$(grep -e ^FAIL -e '^=>' <<<"$found" | grep -v '^FAIL  uverbs .*/dev/infiniband has no uverbs device')"
	for async in 0 1; do
		matches "copies without SYNC_MEMOPS, asynchronous $async" "*OK *probe *old data in $((4 * async)) of 4 rounds, with SYNC_MEMOPS in 0*GPU0-sim0 dma-buf  *peerpin saves, *64.0 KiB*1.00 GiB*=> 0" \
			"$(PEERPIN_SIM_DEVICES=1 PEERPIN_SIM_ADAPTER_DEVICES=1 PEERPIN_SIM_ASYNC=$async LD_LIBRARY_PATH=$simulated outcome "$doctor" --deep --limit 1200 --only probe)"
	done
	# A library with a sanitizer cannot be preloaded; then this program is not built.
	[ ! -x "$PWD/tests/forms/requests" ] ||
		matches 'a preloaded peerpin serves none of the registrations of the probe' '*old data in 4 of 4 rounds, with SYNC_MEMOPS in 0*=> 0' \
			"$(PEERPIN_SIM_ASYNC=1 outcome "$PWD/scripts/peerpin" --sim "$PWD/scripts/peerpin" doctor --deep --limit 1200 --only probe)"
	if [ -x "$PWD/tests/forms/requests" ] && [ "$python" ]; then
		mkdir "$work/job"
		PEERPIN_SUMMARY=none PEERPIN_STATS_FILE="$work/job/%p.json" LD_LIBRARY_PATH=$simulated \
			"$PWD/tests/forms/requests" "$PWD/src/.libs/libpeerpin.so" exact >"$work/exact"
		read -r bytes regions < <("$python" -c 'import json, sys; job = json.load(open(sys.argv[1])); print(
			-(-job["pinned_bytes_peak"] >> 20), job["registrations"])' "$work"/job/*.json)
		matches 'ranks of a job that fit' "*OK    job *GPU0..7 $((131071 / ${bytes:-1})) ranks fit: *registers $bytes; mlx5_0..7 has room for the registrations of any number of ranks*=> 0" \
			"$(outcome "$doctor" --job "$work/job" --from "$generated/dgx.dump")"
	else
		skip 'ranks of a job: tests/forms/requests is not built'
	fi
	matches 'statistics that are missing' "*--job: no statistics in $work/none"$'\n=> 2' "$(outcome "$doctor" --job "$work/none" --from "$recorded")"
	readings=$PWD/tests/readings/readings
	if [ -x "$readings" ]; then
		# The limit is 8 times the limit of a child. Two adapters take 2, each hanging pair
		# 2: no time is left for the last pair. Longer limits follow on a machine that
		# stalls before the call hangs.
		for seconds in 1 4 16; do
			wanted="probe/0/sim0/dma-buf/2097152 = fail timeout $seconds in ibv_reg_dmabuf_mr
probe/1/sim0/ended !ETIME no time was left: Timer expired
probe/1/sim1/dma-buf/2097152 = fail timeout $seconds in ibv_reg_dmabuf_mr"
			found=$(PEERPIN_SIM_ADAPTER_DELAY=60000000 LD_LIBRARY_PATH=$simulated "$readings" option/seconds=$seconds \
				option/limit=$((8 * seconds)) probe/ended)
			told=$(grep -e ^probe/0/sim0/dma-buf/2097152 -e ^probe/1/sim0/ended -e ^probe/1/sim0/dma-buf \
				-e ^probe/1/sim1/dma-buf/2097152 <<<"$found")
			[ "$told" != "$wanted" ] || break
		done
		same 'a hanging pair is stopped, pairs without time are skipped, and each GPU is tried before any second adapter' \
			"$wanted" "$told"
		sed -n 's/^\([^ ]*\) = /== \1\n/p;s/^\([^ ]*\) !/== \1\n!/p' <<<"$found" | tr '|' '\n' | sed "1i# peerpin doctor: readings of a host, version 1" >"$work/late.dump"
		matches 'skipped pairs are unknown' '*fix *probe *--limit*FAIL *probe *GPU? was not tried with each adapter: no time was left*timeout '"$seconds"'*' \
			"$(outcome "$doctor" --only probe --from "$work/late.dump")"
	else
		skip 'no time was left: the readers are not built'
	fi
	unset PEERPIN_SIM_DEVICES PEERPIN_SIM_ADAPTER_DEVICES
else
	skip 'the simulated driver is not built'
fi

# ---- a machine below a folder ----
root=$work/root
mkdir -p "$root/sys/module/nvidia" "$root/proc/driver/nvidia" "$root/sys/bus/pci/devices" "$root/sys/devices/pci0000:00/0000:00:04.0"
echo 580.95.05 >"$root/sys/module/nvidia/version"
echo 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build' >"$root/proc/driver/nvidia/version"
ln -s ../../../devices/pci0000:00/0000:00:04.0 "$root/sys/bus/pci/devices/0000:00:04.0"
echo 0x10de >"$root/sys/bus/pci/devices/0000:00:04.0/vendor"
echo 0x030200 >"$root/sys/bus/pci/devices/0000:00:04.0/class"
printf '0x00000000e0000000 0x00000000e0ffffff 0x0\n0x0000002000000000 0x0000003fffffffff 0x0\n' \
	>"$root/sys/bus/pci/devices/0000:00:04.0/resource"
found=$(outcome "$doctor" --sysroot "$root" --only driver,bar1)
matches 'a driver below a root' '*OK *driver *580.95.05, open kernel module, Linux*' "$found"
matches 'a GPU below a root' '*OK *bar1 *0000:00:04.0 128 GiB*' "$found"
same 'PEERPIN_SYSROOT does the same' "$found" "$(PEERPIN_SYSROOT=$root outcome "$doctor" --only driver,bar1)"
"$doctor" --sysroot "$root" --dump "$work/root.dump" >/dev/null
same 'the target of a link is below the root' '/sys/devices/pci0000:00/0000:00:04.0' \
	"$(sed -n '/^== .*04.0@$/{n;p}' "$work/root.dump")"
mkdir -p "$root/sys/kernel" "$root/lib/modules/$(uname -r)"
matches 'without a list of modules, the module is unknown' '*[?] *peermem-install *no list (modules.dep)*=> 3' \
	"$(outcome "$doctor" --sysroot "$root" --only peermem-install)"
echo 'updates/dkms/nvidia-peermem.ko.zst:' >"$root/lib/modules/$(uname -r)/modules.dep"
matches 'without /proc/kallsyms, the symbol is unknown' '*[?] *peermem-install *is not known: no /proc/kallsyms*=> 3' \
	"$(outcome "$doctor" --sysroot "$root" --only peermem-install)"
echo '0000000000000000 T ib_register_client' >"$root/proc/kallsyms"
matches 'without the symbol there is no interface' '*[?] *peermem-install *has no peer-memory interface*=> 3' \
	"$(outcome "$doctor" --sysroot "$root" --only peermem-install)"
echo '0000000000000000 T ib_register_peer_memory_client	[ib_core]' >>"$root/proc/kallsyms"
matches 'with it the module can be loaded' '*OK *peermem-install *can be loaded*=> 0' \
	"$(outcome "$doctor" --sysroot "$root" --only peermem-install)"

# ---- many hosts ----
if [ "$python" ]; then
	for host in n1 n2 n3 n4; do
		sed "s/\"host\": .*/\"host\": \"$host\",/" "$work/dgx.json" >"$work/$host.merge"
	done
	sed -i 's/580.95.05, open/570.86.15, open/; s/"PIX"/"SYS"/; s/PIX"/SYS"/' "$work/n1.merge"
	sed -i 's/"status": 0/"status": 1/; s/128 GiB, all/64 GiB, all/; s/nvidia_peermem 580/\\u001b[31mnvidia_peermem 580/; s/64 MiB 2.9 ms/64 MiB 3.1 ms/' "$work/n4.merge"
	same 'hosts that differ' "peerpin doctor  4 hosts
verdict          3 hosts               works
                 n4                    fails
driver           3 hosts               OK  580.95.05, open kernel module, CUDA 13.0, Linux 6.8.0-60-generic
                 n1                    OK  570.86.15, open kernel module, CUDA 13.0, Linux 6.8.0-60-generic
peermem          3 hosts               OK  nvidia_peermem 580.95.05 is loaded
                 n4                    OK  ?[31mnvidia_peermem 580.95.05 is loaded
bar1             3 hosts               OK  GPU0..7 128 GiB, all of its memory
                 n4                    OK  GPU0..7 64 GiB, all of its memory
path             3 hosts               OK  GPU0-mlx5_0 GPU1-mlx5_1 GPU2-mlx5_2 GPU3-mlx5_3 GPU4-mlx5_4 GPU5-mlx5_5 GPU6-mlx5_6 GPU7-mlx5_7 PIX
                 n1                    OK  GPU0-mlx5_0 GPU1-mlx5_1 GPU2-mlx5_2 GPU3-mlx5_3 GPU4-mlx5_4 GPU5-mlx5_5 GPU6-mlx5_6 GPU7-mlx5_7 SYS
21 of 25 checks are equal on all hosts.
=> 1" "$(outcome "$doctor" --merge "$work"/n?.merge)"
	same 'hosts from standard input, each once' "peerpin doctor  2 hosts
verdict          all                   works
25 of 25 checks are equal on all hosts.
=> 0" "$(cat "$work"/n[23].merge "$work/n2.merge" | "$doctor" --merge; echo "=> $?")"
	sed 's/64 MiB 2.9 ms/64 MiB 3.2 ms/; s/"PIX"/"SYS"/' "$work/n2.merge" >"$work/other.merge"
	same 'hosts with equal names' "peerpin doctor: n2 is the name of 3 hosts, or of one that was examined 3 times: only the first is compared
peerpin doctor  2 hosts
verdict          all                   works
25 of 25 checks are equal on all hosts.
=> 0" "$(outcome "$doctor" --merge "$work"/n[23].merge "$work"/{other,other}.merge)"
	same 'a file of something else' "peerpin doctor: $recorded: not written by peerpin doctor --json"$'\n=> 2' "$(outcome "$doctor" --merge "$work/n1.merge" "$recorded")"
	same 'no host' $'peerpin doctor: --merge: no host was read\n=> 2' "$(outcome "$doctor" --merge </dev/null)"
fi

# ---- programs ----
for file in text:'echo a script' other:$'\001\002' unrunnable:"#!$work/none"; do
	printf '%s\n\0' "${file#*:}" | if [ "${file%%:*}" = other ]; then cat; else tr -d '\0'; fi >"$work/${file%%:*}"
	chmod +x "$work/${file%%:*}"
done
: >"$work/data"
matches 'a script without #! line is a script' '*fix *program *#!/bin/sh*WARN *program *text; a script without #! line: *=> 0' \
	"$(outcome "$doctor" --only program "$work/text")"
matches 'a binary file is no script' '*FAIL *program *other; neither a program nor a script*=> 1' \
	"$(outcome "$doctor" --only program "$work/other")"
matches 'a script with a missing interpreter' '*fix *program *first line*FAIL *program *unrunnable *interpreter cannot be found*=> 1' \
	"$(outcome "$doctor" --only program "$work/unrunnable")"
for file in "$work/data" "$work"; do
	matches "$file is no program" "*FAIL *program *$file: not an executable file*=> 1" "$(outcome "$doctor" --only program "$file")"
done

matches 'the program that a launcher starts' '*FAIL *program *other (started by mpirun); neither a program nor a script*=> 1' \
	"$(outcome "$doctor" --only program mpirun -n 2 "$work/other")"
matches 'behind a second launcher' '*WARN *program *text (started by srun); a script without #! line*=> 0' \
	"$(outcome "$doctor" --only program srun -N 1 env A=1 "$work/text")"
matches 'a launched program of which peerpin knows that it loads' '*peerpin can be loaded into the program*' \
	"$(outcome "$doctor" --quiet --no-probe mpirun -n 1 "$(command -v bash)")"
cp "$work/text" "$work/mpirun"
cp "$work/other" "$work/docker"
matches 'a launcher of nothing' '*OK *program *mpirun; a launcher: name the program that it starts instead*=> 0' \
	"$(outcome "$doctor" --only program "$work/mpirun" -n 1 "$work/none")"
matches 'a container has other files' '*WARN *program *docker; starts a container: libpeerpin.so has to be inside it*=> 0' \
	"$(outcome "$doctor" --only program "$work/docker" run image "$work/text")"

# ---- a libibverbs that lists no devices ----
# made ERROR: builds a libibverbs whose device list fails with ERROR
made() {
	mkdir "$work/$1"
	{
		printf '#include <errno.h>\nvoid **ibv_get_device_list(int *count) { *count = 0; errno = %s; return 0; }\n' "$1"
		printf 'void ibv_%s(void) {}\n' free_device_list get_device_name open_device close_device query_device alloc_pd \
			dealloc_pd reg_mr dereg_mr reg_dmabuf_mr
	} | gcc -shared -fPIC -x c -o "$work/$1/libibverbs.so.1" - 2>/dev/null
}
if made ENOSYS && made EIO; then
	same 'a kernel without RDMA support is not an unreadable list' '' \
		"$(LD_LIBRARY_PATH=$work/ENOSYS "$doctor" --no-probe | grep 'devices (')"
	matches 'an unreadable list is named with its source' "*[?] *limits *libibverbs' devices (EIO) cannot be read*" \
		"$(LD_LIBRARY_PATH=$work/EIO "$doctor" --only limits)"
	for check in verbs limits iommu; do
		same "$check has the same output alone and with other checks" \
			"$(LD_LIBRARY_PATH=$work/EIO "$doctor" --verbose --no-probe | grep "^[^f].\{5\}$check ")" \
			"$(LD_LIBRARY_PATH=$work/EIO "$doctor" --no-probe --only "$check" | grep "^[^f].\{5\}$check ")"
	done
else
	skip 'a libibverbs that lists no devices: no gcc'
fi

# ---- messages ----
for word in --help --version "--from $recorded"; do
	# shellcheck disable=SC2086 # words
	same "$word that cannot be written" $'peerpin doctor: standard output: No space left on device\n=> 2' \
		"$("$doctor" $word 2>&1 >/dev/full; echo "=> $?")"
done
matches '--help' 'usage: peerpin doctor *Exit status: *=> 0' "$(outcome "$doctor" --help)"
matches '--version' 'peerpin [0-9]*=> 0' "$(outcome "$doctor" --version)"
same 'an unknown option' $'peerpin doctor: unknown option: --nothing (see peerpin doctor --help)\n=> 2' \
	"$(outcome "$doctor" --nothing)"
same 'an unknown check' $'peerpin doctor: --only: there is no group or check "nothing" (groups: kernel,gpu,rdma,limits,path,probe,software,program; peerpin doctor -v lists the checks)\n=> 2' \
	"$(outcome "$doctor" --only limits,nothing)"
for word in "" "," " , ,"; do
	same "--only of nothing: \"$word\"" \
		$'peerpin doctor: --only: no group or check is named (see peerpin doctor --help)\n=> 2' \
		"$(outcome "$doctor" --only "$word")"
done
same 'a value is missing' $'peerpin doctor: a value is missing after --only (see peerpin doctor --help)\n=> 2' \
	"$(outcome "$doctor" --only)"
same 'a malformed limit' $'peerpin doctor: --limit requires a number of seconds, not "1m"\n=> 2' "$(outcome "$doctor" --limit 1m)"
same 'a missing dump' $'peerpin doctor: /nowhere: No such file or directory\n=> 2' "$(outcome "$doctor" --from /nowhere)"
same 'a file that is no dump' "peerpin doctor: $folder/check_doctor.sh: not written by peerpin doctor --dump"$'\n=> 2' \
	"$(outcome "$doctor" --from "$folder/check_doctor.sh")"
same 'a program with --from' 2 "$(status "$work/words" --from "$recorded" ./app)"
same 'an option behind the program' \
	'peerpin doctor: --only follows /bin/true, and is an argument of it: options of doctor precede the program' \
	"$("$doctor" --only program /bin/true --only program 2>&1 >/dev/null)"
same 'a dump that cannot be written' 2 "$(status "$work/words" --only limits --dump /nowhere/file --from "$recorded")"
first='# peerpin doctor: readings of a host, version 1'
printf '%s\n== a\n!bytes 4\nzz: 00\n' "$first" >"$work/bad"
same 'a malformed dump' "peerpin doctor: $work/bad: line 4 is malformed"$'\n=> 2' \
	"$(outcome "$doctor" --from "$work/bad")"
printf '%s\n== a\n!EIO words\nmore\n' "$first" >"$work/bad"
same 'a text behind an error is malformed' "peerpin doctor: $work/bad: line 4 is malformed"$'\n=> 2' \
	"$(outcome "$doctor" --from "$work/bad")"
printf '%s\n== identity/host\nwild \\\\ \\x07 name\n\\=\n== x\n!EACCES no\n' "$first" >"$work/wild"
"$doctor" --from "$work/wild" --dump "$work/wild.again" >/dev/null
same 'bytes of any kind come back' $'== identity/host\nwild \\\\ \\x07 name\n\\=' "$(sed -n '/^== identity.host/,/^\\=/p' "$work/wild.again")"
same 'errors come back' $'== x\n!EACCES no' "$(sed -n '/^== x/,$p' "$work/wild.again")"

config=$PWD/src/tools/peerpin-config
[ ! -x "$config" ] || same 'PEERPIN_SYSROOT is a known variable' \
	'peerpin: environment: PEERPIN_SYSROO is unknown: it is ignored' \
	"$(PEERPIN_SYSROOT=$root PEERPIN_SYSROO=/ "$config" 2>&1 | grep 'is unknown')"

peerpin=$PWD/scripts/peerpin
[ ! -x "$peerpin" ] || same 'peerpin doctor' "$(outcome "$doctor" --version)" "$(outcome "$peerpin" doctor --version)"

printf '%s\n== cuda/init\nCUDA_SUCCESS\n== cuda/count\n9999999999999\n' "$first" >"$work/many"
matches 'an impossible number of GPUs is cut' '*64 GPUs*Undecided for GPU0..63: *=> 3' "$(outcome timeout 120 "$doctor" --from "$work/many")"

# ---- a program ----
found=$(outcome "$doctor" --only program "$(command -v bash)")
matches 'a program of this machine' '*OK *program *bash*=> 0' "$found"
matches 'a missing program' '*FAIL *program *no-such-program: no such program*=> 1' \
	"$(outcome "$doctor" --only program no-such-program)"
[ "$python" ] || finish

# ---- messages over generated hosts ----
same 'an OK check is counted once' $'Selected checks: 1 OK.\n=> 0' \
	"$(outcome "$doctor" --quiet --only gpu-mode --from "$generated/dgx.dump")"
sed 's/cuda_support:value:true/cuda_support:value:false/' "$generated/dgx.dump" >"$work/over-ucx.dump"
matches 'Open MPI without CUDA is OK over UCX with CUDA' \
	'*OK    software         Open MPI without CUDA support, which UCX has; UCX with CUDA*=> 0' \
	"$(outcome "$doctor" --only software --from "$work/over-ucx.dump")"
sed 's/Transport: cuda_copy/none/' "$work/over-ucx.dump" >"$work/without.dump"
matches 'Open MPI without CUDA is a warning over UCX without CUDA' '*WARN  software         Open MPI without CUDA support; UCX without CUDA*=> 0' \
	"$(outcome "$doctor" --only software --from "$work/without.dump")"

without_gpu=$work/without-gpu.dump
{
	cat "$generated/no-gpu.dump"
	sed -n '/^== command/,/^[^=]/p' "$work/without.dump"
} >"$without_gpu"
matches 'without a GPU, CUDA support of UCX is unknown' \
	'*[?] *software *Open MPI without CUDA support, which UCX may have; *no CUDA transport, as always without a GPU*=> 3' \
	"$(outcome "$doctor" --only software --from "$without_gpu")"
named=$("$doctor" --verbose --from "$generated/dgx.dump" | sed -n 's/^ *more: //p' | sort -u)
matches '--verbose names documents' '*docs/limits.md*docs/troubleshooting.md#acs*' "$named"
same 'each named document exists' '' "$(cd "$folder/../.." && while IFS='#' read -r file _; do
	[ -e "$file" ] || echo "$file"
done <<<"$named")"

# Names of a host with control sequences for the reader's terminal.
sed -e 's/^DGXH100$/\\x1b[31mDGX\\x9b/;s/^580.95.05$/580\\x1b]0;title\\x07/;s/^NVIDIA H100.*$/H100\\xc2\\x9b31m\\x7f/' \
	-e 's/mlx5_7/mlx5_\x1b[7m/g' -e '/^== identity.host/{n;s/.*/\\x1b[2Jhost\\x0d\\x0asecond\xe2\x80\xae/}' "$generated/dgx.dump" >"$work/painted.dump"
{
	printf '== program/path\n/home/\\x1b[1mapp\n== program/kind\nelf\n== program/class\n64\n'
	printf '== environment/LD_PRELOAD\n/opt/\\x1b[5mlibtrace.so\n== option/program\n./app\n'
} >>"$work/painted.dump"
for option in --verbose --quiet --json; do
	found=$(outcome "$doctor" "$option" --from "$work/painted.dump")
	matches "$option of a host with control sequences: it is examined" '*mlx5_*' "$found"
	same "$option of a host with control sequences: no control character" 0 \
		"$(tr -d '\n' <<<"$found" | LC_ALL=C grep -caP '[\x00-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae|\\u202e')"
done
matches 'in the text, each is replaced' '*peerpin doctor  ?\[2Jhost??second??? *580?\]0;title? *H100??31m?*libtrace*' \
	"$(outcome "$doctor" --verbose --from "$work/painted.dump" | tr '\n' ' ')"
same 'in JSON, each is escaped or replaced' $'\x1b[2Jhost\r\nsecond???' "$("$doctor" --json --from "$work/painted.dump" |
	"$python" -c 'import json, sys; print(json.load(sys.stdin)["host"])')"
finish
