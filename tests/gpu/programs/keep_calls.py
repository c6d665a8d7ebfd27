# SPDX-License-Identifier: BSD-3-Clause
"""keep_calls.py -- the driver's calls of programs with several ranks on one GPU"""
import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def check(result):
    if result:
        sys.exit(f"the driver returned {result}")


def begin():
    context = ctypes.c_void_p()
    check(cuda.cuInit(0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))


def allocate(size):
    """The driver's result, and the address."""
    address = ctypes.c_uint64()
    return cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)), address


def free(address):
    check(cuda.cuMemFree_v2(address))


def free_memory():
    unused, total = ctypes.c_size_t(), ctypes.c_size_t()
    check(cuda.cuMemGetInfo_v2(ctypes.byref(unused), ctypes.byref(total)))
    return unused.value
