# SPDX-License-Identifier: BSD-3-Clause
"""distributed.py -- a process for each of two GPUs, and NCCL between them: the same sums each time

Whole numbers: sums do not depend on the order of additions. Rank 0 prints the results of all ranks.
Without GPUs it runs by gloo on host memory, which only tests the program.
"""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WORLD = 2


def exchange(rank, file, backend):
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, init_method=f"file://{file}", rank=rank, world_size=WORLD)
    told = []
    for step in range(6):
        # Sizes for several of NCCL's protocols.
        count = 1000 << (2 * step)
        mine = torch.arange(count, device=device, dtype=torch.int64) % 1000 + rank + step

        summed = mine.clone()
        dist.all_reduce(summed)
        told.append(("all_reduce", count, summed.sum()))

        sent = mine.clone() if rank == 0 else torch.zeros_like(mine)
        dist.broadcast(sent, 0)
        told.append(("broadcast", count, sent.sum()))

        gathered = [torch.empty_like(mine) for _ in range(WORLD)]
        dist.all_gather(gathered, mine)
        told.append(("all_gather", count, sum(part.sum() * (i + 1) for i, part in enumerate(gathered))))

        got = torch.zeros_like(mine)
        if rank == 0:
            dist.send(mine, 1)
            dist.recv(got, 1)
        else:
            dist.recv(got, 0)
            dist.send(mine, 0)
        told.append(("send and recv", count, got.sum()))

        if backend == "nccl":
            torch.cuda.synchronize()
            del summed, sent, gathered, got
            torch.cuda.empty_cache()
    # Results of every rank, not of rank 0 alone.
    numbers = torch.stack([value.reshape(()) for _, _, value in told])
    others = [torch.empty_like(numbers) for _ in range(WORLD)]
    dist.all_gather(others, numbers)
    if rank == 0:
        for i, (what, count, _) in enumerate(told):
            print(what, count, *(int(other[i]) for other in others))
        sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    enough = torch.cuda.is_available() and torch.cuda.device_count() >= WORLD
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(exchange, (os.path.join(folder, "rendezvous"), "nccl" if enough else "gloo"), nprocs=WORLD)
