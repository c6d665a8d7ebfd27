# SPDX-License-Identifier: BSD-3-Clause
"""cupy_program.py -- CuPy with its pool, without it, and with the driver's pool"""
import cupy

for name, allocator in (
    ("pool", cupy.cuda.MemoryPool().malloc),
    ("none", None),
    ("driver's pool", cupy.cuda.MemoryAsyncPool().malloc),
    ("managed", cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc),
):
    cupy.cuda.set_allocator(allocator)
    total = 0.0
    for size in (1000, 300000, 5000000):
        values = cupy.arange(size, dtype=cupy.float64)
        total += float((values * 2).sum())
        del values
    print(f"{name}: {total:.1f}")
