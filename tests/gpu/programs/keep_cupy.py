# SPDX-License-Identifier: BSD-3-Clause
"""keep_cupy.py -- arrays of CuPy without its pools: a checksum; seconds as an error line"""
import hashlib
import sys
import time

import cupy

cupy.cuda.set_allocator(None)
cupy.cuda.set_pinned_memory_allocator(None)
digest = hashlib.sha256()
begun = time.monotonic()
for step in range(int(sys.argv[1]) if len(sys.argv) > 1 else 200):
    if step == 10:
        cupy.cuda.Device().synchronize()
        begun = time.monotonic()
    values = cupy.arange(1000003 + 65536 * (step % 4), dtype=cupy.float32)
    table = cupy.sin(values[:1000000].reshape(1000, 1000) * 0.001) + step
    product = (table * 2 - table[::-1]).cumsum(axis=1)
    digest.update(cupy.asnumpy(product[step % 1000]).tobytes())
print(f"seconds {time.monotonic() - begun:.3f}", file=sys.stderr)
print(f"arrays {digest.hexdigest()}")
