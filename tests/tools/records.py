#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""records.py FOLDER RANKS [TWIST...] -- reproducible statistics of a job; without arguments: of each line of standard input

Ranks differ slightly, by their number. A twist is RANK:KEY=JSON, with * for every rank; KEY may
have a dot for a key of an object. A null removes the key. Words of a line end with the character 0x1f."""
import json
import sys

GIB = 1 << 30


def log2_buckets(values):
    buckets = []
    for value, count in values:
        at = max(value.bit_length() - 1, 0)
        buckets += [0] * (at + 1 - len(buckets))
        buckets[at] += count
    return buckets


def record(rank, ranks):
    hits = 2200 + rank % 7
    late = rank % 3
    requests = hits + late + 1
    registrations = 24 + rank % 5
    elapsed = 61_300_000_000 + rank * 1_000_000
    pinned = 10 * GIB + (rank % 4) * (64 << 20)
    return {
        "schema": "peerpin-stats/1", "version": "0.1.0", "program": "lammps", "host": f"node{rank // 4 + 1}",
        "job": "48213", "pid": 20100 + rank, "pid_namespace": 4026531836, "start_ticks": 1000 + rank, "rank": rank, "local_rank": rank % 4,
        "complete": True, "ended": "exit", "started_ns": 1_700_000_000_000_000_000 + rank * 1_000_000,
        "elapsed_ns": elapsed, "settings": {"PEERPIN_PREREGISTER": "all"},
        "used": True, "usage": f"used: dma-buf on GPU {rank % 4}; mlx5_{rank % 4}, PIX",
        "allocations": 3102, "frees": 3099, "missed_frees": 0,
        "requests": requests, "hits": hits, "waited": late, "synchronous_queued": 0, "synchronous": 1, "forwarded": 0,
        "registrations": registrations, "registrations_background": registrations - 1, "registrations_dma_buf": registrations,
        "registrations_failed": 0, "pinned_bytes": 0, "pinned_bytes_peak": pinned,
        "never_used": 0, "never_used_bytes": 0, "never_used_ns": 0, "evictions": 0, "over_pin_limit": 0,
        "background_ns": 103_000_000 + rank * 10_000, "program_ns": 800_000 + late * 40_000, "free_ns": 2_100_000,
        "internal_errors": 0,
        "histograms": {
            "registration_background_ns": log2_buckets([(900_000, 5), (2_000_000, 15), (9_000_000, registrations - 21)]),
            "registration_program_ns": log2_buckets([(800_000, 1)]),
            "wait_ns": log2_buckets([(40_000, late)]) if late else [],
            "free_ns": log2_buckets([(90_000, 20), (300_000, 3)]),
            "used_bytes": log2_buckets([(8 << 20, 20), (64 << 20, registrations - 20)]),
            "allocation_bytes": log2_buckets([(4096, 3000), (64 << 20, 102)]),
            "never_used_bytes": [],
        },
        "pairs": [{"gpu": rank % 4, "adapter": f"mlx5_{rank % 4}", "method": "dma-buf", "path": "PIX",
                   "registrations": registrations}],
    }


def twist(json_object, key, value):
    *outer, last = key.split(".")
    for part in outer:
        json_object = json_object.setdefault(part, {})
    if value is None:
        json_object.pop(last, None)
    else:
        json_object[last] = value


def make(folder, ranks, *twists):
    ranks = int(ranks)
    for rank in range(ranks):
        made = record(rank, ranks)
        for word in twists:
            where, assignment = word.split(":", 1)
            key, value = assignment.split("=", 1)
            if where in ("*", str(rank)):
                twist(made, key, json.loads(value))
        with open(f"{folder}/{rank:04}.json", "w", encoding="utf-8") as file:
            json.dump(made, file)


def main():
    if sys.argv[1:]:
        make(*sys.argv[1:])
    for line in sys.stdin if not sys.argv[1:] else ():
        make(*line.split("\x1f")[:-1])
        print("made", flush=True)


main()
