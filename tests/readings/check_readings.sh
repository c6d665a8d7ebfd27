#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_readings.sh -- doctor's live readers on the simulated driver and adapter, with and without
# defective parts
# shellcheck disable=SC2016 # $ORIGIN is the dynamic linker's
set -u
folder=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/launcher/checks
. "$folder/../launcher/checks"
here=$PWD/tests/readings
sources=$folder/../../src
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readings=$here/readings
[ -x "$readings" ] || exit 77
simulated=$PWD/src/sim/.libs
adapter=$PWD/src/sim/adapter/.libs
compiler=${CC:-cc}
unset CUDA_VISIBLE_DEVICES LD_PRELOAD

# [limit=SECONDS] ask FOLDERS ARGUMENT...: readings with these folders of libraries. Only a hang
# reaches the time limits.
ask() {
	LD_LIBRARY_PATH=$1 "$readings" option/limit=36000 option/seconds="${limit:-300}" "${@:2}" </dev/null
}

# Time limits in s of calls that hang, in turn: a stalled machine needs longer to reach the hang.
patience='5 20 80'

# value NAME: value of a reading in $out
value() {
	sed -n "s|^$1 ||p" <<<"$out"
}

# standin NAME FUNCTION DEFECT [INNER]: a library NAME with a defective FUNCTION, in front of
# library INNER
standin() {
	mkdir -p "$work/$3-$2"
	# shellcheck disable=SC2086 # the compiler's name may have options
	$compiler -shared -fPIC -D_GNU_SOURCE -DNAME="$2" -D"$3" -Wl,-soname,"$1" -Wl,--no-as-needed \
		-o "$work/$3-$2/$1" "$folder/standin.c" ${4:+"$4"}
	echo "$work/$3-$2"
}

# ---- limits ----
out=$(ulimit -S -n 200 && ask "$adapter" limits/nofile limits/nofile/hard)
same 'the soft limit and the hard one' "= 200 = $(ulimit -H -n)" "$(value limits/nofile) $(value limits/nofile/hard)"

# ---- a machine without problems ----
out=$(PEERPIN_SIM_DEVICES=2 PEERPIN_SIM_ADAPTER_DEVICES=2 ask "$adapter:$simulated" cuda/count verbs/devices probe/ended)
same 'the driver answers' '= CUDA_SUCCESS' "$(value cuda/init)"
same 'GPUs' '= 2' "$(value cuda/count)"
same 'where a GPU is' '= 0000:01:00.0' "$(value cuda/0/pci)"
same 'its attributes' '= 1 = 100 = 9.0' \
	"$(value cuda/1/attribute/124) $(value cuda/1/attribute/118) $(value cuda/1/compute)"
same 'which memory is capable' '= 1 = 1 = 0 = 0' "$(value cuda/1/capable/device) $(value cuda/1/capable/mapped) $(
	value cuda/1/capable/mapped_plain) $(value cuda/1/capable/pool)"
same 'which memory is exported' '= ok = ok = ok = ok' "$(value cuda/1/export/device) $(value cuda/1/export/mapped) $(
	value cuda/1/export/mapped_plain) $(value cuda/1/export/pool)"
same 'memory that is not exported' \
	'= cuMemGetHandleForAddressRange CUDA_ERROR_NOT_SUPPORTED' "$(value cuda/1/export/device_pcie)"
same 'adapters' '= sim0|sim1' "$(value verbs/devices)"
same 'an adapter that takes dma-bufs' '= EBADF' "$(value verbs/sim1/dmabuf)"
same 'which version has it' '= IBVERBS_1.12' "$(value verbs/symbol/ibv_reg_dmabuf_mr)"
matches 'an adapter registers ordinary memory' '= ok [1-9]*' "$(value verbs/sim1/host)"
matches 'its limits' '= max_mr [1-9]*|max_mr_size [1-9]*' "$(value verbs/sim1/limits)"
for pair in 0/sim0 0/sim1 1/sim0 1/sim1; do
	for way in dma-buf peermem; do
		matches "$pair by $way: 2 MiB" '= ok [1-9]*' "$(value "probe/$pair/$way/2097152")"
		matches "$pair by $way: 64 MiB" '= ok [1-9]*' "$(value "probe/$pair/$way/67108864")"
		matches "$pair by $way: relaxed" '= ok [1-9]*' "$(value "probe/$pair/$way/relaxed")"
		same "$pair by $way: returned" '= ok' "$(value "probe/$pair/$way/returned")"
	done
	same "$pair ends" '= ok' "$(value "probe/$pair/ended")"
done

# ---- the management library ----
mkdir "$work/nvml"
# shellcheck disable=SC2086
$compiler -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o "$work/nvml/libnvidia-ml.so.1" "$folder/nvml.c"
out=$(PEERPIN_SIM_DEVICES=2 ask "$work/nvml:$simulated" cuda/count)
same 'BAR1, persistence and rows, of the GPU that it knows' '= 268435456 6291456 = 1 = 1' \
	"$(value cuda/0/bar1) $(value cuda/0/persistence) $(value cuda/0/ecc_pending)"
same 'that it is a virtual one' '= 2' "$(value cuda/0/virtualization)"
same 'what it does not know' '   = ok' \
	"$(value cuda/0/mig) $(value cuda/1/bar1) $(value cuda/1/persistence) $(value cuda/nvml/ended)"

# ---- missing parts ----
out=$(PEERPIN_SIM_ADAPTER_DMABUF=0 ask "$adapter:$simulated" probe/ended)
same 'no dma-buf on the adapter' '= EOPNOTSUPP = fail ibv_reg_dmabuf_mr EOPNOTSUPP' \
	"$(value verbs/sim0/dmabuf) $(value probe/0/sim0/dma-buf/2097152)"
matches 'peer memory stays' '= ok *' "$(value probe/0/sim0/peermem/2097152)"
out=$(PEERPIN_SIM_DMABUF=0 ask "$adapter:$simulated" probe/ended)
same 'no dma-buf on the GPU' '= 0 = fail cuMemGetHandleForAddressRange CUDA_ERROR_NOT_SUPPORTED' \
	"$(value cuda/0/attribute/124) $(value probe/0/sim0/dma-buf/67108864)"
out=$(PEERPIN_SIM_ADAPTER_PEER=0 ask "$adapter:$simulated" probe/ended)
same 'no peer memory' '= fail ibv_reg_mr EFAULT' "$(value probe/0/sim0/peermem/2097152)"
matches 'dma-buf stays' '= ok *' "$(value probe/0/sim0/dma-buf/2097152)"
out=$(PEERPIN_SIM_ADAPTER_MEMORY=8M ask "$adapter:$simulated" probe/ended)
matches 'no room for 64 MiB: 2 MiB' '= ok *' "$(value probe/0/sim0/dma-buf/2097152)"
same 'no room for 64 MiB' '= fail ibv_reg_dmabuf_mr ENOMEM' "$(value probe/0/sim0/dma-buf/67108864)"
same 'a failed registration keeps no memory' '= ok' "$(value probe/0/sim0/dma-buf/returned)"
out=$(ask "$adapter:$simulated" option/probe=off probe/ended)
same 'option/probe=off registers nothing' '!ENOENT ' "$(value probe/ended)"
same 'and queries no driver' '' "$(value cuda/count)"
if ! LD_LIBRARY_PATH='' ldconfig -p 2>/dev/null | grep -q libcuda.so.1; then
	out=$(ask "$adapter" cuda/count probe/ended)
	matches 'no driver at all' '!ENOENT libcuda.so.1: *' "$(value cuda/library)"
	same 'no driver at all: the child ends' '= ok' "$(value cuda/ended)"
	same 'no GPU, no probe' '!ENOENT ' "$(value probe/ended)"
else
	skip 'no driver at all: this machine has one'
fi

# ---- defective drivers ----
for wrong in HANGS:timeout CRASHES:'signal 11' ABORTS:'signal 6' EXITS:'exit 7' LEAVES:'exit 7'; do
	[[ $wrong == HANGS:* ]] && limits=$patience || limits=300
	bad=$(standin libcuda.so.1 cuInit "${wrong%%:*}")
	for limit in $limits; do
		wanted="= ${wrong#*:} in cuInit"
		wanted=${wanted/timeout/timeout $limit}
		out=$(ask "$adapter:$bad" cuda/count verbs/devices)
		[ "$(value cuda/ended)" != "$wanted" ] || break
	done
	same "a driver that ${wrong%%:*}" "$wanted" "$(value cuda/ended)"
	same "a driver that ${wrong%%:*}: adapters" '= sim0' "$(value verbs/devices)"
done
out=$(ask "$adapter:$work/ABORTS-cuInit" cuda/count)
same 'its output' '= standin: this is the end' "$(value cuda/output)"

# The simulated driver under another name, behind the stand-in.
mkdir "$work/inner"
sed 's/libcuda\.so\.1/libinnr.so.1/g' "$simulated/libcuda.so.1" >"$work/inner/libinnr.so.1"
inner=$work/inner/libinnr.so.1
out=$(ask "$adapter:$(standin libcuda.so.1 cuMemFree_v2 KEEPS "$inner"):$work/inner:$simulated" cuda/count probe/ended)
matches 'a driver that keeps memory' '= lost [1-9]*' "$(value probe/0/sim0/dma-buf/returned)"
out=$(ask "$adapter:$(standin libcuda.so.1 cuMemAlloc_v2 CRASHES "$inner"):$work/inner:$simulated" cuda/count)
same 'a GPU that crashes: the driver' '= ok' "$(value cuda/ended)"
same 'a GPU that crashes' '= signal 11 in cuMemAlloc' "$(value cuda/0/ended)"
same 'a GPU that crashes: its name' '= peerpin simulated GPU' "$(value cuda/0/name)"

# ---- defective adapters ----
for limit in $patience; do
	out=$(PEERPIN_SIM_ADAPTER_HOLD=1 ask "$adapter:$simulated" probe/ended)
	wanted="= fail timeout $limit in ibv_reg_dmabuf_mr = fail timeout $limit in ibv_reg_mr"
	reported="$(value probe/0/sim0/dma-buf/2097152) $(value probe/0/sim0/peermem/67108864)"
	before=$(value verbs/sim0/dmabuf)
	[ "$reported $before" != "$wanted = EBADF" ] || break
done
same 'a registration that hangs' "$wanted" "$reported"
same 'earlier readings stay' '= EBADF' "$before"
same 'probe/ended names it' "= timeout $limit in ibv_reg_dmabuf_mr" "$(value probe/ended)"
limit=
out=$(ask "$(standin libibverbs.so.1 ibv_get_device_list EXITS):$simulated" verbs/devices)
same 'a libibverbs without functions' '!ENOENT it lacks functions that every libibverbs has' "$(value verbs/library)"
# Processes of this test: readings, with libraries of $work.
left() {
	for process in /proc/[0-9]*; do
		if [ "$(readlink "$process/exe")" = "$(readlink -f "$readings")" ] &&
			tr '\0' '\n' <"$process/environ" | grep -q "^LD_LIBRARY_PATH=.*$work"; then
			echo "${process#/proc/}"
		fi
	done 2>/dev/null
}
# The kernel removes killed processes later.
for _ in {1..600}; do
	[ -n "$(left)" ] || break
	sleep 0.1
done
same 'neither children nor their children are left' '' "$(left)"

# ---- data, by the simulated adapter, and by a real one, if there is one: the simulated driver's memory is the host's ----
out=$(ask "$adapter:$simulated" option/deep=on option/limit=1200 probe/ended)
same 'a transfer to memory and back by the simulated adapter' '= ok' "$(value probe/0/sim0/peermem/transfer)"
out=$(PEERPIN_SIM_ADAPTER_PEER=0 ask "$adapter:$simulated" option/deep=on option/limit=1200 probe/ended)
same 'no data without a registration' '' "$(value probe/0/sim0/peermem/transfer)"
if ls /sys/class/infiniband/* >/dev/null 2>&1; then
	out=$(ask "$simulated" option/deep=on option/limit=1200 probe/ended)
	real=$(value verbs/devices | sed 's/^= //;s/|.*//')
	same 'a transfer to memory and back' '= ok' "$(value "probe/0/$real/peermem/transfer")"
	matches 'its port' '= ACTIVE *' "$(value "verbs/$real/port/1")"
	matches 'it registers memory' '= ok *' "$(value "probe/0/$real/peermem/67108864")"
else
	skip 'data: this machine has no adapter'
fi

# ---- the program ----
# program FILE [OPTION...]
program() {
	ask "${folders:-}" option/program="$1" "${@:2}" program/path
}

# shellcheck disable=SC2086
build() {
	$compiler "$@"
}
echo 'int main(void) { return 0; }' >"$work/main.c"
build -o "$work/dynamic" "$work/main.c" -Wl,--no-as-needed -lm
out=$(program "$work/dynamic")
same 'a program' "= elf = 64 = $(uname -m) = none" \
	"$(value program/kind) $(value program/class) $(value program/machine) $(value program/privilege)"
matches 'its loader' '= /*ld-linux*' "$(value program/loader)"
matches 'its libraries' '*libm.so.6*libc.so.6*' "$(value program/needed)"
same 'none is missing' '= ' "$(value program/missing)"
matches 'its glibc' '= 2.*' "$(value program/glibc)"
same 'it has no CUDA runtime' '' "$(value program/static_cuda)"
if build -static -o "$work/static" "$work/main.c" 2>/dev/null; then
	out=$(program "$work/static")
	same 'a static program' '= elf  = ' "$(value program/kind) $(value program/loader) $(value program/needed)"
else
	skip 'a static program: no static libc here'
fi
if build -m32 -o "$work/old" "$work/main.c" 2>/dev/null; then
	same 'a program of 32 bits' '= 32' "$(out=$(program "$work/old") && value program/class)"
else
	# One byte holds the class.
	{ head -c 4 "$work/dynamic"; printf '\1'; tail -c +6 "$work/dynamic"; } >"$work/old"
	chmod +x "$work/old"
	same 'a program with class 32' '= 32' "$(out=$(program "$work/old") && value program/class)"
fi
cp "$work/dynamic" "$work/setuid" && chmod u+s "$work/setuid"
out=$(program "$work/setuid")
if findmnt -no OPTIONS -T "$work" 2>/dev/null | grep -q nosuid; then
	same 'a setuid program where that is ignored' '= none' "$(value program/privilege)"
else
	same 'a setuid program' '= setuid' "$(value program/privilege)"
fi
mkdir "$work/lib" "$work/lib/sub"
echo 'int inner(void) { return 1; }' | build -shared -fPIC -x c - -o "$work/lib/sub/libinner.so" -Wl,-soname,libinner.so
echo 'int inner(void); int outer(void) { return inner(); }' | build -shared -fPIC -x c - -x none -o "$work/lib/libouter.so" \
	-Wl,-soname,libouter.so -L"$work/lib/sub" -linner -Wl,--enable-new-dtags,-rpath,'$ORIGIN/sub'
echo 'int outer(void); int main(void) { return outer(); }' | build -x c - -x none -o "$work/nested" -L"$work/lib" -louter \
	-Wl,--enable-new-dtags,-rpath,'${ORIGIN}/lib' -Wl,-rpath-link,"$work/lib/sub"
out=$(program "$work/nested")
matches 'libraries of libraries' '*libouter.so*libinner.so*' "$(value program/needed)"
same 'all of them are found, by $ORIGIN' '= ' "$(value program/missing)"
rm "$work/lib/sub/libinner.so"
out=$(program "$work/nested")
same 'one that is missing' '= libinner.so' "$(value program/missing)"
same 'LD_LIBRARY_PATH is searched, too' '= ' "$(mkdir "$work/other" && echo 'int inner;' |
	build -shared -fPIC -x c - -o "$work/other/libinner.so" && out=$(folders=$work/other program "$work/nested") &&
	value program/missing)"
for soname in libinner.so libother.so; do
	[ $soname = libinner.so ] && wanted= || wanted=libinner.so
	echo 'int inner;' | build -shared -fPIC -x c - -o "$work/preloaded.so" -Wl,-soname,$soname
	same "a preloaded library of DT_SONAME $soname" "= $wanted" \
		"$(out=$(LD_PRELOAD=$work/preloaded.so program "$work/nested") && value program/missing)"
done
echo 'const char *name = "cuGetProcAddress_v2"; int main(void) { return !name; }' | build -x c - -o "$work/runtime"
out=$(program "$work/runtime")
same 'the runtime linked in' '= 1' "$(value program/static_cuda)"
printf '#!/usr/bin/env -S FOO=1 sh -e\n' >"$work/script" && chmod +x "$work/script"
out=$(program "$work/script")
same 'a script' '= script = /usr/bin/env -S FOO=1 sh -e = 64' \
	"$(value program/kind) $(value program/interpreter_line) $(value program/class)"
printf '#!%s/circle\n' "$work" >"$work/circle" && chmod +x "$work/circle"
out=$(program "$work/circle")
matches 'a script that names itself' '*cannot be found*' "$(value program/error)"
out=$(program "$work/nothing")
matches 'no program' '!ENOENT *' "$(value program/path)"
out=$(program "$work/main.c")
matches 'no program, but a file' '!EACCES *' "$(value program/path)"
mkfifo "$work/pipe" && chmod +x "$work/pipe"
out=$(program "$work/pipe")
matches 'a FIFO does not block' '!EACCES *' "$(value program/path)"
cp "$work/dynamic" "$work/apptainer"
out=$(program "$work/apptainer")
same 'a launcher of containers' '= container' "$(value program/launcher)"

# ---- hostile files ----
seed=${PEERPIN_TEST_SEED:-$RANDOM}
matches "hostile files, seed $seed" '* read, * refused => 0' "$("$here/hostile" "$work/nested" "$seed" 20000 2>&1) => $?"
if build -g -fsanitize=address,undefined -fno-sanitize-recover=all -D_GNU_SOURCE -I"$sources" -o "$work/hostile" \
	"$folder/hostile.c" "$sources/tools/elf_file.c" "$sources/tools/doctor/libraries.c" 2>/dev/null; then
	matches "hostile files under sanitizers, seed $seed" '* read, * refused => 0' \
		"$("$work/hostile" "$work/nested" "$seed" 20000 2>&1) => $?"
else
	skip 'hostile files under sanitizers: the compiler has none'
fi
finish
