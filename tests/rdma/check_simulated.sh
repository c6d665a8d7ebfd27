#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_simulated.sh -- the contract tests of real adapters, on the simulated adapter, with dma-bufs and without
here=${srcdir:-.}/tests/rdma
status=0
for dmabuf in 1 0; do
	PEERPIN_SIM_ADAPTER_DMABUF=$dmabuf "$here/run" --adapter sim --build . --timeout 900 \
		"$here/each" "$here/check_rdma.sh" "$here/check_pressure.sh" "$here/check_keep.sh" || status=1
done
exit "$status"
