#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""check_cuda_h.py TABLE [CUDA_H] -- functions of an installed cuda.h outside of the table

The check selects functions that may allocate, free, map, end contexts, or begin captures, and that the table
neither intercepts nor lists as forwarded.

A newer driver may have new entry points that free memory. A build with its header fails here.
"""
import re
import sys

# Suspect by name, or by an output parameter: an address, a pool or a handle of memory.
NAMES = re.compile(
    r"Alloc|Free|(?<!Tensor)Map|Unmap|Reserve|ImportExternalMemory|MemImport|MemPoolImport|Export|IpcOpenMem|IpcCloseMem|Trim|Unload"
    r"|HostUnregister|HostRegister|GraphicsUnregister|CheckpointProcess(Checkpoint|Restore)"
    r"|SetAccess|Discard|Prefetch|Mem\w*(Create|Destroy|Release|Retain|Reset)|(Ctx|PrimaryCtx|GreenCtx)(Create|Destroy|Detach|"
    r"Attach|Release|Retain|Reset$)|Multicast|Array\w*(Create|Destroy)|Module\w*GetGlobal|Library\w*Get(Global|Managed)|"
    r"ExternalMemory|(Begin|End)\w*apture"
)
PARAMETERS = re.compile(
    r"CUdeviceptr\s*\*|CUmemoryPool\s*\*|CUmemGenericAllocationHandle\s*\*|CUcontext\s*\*"
)
DECLARATION = re.compile(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(([^;]*)\)\s*;", re.S)


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)


def suspects(header):
    found = set()
    for name, parameters in DECLARATION.findall(without_comments(header)):
        parts = [part.strip() for part in parameters.split(",")]
        if NAMES.search(name) or any(PARAMETERS.search(part) for part in parts):
            found.add(name)
    return found


def named(table):
    rows = set(re.findall(r"^(?:ENTRY|FORWARDED)_CUDA\((\w+),", table, re.M))
    # A header declares the newest form, and the per-thread default stream's form, under the plain
    # name.
    return rows | {re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", row) for row in rows}


def missing(header, table):
    return sorted(
        name for name in suspects(header) if re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", name) not in named(table)
    )


def main():
    table = open(sys.argv[1], encoding="utf-8").read()
    passed = failed = 0

    # The check itself: it must find new functions, and ignore declarations in comments.
    tomorrow = """
    CUresult CUDAAPI cuMemAllocFromTomorrow(CUdeviceptr *dptr, size_t bytesize);
    CUresult CUDAAPI cuTomorrow(int a, CUdeviceptr *dptr);
    CUresult CUDAAPI cuMemVanish(CUdeviceptr dptr); /* not found by its name, and says so */
    CUresult CUDAAPI cuMemFree(CUdeviceptr dptr);
    CUresult CUDAAPI cuStreamBeginRecaptureOfTomorrow(CUstream hStream);
    /* CUresult CUDAAPI cuMemFreeOfYesterday(CUdeviceptr dptr); */
    """
    if missing(tomorrow, table) == ["cuMemAllocFromTomorrow", "cuStreamBeginRecaptureOfTomorrow", "cuTomorrow"]:
        passed += 1
    else:
        failed += 1
        print("FAILED: a header of tomorrow:", missing(tomorrow, table))

    if len(sys.argv) > 2:
        header = open(sys.argv[2], encoding="utf-8", errors="replace").read()
        if len(suspects(header)) < 80:
            failed += 1
            print(f"FAILED: {sys.argv[2]} is not read as a cuda.h: {len(suspects(header))} functions that matter")
        left = missing(header, table)
        for name in left:
            print(f"FAILED: {name} is in {sys.argv[2]}, and the table does not know it")
        passed += not left
        failed += bool(left)
        print(f"{len(suspects(header))} functions of {sys.argv[2]} looked at")
    print(f"{passed} passed, {failed} failed, {0 if len(sys.argv) > 2 else 1} skipped")
    return failed != 0


sys.exit(main())
