#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_scale.sh -- scale.c: hits and times do not depend on the number of an allocation's parts
#
# Argument: the seed of the sizes; by default another one each time.
set -u
# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"
program=$(built tests/forms/scale)
[ -x "$program" ] || exit 77
seed=${1:-$(date +%s%N)}
echo "sizes of seed $seed"
export PEERPIN_SUMMARY=none PEERPIN_LOG_LEVEL=none LD_LIBRARY_PATH=$PWD/src/sim/adapter/.libs:$PWD/src/sim/.libs
export PEERPIN_SIM_MEMORY=64G PEERPIN_PIN_LIMIT=inf

# scale SETTING... -- ARGUMENT...
scale() {
	local environment=() text

	while [ "$1" != -- ]; do
		environment+=("$1")
		shift
	done
	shift
	if text=$(env LD_PRELOAD="$PWD/src/.libs/libpeerpin.so" "${environment[@]}" timeout 600 "$program" "$seed" "$@" 2>&1); then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED: ${environment[*]} scale $seed $*"
	fi
	[ -z "$text" ] || echo "$text"
}

for ahead in PEERPIN_PREREGISTER={auto,off}; do
	for held in held passing; do
		for parts in 32 100 1000 10000; do
			scale "$ahead" -- hits arena "$parts" "$held" 80
			scale "$ahead" -- hits spans "$parts" "$held" 80
		done
		for parts in 32 100 1000; do
			scale "$ahead" -- hits overlaps "$parts" "$held" 80
		done
	done
done
# Without the adapter's search of all registrations at a free, and the kernel's time for dma-bufs of parts.
settings=(PEERPIN_PREREGISTER=off PEERPIN_SIM_ADAPTER_REAL_DRIVER=1)
scale "${settings[@]}" PEERPIN_SIM_ADAPTER_DMABUF=0 -- times arena
scale "${settings[@]}" -- times spans
finish
