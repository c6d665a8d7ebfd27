# SPDX-License-Identifier: BSD-3-Clause
"""keep_ranks.py -- two ranks of a job on one GPU: one keeps memory, the other wants more than is left

"keep_ranks.py" starts both, each with the caller's preload, and prints the driver's result of the second one's
allocation and how long it took. As the first rank keeps a fifth of the GPU, nine tenths of its memory do not fit
beside it. It frees that fifth again and again: one free of such a size keeps nothing.
"""
import os
import subprocess
import sys
import time

from keep_calls import allocate, begin, check, free, free_memory

SMALL = 1 << 20


def keep(size):
    result, address = allocate(size)
    check(result)
    free(address)


def keeper():
    """Allocates until its standard input ends."""
    begin()
    os.set_blocking(0, False)
    size = free_memory() // 5
    for _ in range(20):
        keep(size)
    print("kept", flush=True)
    while True:
        keep(SMALL)
        try:
            if not os.read(0, 1):
                return
        except BlockingIOError:
            pass


def main():
    environment = {**os.environ, "PMIX_NAMESPACE": f"keep-ranks-{os.getpid()}"}
    begin()
    size = free_memory() // 10 * 9
    ranks = [{**environment, "OMPI_COMM_WORLD_RANK": str(rank)} for rank in range(2)]
    with subprocess.Popen([sys.executable, __file__, "keeper"], env=ranks[0], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as first:
        if first.stdout.readline() != "kept\n":
            sys.exit("the first rank failed")
        subprocess.run([sys.executable, __file__, "wanter", str(size)], env=ranks[1], check=True)
        first.stdin.close()


if sys.argv[1:2] == ["keeper"]:
    keeper()
elif sys.argv[1:2] == ["wanter"]:
    begin()
    started = time.monotonic()
    result, _ = allocate(int(sys.argv[2]))
    print(f"result {result}")
    print(f"seconds {time.monotonic() - started:.4f}", file=sys.stderr)
else:
    main()
