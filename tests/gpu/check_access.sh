#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_access.sh -- access.c and frees.c without and with the preload, on the real driver where there is a GPU
[ -x tests/gpu/access ] || [ -x tests/gpu/.libs/access ] || exit 77
libraries=$PWD/src/sim/adapter/.libs
if ! [ -e /dev/nvidiactl ]; then
	libraries=$libraries:$PWD/src/sim/.libs
	export PEERPIN_SIM_ADAPTER_REAL_DRIVER=1
fi
export PEERPIN_SUMMARY=0 LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
status=0
for name in access frees; do
	# As hardware, also on the simulated driver: a registration may outlive its memory.
	[ "$name" = access ] || export PEERPIN_SIM_ADAPTER_OUTLIVE=1 PEERPIN_SIM_ADAPTER_STRICT=0 PEERPIN_SIM_HOOKS=0
	for program in "tests/gpu/.libs/$name" "tests/gpu/$name"; do
		[ -x "$program" ] || continue
		"$program" || status=1
		LD_PRELOAD=$PWD/src/.libs/libpeerpin.so "$program" || status=1
		break
	done
done
exit "$status"
