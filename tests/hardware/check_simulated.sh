#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_simulated.sh -- steps of tests/hardware/run on this machine's adapter, with the simulated
# driver
#
# Run in a build folder, under tests/rdma/run. The decisive steps run by peer memory.
set -u
here=${srcdir:-$(dirname "$0")/../..}/tests/hardware
# shellcheck source=tests/launcher/checks
. "$here/../launcher/checks"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

status=0
"$here/run" --build "$PWD" --simulated --timeout 1200 --output "$tmp" \
	--only readings,methods,clients-peer-memory,traffic-peer-memory,leak-peer-memory,cost >"$tmp/output" 2>&1 || status=$?
cat "$tmp/output"
same 'nothing about hardware' 3 "$status"
matches 'the verdict' '*verdict: SIMULATED ONLY: *by peer memory; nothing is proved about hardware*' "$(<"$tmp/output")"
for step in readings methods clients-peer-memory traffic-peer-memory leak-peer-memory cost; do
	same "$step" 1 "$(grep -c "^$step  *OK (simulated)" "$tmp/output")"
done
matches 'the output of the leak check is in the file' '*10 passed, 0 failed*' \
	"$(tar -xOf "$tmp"/peerpin-hardware-*-simulated.tar.* logs/leak-peer-memory.log)"

# without_dma_buf.so rejects one system call of libibverbs, and no other.
without=$PWD/tests/hardware/.libs/without_dma_buf.so
bound=$(LD_DEBUG=bindings LD_BIND_NOW=1 LD_PRELOAD="$PWD/src/.libs/libpeerpin.so:$without:libibverbs.so.1" /bin/true 2>&1 |
	grep "libibverbs.*symbol .ioctl'")
matches 'libibverbs calls its ioctl' "* to $without *" "$bound"
if command -v python3 >/dev/null; then
	same 'the registration of a dma-buf is rejected, another call is not' $'Operation not supported\nInappropriate ioctl for device' \
		"$(LD_PRELOAD=$without python3 - <<'TEXT'
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("/dev/null", os.O_RDWR)
for method in (4, 3):
    header = ctypes.create_string_buffer(struct.pack("HHHHQII", 24, 7, method, 0, 0, 0, 0))
    libc.ioctl(fd, ctypes.c_ulong(0xc0181b01), header)
    print(os.strerror(ctypes.get_errno()))
TEXT
		)"
fi
finish
