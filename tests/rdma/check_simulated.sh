#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_simulated.sh -- the contract tests of real adapters, on the simulated adapter
here=${srcdir:-.}/tests/rdma
exec "$here/run" --adapter sim --build . --timeout 900 \
	"$here/each" "$here/check_rdma.sh" "$here/check_pressure.sh" "$here/check_keep.sh"
