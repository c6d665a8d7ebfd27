#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_run.sh -- what tests/gpu/run makes of programs that pretend, where there is neither GPU nor CUPTI
set -u
here=${srcdir:-.}/tests
# shellcheck source=tests/launcher/checks
. "$here/launcher/checks"
[[ -e src/.libs/libpeerpin.so && -e src/sim/.libs/libcuda.so.1 && ! -e /dev/nvidiactl ]] || exit 77
command -v python3 >/dev/null || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A toolkit without anything in it, and a compiler that makes an empty watcher.
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

# row [VARIABLE=VALUE...]: what the one sample comes to, which is the script on standard input
row() {
	cat >"$folder/samples/vectorAdd"
	chmod +x "$folder/samples/vectorAdd"
	env PATH="$folder/bin:$PATH" GPU_DEVICE_FILE=/dev/null GPU_BUILD="$PWD" CUDA_HOME="$folder/cuda" \
		LD_LIBRARY_PATH="$PWD/src/sim/.libs" CUDA_SAMPLES="$folder/samples" "$@" "$here/gpu/run" samples 2>&1
	echo "=> $?"
}

# Writes to ORACLE_LOG what the watcher would.
idle="#!/usr/bin/env python3
import ctypes, os
ctypes.CDLL('libcuda.so.1').cuInit(0)
if 'ORACLE_LOG' in os.environ:
    open(os.environ['ORACLE_LOG'], 'w').write('begin 0x0 0 oracle %d\n' % os.getpid())"
matches 'a sample that takes no memory' $'*sample:vectorAdd yes *no memory*1 passed, 0 failed*=> 0' "$(row <<<"$idle")"
matches 'a program that nobody watches, or that is none of CUDA' \
	$'*vectorAdd no *CUPTI has told nothing\n0 passed, 1 failed*=> 1' "$(row <<<$'#!/bin/sh\necho')"
matches 'memory of which peerpin has heard nothing' $'*vectorAdd no *there are no statistics\n0 passed, 1 failed*=> 1' \
	"$(row <<<"${idle/begin 0x0 0 oracle %d/begin 0x0 0 oracle %d\\nbirth 0x1000 1 cuMemAlloc 1}")"
# Slower wherever peerpin is preloaded, but not by noise.
matches 'the same time' $'*vectorAdd yes *=> 0' "$(row <<<"$idle
import time; time.sleep(0.2)")"
matches 'much slower' $'*vectorAdd no *slower than every run without it, by a quarter and more\n0 passed, 1 failed*=> 1' \
	"$(row <<<"$idle
import time; time.sleep(0.7 if 'LD_PRELOAD' in os.environ else 0.2)")"
finish
