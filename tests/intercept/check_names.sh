#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_names.sh -- names.c on the simulated driver, and on a toolkit's driver stub, if any, which
# has every name of the real driver
[ -x tests/intercept/names ] || exit 77
library=$PWD/src/.libs/libpeerpin.so
export PEERPIN_SUMMARY=0 PEERPIN_LOG_LEVEL=error
status=0
LD_LIBRARY_PATH=$PWD/src/sim/.libs LD_PRELOAD=$library tests/intercept/names || status=1
stub=${CUDA_STUB:-/usr/local/cuda/lib64/stubs/libcuda.so}
if [ -r "$stub" ]; then
    folder=$(mktemp -d)
    cp "$stub" "$folder/libcuda.so.1"
    LD_LIBRARY_PATH=$folder LD_PRELOAD=$library tests/intercept/names || status=1
    rm -r "$folder"
else
    echo '0 passed, 0 failed, 1 skipped'
    echo 'SKIPPED: names: no stub of the driver at '"$stub"
fi
exit "$status"
