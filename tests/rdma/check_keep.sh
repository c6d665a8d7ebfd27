#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_keep.sh -- check_keep.c under the preload, with the simulated driver and the present adapter
program=tests/rdma/check_keep
[ -x tests/rdma/.libs/check_keep ] && program=tests/rdma/.libs/check_keep
# The memory fits into the virtual machine's.
export PEERPIN_SUMMARY=0 PEERPIN_KEEP=8M PEERPIN_SIM_MEMORY=64M
LD_LIBRARY_PATH=$PWD/src/sim/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
	LD_PRELOAD=$PWD/src/.libs/libpeerpin.so${LD_PRELOAD:+:$LD_PRELOAD} exec "$program"
