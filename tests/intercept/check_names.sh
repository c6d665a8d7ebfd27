#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_names.sh -- names.c on the simulated driver, and on a toolkit's driver stub, if any, which
# has every name of the real driver
[ -x tests/intercept/names ] || exit 77
# shellcheck source=tests/intercept/traps/traps_list.sh
. "${srcdir:-.}/tests/intercept/traps/traps_list.sh"
export PEERPIN_SUMMARY=0 PEERPIN_LOG_LEVEL=error
status=0
# names FOLDER: of the driver there
names() {
    functions_of "$1/libcuda.so.1" | LD_LIBRARY_PATH=$1 LD_PRELOAD=$library tests/intercept/names || status=1
}
names "$sim"
stub=${CUDA_STUB:-/usr/local/cuda/lib64/stubs/libcuda.so}
if [ -r "$stub" ]; then
    folder=$(mktemp -d)
    cp "$stub" "$folder/libcuda.so.1"
    names "$folder"
    rm -r "$folder"
else
    echo '0 passed, 0 failed, 1 skipped'
    echo 'SKIPPED: names: no stub of the driver at '"$stub"
fi
exit "$status"
