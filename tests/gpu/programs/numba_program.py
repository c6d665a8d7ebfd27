# SPDX-License-Identifier: BSD-3-Clause
"""numba_program.py -- a kernel of one's own, device arrays, and the end of the context"""
import numpy

# numba-cuda uses a name that NumPy 2.5 no longer has.
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack

from numba import cuda  # noqa: E402


@cuda.jit
def double(values):
    i = cuda.grid(1)
    if i < values.size:
        values[i] *= 2


for size in (100, 100000):
    device = cuda.to_device(numpy.arange(size, dtype=numpy.float64))
    double[(size + 127) // 128, 128](device)
    print(size, device.copy_to_host().sum())
    del device
cuda.close()
