#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_keep.sh -- tests/gpu/keep on the simulated driver, and its judgement of third-party programs' results
set -u
here=${srcdir:-.}/tests
# shellcheck source=tests/launcher/checks
. "$here/launcher/checks"
[[ -x tests/gpu/keep_reuse && -x tests/gpu/keep_memory && ! -e /dev/nvidiactl ]] || exit 77
command -v python3 >/dev/null || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/cuda"

# keep [NAME=VALUE]... PART...
keep() {
	local settings=()

	while [[ $1 == *=* ]]; do
		settings+=("$1")
		shift
	done
	rm -rf "$folder/out"
	env PATH="$folder/bin:$PATH" GPU_BUILD="$PWD" CUDA_HOME="$folder/cuda" KEEP_OUT="$folder/out" KEEP_SECONDS=600 \
		PEERPIN_SIM_MEMORY=4G LD_LIBRARY_PATH="$PWD/src/sim/.libs" ${settings[@]+"${settings[@]}"} "$here/gpu/keep" "$@" 2>&1
	echo "=> $?"
}

# ---- on the simulated driver ----

found=$(keep reuse)
matches 'frees wait' $'*\nok a free that keeps memory waits for work on it\n*5 passed, 0 failed, 0 skipped\n=> 0' "$found"
matches 'memory is complete' $'*\n8 passed, 0 failed, 0 skipped\n=> 0' "$(keep memory)"
matches 'calls that need memory for themselves' $'*\n4 passed, 0 failed, 0 skipped\n=> 0' "$(keep PEERPIN_SIM_MEMORY=512M refused)"
matches 'each call that allocates has been tried' $'cuMemAlloc, half of the memory\t0' "$(grep '^cuMemAlloc,' "$folder/out/refused.kept")"
matches 'times on the simulated driver: every case only has to run' \
	'*cuMemAlloc + cuMemFree, 1 GiB *driver ns*cuMemHostAlloc + cuMemFreeHost, 64 MiB *' \
	"$(keep latency | sed '/^# cuMemAlloc + cuMemFree, 1 GiB/s/$/ driver ns/')"
if [[ -x tests/contract/check_driver ]]; then
	matches 'the contract' $'*\n5 passed, 0 failed, 0 skipped\n=> 0' "$(keep contract)"
else
	skip 'the contract tests are not built'
fi
matches 'a part that is none' $'tests/gpu/keep: no part nothing (see --help)\n=> 2' "$(keep nothing)"

# ---- latencies ----

# latencies IDLE DRIVER KEPT [CASE]: ns, two processes of each side
latencies() {
	local side ns

	for side in driver kept; do
		[[ $side == driver ]] && ns=$2 || ns=$3
		for ((i = 0; i < 2; i++)); do
			printf '%s\tidle cuCtxSynchronize\t%s\n%s\t%s\t%s\n' "$side" "$1" "$side" "${4:-an allocation}" "$ns"
		done
	done >"$folder/measured"
	outcome "$here/gpu/keep_latencies" --from "$folder/measured"
}

matches 'quick enough' $'*an allocation *met: 2400 ns\n1 goals met, 0 missed\n=> 0' "$(latencies 400 60000 2400)"
matches 'too slow' $'*an allocation *MISSED: 2400 ns\n0 goals met, 1 missed\n=> 1' "$(latencies 400 60000 2401)"
latencies 400 60000 2401 >/dev/null
sed -i '/^kept\tan/d' "$folder/measured"
matches 'a case without one side' $'*not every case has both sides\n=> 1' "$(outcome "$here/gpu/keep_latencies" --from "$folder/measured")"

# ---- mock programs ----

# mock NAME: the script on standard input
mock() {
	{ echo '#!/usr/bin/env bash' && cat; } >"$folder/bin/$1"
	chmod +x "$folder/bin/$1"
}

# sanitizer PLAIN AFTER DRIVER [LINES]: errors that it reports of the programs; peerpin's lines
sanitizer() {
	mock compute-sanitizer <<TEXT
errors=$3
if [[ -n \${LD_PRELOAD-} ]]; then
	errors=$1
	for ((i = 0; i < ${4:-1}; i++)); do echo "PEERPIN_KEEP has no effect under compute-sanitizer" >&2; done
	[[ -z \${PEERPIN_STATS_FILE-} ]] || printf '  "kept": %s,\n  "allocations": 3,\n' "${5:-0}" >"\${PEERPIN_STATS_FILE/\%p/1}"
	if [[ \$* == *--after-free ]]; then
		errors=$2
		((errors == 0)) || echo "========= Invalid __global__ write of size 4 bytes"
	fi
fi
echo "========= ERROR SUMMARY: \$errors errors"
TEXT
	keep sanitizer
}

matches 'a checker that sees all' $'*\n5 passed, 0 failed, 0 skipped\n=> 0' "$(sanitizer 0 9 0)"
matches 'an error with peerpin' $'*not ok compute-sanitizer finds no error\n*4 passed, 1 failed, *=> 1' "$(sanitizer 1 9 0)"
matches 'a use of freed memory that is not seen' $'*not ok compute-sanitizer finds the use of freed memory\n*=> 1' "$(sanitizer 0 0 0)"
matches 'no report' $'*not ok one line reports that nothing is kept\n*=> 1' "$(sanitizer 0 9 0 0)"

# training SECONDS RESULT REUSED: of the side with PEERPIN_KEEP; without: 10 s, "a", and 100 allocations
training() {
	mock python <<TEXT
[[ \$1 != -c ]] || exit 0
if [[ -z \${PEERPIN_KEEP-} ]]; then
	echo a && echo 'seconds 10' >&2
else
	echo $2 && echo "seconds $1" >&2
	printf '  "reused": %s,\n  "allocations": 100,\n' $3 >"\$PEERPIN_STATS_FILE"
fi
TEXT
	keep GPU_PYTHON="$folder/bin/python" training
}

matches 'equal results' $'*\n4 passed, 0 failed, 0 skipped\n=> 0' "$(training 10.4 a 90)"
matches 'other results' $'*not ok training: the same results with PEERPIN_KEEP\n*=> 1' "$(training 5 b 90)"
matches 'slower' $'*not ok training: not slower than without peerpin\n*=> 1' "$(training 10.6 a 90)"
mock python <<<'exit 1'
matches 'no module' $'skipped: training: no torch\n*skipped: cupy: no cupy\n*=> 0' "$(keep GPU_PYTHON="$folder/bin/python" training cupy)"
finish
