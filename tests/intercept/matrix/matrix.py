#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""matrix.py -- the rows of the table, with each function looked up by Python's ctypes"""
import ctypes
import sys

library, *symbols = sys.argv[1:]
driver = ctypes.CDLL("libcuda.so.1")
rows = ctypes.CDLL(library)
functions = (ctypes.c_void_p * len(symbols))(
    *(ctypes.cast(getattr(driver, symbol), ctypes.c_void_p).value for symbol in symbols)
)
passed, failed = ctypes.c_int(), ctypes.c_int()
if rows.rows_begin():
    sys.exit(77)
rows.rows_run(b"ctypes", functions, ctypes.byref(passed), ctypes.byref(failed))
print(f"{passed.value} passed, {failed.value} failed, {rows.rows_skipped()} skipped", flush=True)
sys.exit(failed.value != 0)
