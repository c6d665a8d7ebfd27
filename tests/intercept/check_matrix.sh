#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_matrix.sh -- matrix.c and matrix.py under the preload, on the simulated driver of this build
set -u
[ -x tests/intercept/matrix_paths ] || exit 77
export PEERPIN_SUMMARY=0 PEERPIN_LOG_LEVEL=error PEERPIN_KEEP=64M PEERPIN_SIM_MEMORY=256M LD_LIBRARY_PATH="$PWD/src/sim/.libs:$PWD/tests/intercept/.libs"
library=$PWD/src/.libs/libpeerpin.so
program=tests/intercept/.libs/matrix_paths
[ -x "$program" ] || program=tests/intercept/matrix_paths
MATRIX_EXPORTER=tests/intercept/.libs/exporter
[ -x "$MATRIX_EXPORTER" ] || MATRIX_EXPORTER=tests/intercept/exporter
export MATRIX_EXPORTER
status=0
LD_PRELOAD=$library "$program" || status=1
if command -v python3 >/dev/null; then
    symbols=$(sed -n 's/^ENTRY_CUDA(\([A-Za-z0-9_]*\),.*/\1/p' "${srcdir:-.}/src/intercept/entry_points.def")
    # shellcheck disable=SC2086 # one argument for each symbol
    LD_PRELOAD=$library python3 "${srcdir:-.}/tests/intercept/matrix/matrix.py" \
        "$PWD/tests/intercept/.libs/librows.so" $symbols || status=1
else
    echo '0 passed, 0 failed, 1 skipped'
fi
exit "$status"
