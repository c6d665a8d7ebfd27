#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_rdma.sh -- check_rdma.c under the preload, with the simulated driver and the present adapter
program=tests/rdma/check_rdma
[ -x tests/rdma/.libs/check_rdma ] && program=tests/rdma/.libs/check_rdma
PEERPIN_SUMMARY=0 LD_LIBRARY_PATH=$PWD/src/sim/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
	LD_PRELOAD=$PWD/src/.libs/libpeerpin.so${LD_PRELOAD:+:$LD_PRELOAD} exec "$program"
