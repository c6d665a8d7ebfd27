# SPDX-License-Identifier: BSD-3-Clause
"""keep_pressure.py -- eight ranks of a job that together use nine tenths of one GPU, in changing sizes

"keep_pressure.py [SECONDS]" starts them, each with the caller's preload, and prints how many allocations failed. Each
rank has eight sizes from 32 MiB to 2 GiB. It allocates blocks of three of them up to its part of the memory, frees them
in another order, and begins again with others. What the ranks keep of freed memory would not fit beside what the others
allocate.
"""
import ctypes
import os
import random
import subprocess
import sys
import time

RANKS = 8
MIB = 1 << 20
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


def rank(number, part, seconds):
    """Prints rounds, and allocations that failed."""
    begin()
    print("ready", flush=True)
    sys.stdin.readline()
    chance = random.Random(number)
    all_sizes = [chance.randrange(32, 2048) * MIB for _ in range(8)]
    end, rounds, failed = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        sizes = chance.sample(all_sizes, 3)
        blocks, live = [], 0
        while live + max(sizes) <= part:
            size = chance.choice(sizes)
            result, address = allocate(size)
            if result:
                failed += 1
                break
            blocks.append(address)
            live += size
        chance.shuffle(blocks)
        for address in blocks:
            free(address)
        rounds += 1
    print(rounds, failed, flush=True)


def main(seconds):
    begin()
    part = free_memory() // 10 * 9 // RANKS - 512 * MIB  # of which a context takes half a GiB
    environment = {**os.environ, "PMIX_NAMESPACE": f"keep-pressure-{os.getpid()}"}
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, "rank", str(number), str(part), str(seconds)],
            env={**environment, "OMPI_COMM_WORLD_RANK": str(number)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number in range(RANKS)
    ]
    for process in ranks:
        if process.stdout.readline() != "ready\n":
            sys.exit("a rank failed")
    for process in ranks:
        process.stdin.write("\n")
        process.stdin.close()
    results = [process.stdout.read().split() for process in ranks]
    if any(process.wait() for process in ranks):
        sys.exit("a rank failed")
    print(f"failed {sum(int(failed) for _, failed in results)}")
    print(f"rounds {sum(int(rounds) for rounds, _ in results)}", file=sys.stderr)


if sys.argv[1:2] == ["rank"]:
    rank(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
else:
    main(float(sys.argv[1]) if sys.argv[1:] else 8)
