#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_pairs.sh -- the contract of queue pairs, on the simulated adapter
exec "${srcdir:-.}/tests/rdma/run" --adapter sim --build . --timeout 900 tests/rdma/check_pairs
