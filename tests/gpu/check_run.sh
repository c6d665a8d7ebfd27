#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_run.sh -- results of tests/gpu/run for mock programs, without GPU and CUPTI
set -u
here=${srcdir:-.}/tests
# shellcheck source=tests/launcher/checks
. "$here/launcher/checks"
[[ -e src/.libs/libpeerpin.so && -e src/sim/.libs/libcuda.so.1 && ! -e /dev/nvidiactl ]] || exit 77
command -v python3 >/dev/null || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# An empty toolkit, and a mock compiler that builds an empty oracle.
mkdir -p "$folder/cuda/lib64" "$folder/samples" "$folder/bin"
: >"$folder/cuda/lib64/libcupti.so"
cat >"$folder/bin/gcc" <<'TEXT'
#!/bin/sh
while [ $# -gt 0 ]; do
	[ "$1" != -o ] || : >"$2"
	shift
done
TEXT
chmod +x "$folder/bin/gcc"

# row [VARIABLE=VALUE...]: the result of the single sample, the script on standard input
row() {
	cat >"$folder/samples/vectorAdd"
	chmod +x "$folder/samples/vectorAdd"
	env PATH="$folder/bin:$PATH" GPU_DEVICE_FILE=/dev/null GPU_BUILD="$PWD" CUDA_HOME="$folder/cuda" \
		LD_LIBRARY_PATH="$PWD/src/sim/.libs" CUDA_SAMPLES="$folder/samples" "$@" "$here/gpu/run" samples 2>&1
	echo "=> $?"
}

# Write to ORACLE_LOG as the oracle would.
idle="#!/usr/bin/env python3
import ctypes, os
ctypes.CDLL('libcuda.so.1').cuInit(0)
if 'ORACLE_LOG' in os.environ:
    open(os.environ['ORACLE_LOG'], 'w').write('begin 0x0 0 oracle %d\n' % os.getpid())"
matches 'a sample that takes no memory' $'*sample:vectorAdd yes *no memory*1 passed, 0 failed*=> 0' "$(row <<<"$idle")"
matches 'a program that nobody watches, or that is none of CUDA' \
	$'*vectorAdd no *CUPTI has told nothing\n0 passed, 1 failed*=> 1' "$(row <<<$'#!/bin/sh\necho')"
matches 'memory that peerpin has not intercepted' $'*vectorAdd no *there are no statistics\n0 passed, 1 failed*=> 1' \
	"$(row <<<"${idle/begin 0x0 0 oracle %d/begin 0x0 0 oracle %d\\nallocation 0x1000 1 cuMemAlloc 1}")"

# ---- tensors over several mappings ----

# A mock PyTorch: a segment of pieces that are mapped as it grows, and what CUPTI reports of them.
mkdir "$folder/torch"
cat >"$folder/torch/torch.py" <<'TEXT'
import ctypes, os, struct, sys, types
MIB = 1 << 20
PIECE = int(os.environ.get("PIECE", 20)) * MIB
driver, number = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64
sys.modules["training"] = types.ModuleType("training")
uint8 = int64 = None

def call(name, *arguments):
    assert not getattr(driver, name)(*arguments), name

def report(*events):
    if "ORACLE_LOG" in os.environ:
        with open(os.environ["ORACLE_LOG"], "a") as file:
            file.write("".join(f"{event} {os.getpid()}\n" for event in events))

call("cuInit", 0)
context, base = ctypes.c_void_p(), number()
call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
call("cuMemAddressReserve", ctypes.byref(base), number(400 * MIB), number(0), number(0), number(0))
properties = ctypes.create_string_buffer(struct.pack("=IIIi9xB30x", 1, 0, 1, 0, 1))
access = ctypes.create_string_buffer(struct.pack("=IiI", 1, 0, 3))
report("begin 0x0 0 oracle", "call 0x0 0 cuMemAddressReserve")
mapped = used = 0

class full:
    def __init__(self, shape, value, dtype, device):
        global mapped, used
        self.at, self.size, self.value = base.value + used, shape[0], value
        used += self.size
        while mapped < used:
            handle, at = number(), number(base.value + mapped)
            call("cuMemCreate", ctypes.byref(handle), number(PIECE), properties, number(0))
            call("cuMemMap", at, number(PIECE), number(0), handle, number(0))
            call("cuMemRelease", handle)
            call("cuMemSetAccess", at, number(PIECE), access, number(1))
            report("call 0x0 0 cuMemCreate", f"allocation {at.value:#x} {PIECE} cuMemMap", "call 0x0 0 cuMemRelease", "call 0x0 0 cuMemSetAccess")
            mapped += PIECE
    def data_ptr(self):
        return self.at
    def numel(self):
        return self.size
    def sum(self, dtype):
        return self.size * self.value

class cuda:
    synchronize = staticmethod(lambda: None)
    def empty_cache():
        global mapped, used
        call("cuMemUnmap", base, number(mapped))
        report(f"range-free {base.value:#x} {mapped} cuMemUnmap")
        mapped = used = 0
TEXT

# expandable [VARIABLE=VALUE...]: the result of that row
expandable() {
	env "$@" PATH="$folder/bin:$PATH" PYTHONPATH="$folder/torch" GPU_DEVICE_FILE=/dev/null GPU_BUILD="$PWD" CUDA_HOME="$folder/cuda" \
		LD_LIBRARY_PATH="$PWD/src/sim/.libs" "$here/gpu/run" expandable 2>&1
	echo "=> $?"
}

matches 'tensors over several mappings are hits' $'*expandable *yes * 72 hits of 84 requests*\n1 passed, 0 failed*=> 0' "$(expandable)"

# ---- output ----

# beside TEXT: the row of a sample that prints the text under the preload, and "same" without
beside() {
	row <<TEXT
#!/bin/sh
[ -z "\$ORACLE_LOG" ] || echo "begin 0x0 0 oracle \$\$" >"\$ORACLE_LOG"
$1
echo same
TEXT
}

matches 'the same output' $'*vectorAdd yes *1 passed, *=> 0' "$(beside :)"
matches 'other output with peerpin' $'*vectorAdd no *other output with peerpin: > more\n*=> 1' "$(beside '[ -z "$LD_PRELOAD" ] || echo more')"
matches 'another status' $'*vectorAdd no *it fails with peerpin*=> 1' "$(beside '[ -z "$LD_PRELOAD" ] || exit 3')"
matches 'an error of peerpin' $'*vectorAdd no *peerpin: an error*=> 1' "$(beside '[ -z "$LD_PRELOAD" ] || echo "peerpin: an error" >&2')"
finish
