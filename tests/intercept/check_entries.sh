#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_entries.sh -- check_entries.py on the libraries of this build
command -v python3 >/dev/null || exit 77
exec python3 "${srcdir:-.}/tests/intercept/check_entries.py" src/.libs/libpeerpin.so \
    src/sim/.libs/libcuda.so.1 tests/stacks/newer/.libs/libcuda.so.1
