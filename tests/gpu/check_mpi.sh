#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_mpi.sh -- tests/gpu/mpi and its judgement, on results of jobs that a mock mpirun makes
# shellcheck disable=SC2016 # texts for the mock
set -u
here=${srcdir:-.}/tests
# shellcheck source=tests/launcher/checks
. "$here/launcher/checks"
# The GPUs of this machine would be counted.
command -v python3 >/dev/null && [[ ! -e /dev/nvidiactl ]] || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for file in src/.libs/libpeerpin.so src/sim/adapter/.libs/{libibverbs.so.1,libmlx5.so.1,libsim_files.so} tests/launcher/empty.so \
	tests/stacks/patterns tests/gpu/frees openmpi-cuda/bin/mpirun openmpi-cuda/lib/libucp.so.0 openmpi-cuda/ucx-1.9.0/lib/libucp.so.0 \
	openmpi-cuda/ucx-1.22.0/lib/libucp.so.0; do
	mkdir -p "$folder/build/$(dirname "$file")"
	: >"$folder/build/$file"
done

# Results as of ranks that did all well, but for what $MOCK does to the variables.
cat >"$folder/build/openmpi-cuda/bin/mpirun" <<'TEXT'
#!/usr/bin/env bash
while [[ $1 != env ]]; do
	[[ $1 != -n ]] || ranks=$2
	shift
done
shift
while [[ $1 == *=* ]]; do
	declare "$1"
	shift
done
IFS=, read -ra patterns <<<"$2"
while (($#)); do
	case $1 in
	--json) json=$2 ;;
	--bytes) IFS=, read -ra sizes <<<"$2" ;;
	esac
	shift
done
job=$(basename "$(dirname "$json")") side=${job##*.} part=$(basename "$(dirname "$(dirname "$json")")")
status=0 wrong=0 stale=0 keys=0 us=100 registrations=4 own=4 hits=3 reused=5 checked=1000 dmabuf=2 pages=2 preloaded=yes
[[ $side != without && $side != empty ]] || preloaded=
[[ $job != none.without ]] || { stale=7 wrong=9 status=1; }
[[ $part != crash ]] || status=137
eval "$MOCK"
for ((rank = 0; rank < ranks; rank++)); do
	echo "{\"program\": \"patterns\", \"registrations\": $registrations, \"by_dmabuf\": $dmabuf, \"page_requests\": $pages, \"stale_memory\": $stale, \"stale_keys\": $keys}" >>"$PEERPIN_SIM_ADAPTER_STATS"
	[[ ! $preloaded ]] || echo "{\"requests\": 4, \"registrations\": $own, \"hits\": $hits, \"kept\": 1, \"reused\": $reused}" >"${PEERPIN_STATS_FILE/\%p/$rank}"
	for pattern in "${patterns[@]}"; do
		for size in "${sizes[@]}"; do
			ns=$((us * 1000))
			echo "{\"pattern\": \"$pattern\", \"bytes\": $size, \"wrong\": $wrong, \"checked_bytes\": $checked, \"allocation_ns\": $ns, \"first_send_ns\": 0, \"send_ns\": [$ns, $ns]}" \
				>"$json.$pattern.$size.0.$rank"
		done
	done
done
exit "$status"
TEXT
cat >"$folder/build/tests/gpu/frees" <<'TEXT'
#!/bin/sh
echo "# READ, free: 10 rounds"
[ -z "$LD_PRELOAD" ] || exit "${FREES:-0}"
TEXT
chmod +x "$folder/build/openmpi-cuda/bin/mpirun" "$folder/build/tests/gpu/frees"

# mpi MOCK [NAME=VALUE]... [PART...]
mpi() {
	local settings=()

	export MOCK=$1
	shift
	while (($#)) && [[ $1 == *=* ]]; do
		settings+=("$1")
		shift
	done
	rm -rf "$folder/out"
	outcome env GPU_BUILD="$folder/build" MPI_OUT="$folder/out" MPI_MOST=1 MPI_WAYS=dmabuf-1.22.0 MPI_PATTERNS=halo,random MPI_DELAYS=500 MPI_SIZES=4096 MPI_ANY_CORES=1 "${settings[@]}" \
		"$here/gpu/mpi" "$@"
}

# ---- jobs ----

matches 'all is well' $'*\n24 passed, 0 failed, 0 skipped\n=> 0' "$(mpi '' MPI_MOST=2 MPI_WAYS= frees stale crash pair spread eight)"
matches 'the figures of a row' $'*\n# halo 4096 B, us and without / it: without 100.0; empty 100.0 1.00; peerpin 100.0 1.00; keep 100.0 1.00; sized 100.0 1.00; eager 100.0 1.00\n*' \
	"$(mpi '' pair)"
python3 -c 'import json; json.load(open("'"$folder"'/out/mpi.json"))' || same 'JSON' yes no
matches 'the JSON of a bench' '*"case": "halo 4096 B, memory of one GPU, UCX 1.22.0, dma-bufs, 500 us a registration, bound, peerpin", *"live": 1, "threads": 2, "ns": 100000,*"peer_ns": 100000, "ratio": 1.0,*' \
	"$(<"$folder/out/mpi.json")"
matches 'a table of Markdown' $'*\n## 2 ranks, 500 µs a registration\n\n| pattern, 4 KiB | UCX | empty preload | peerpin | *\n| halo | 1.22.0, dma-bufs | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |\n*' \
	$'\n'"$("$here/gpu/mpi_table" --table "$folder/out/mpi.json")"

matches 'UCX without its hooks' $'*\n# halo 4096 B, us and without / it: *\n1 passed, 0 failed, 0 skipped\n=> 0' \
	"$(mpi '[[ ! ${UCX_MEM_CUDA_HOOK_MODE-unset} ]] || status=3' MPI_WAYS=unhooked-1.13.1 pair)"
matches 'which its rows say' '*"case": "halo 4096 B, memory of one GPU, UCX 1.13.1, without hooks, 500 us a registration, *' "$(<"$folder/out/mpi.json")"

fails() { # fails NAME TEXT MOCK PART
	matches "$1" "*"$'\n'"not ok $2*=> 1" $'\n'"$(mpi "$3" "$4")"
}

fails 'a wrong byte' 'pair, UCX 1.22.0, dma-bufs, *: 4 of 4000 bytes wrong' '[[ $side != peerpin ]] || { wrong=1; }' pair
fails 'stale memory' 'pair, UCX 1.22.0, dma-bufs, *: stale_memory 2' '[[ $side != keep ]] || stale=1' pair
fails 'a job that fails' 'pair, UCX 1.22.0, dma-bufs, *: status 3: it broke' '[[ $side != empty ]] || { status=3; echo "it broke" >&2; }' pair
fails 'nothing is registered' 'pair, UCX 1.22.0, dma-bufs, *: registrations in 0 of 2 ranks' 'registrations=0' pair
fails 'peerpin registers nothing' 'pair, UCX 1.22.0, dma-bufs, *: peerpin registered no GPU memory' 'own=0' pair
fails 'no memory is reused' 'pair, UCX 1.22.0, dma-bufs, *: no memory was kept and reused' 'reused=0' pair
matches 'slower' '*; peerpin 110.0 0.91 SLOWER; keep 100.0 1.00; *' "$(mpi '[[ $side != peerpin ]] || us=110' pair)"
fails 'wrong bytes with peerpin' 'with peerpin no byte is wrong without hooks' '[[ $job != none.peerpin ]] || wrong=1' stale
fails 'a job that goes on without its rank' 'a rank dies, kill.keep: the others end: status 0' '[[ $job != kill.keep ]] || status=0' crash
matches 'a free under way that fails' $'*\nnot ok frees and deregistrations under way, peerpin\n*=> 1' "$(mpi '' FREES=3 frees)"
# The first repetition of the first row takes 2 s.
matches 'out of time' $'*# pair: 1 repetitions of 4 rows*not ok pair, UCX 1.9.0, dma-bufs, 500 us a registration: no repetition is complete*' \
	"$(mpi '[[ $job != 0.keep ]] || sleep 4' MPI_SECONDS=8 MPI_WAYS= pair)"

# ---- missing results ----

matches 'no Open MPI' $'tests/gpu/mpi: no folder /nowhere (KEEP_MPI)\n=> 2' "$(mpi '' KEEP_MPI=/nowhere pair)"
finish
