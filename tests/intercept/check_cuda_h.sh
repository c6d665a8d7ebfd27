#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_cuda_h.sh -- check_cuda_h.py on the cuda.h that configure found, if any
command -v python3 >/dev/null || exit 77
table=${srcdir:-.}/src/intercept/entry_points.def
header=${CUDA_H:-/usr/local/cuda/include/cuda.h}
[ -r "$header" ] || header=
exec python3 "${srcdir:-.}/tests/intercept/check_cuda_h.py" "$table" ${header:+"$header"}
