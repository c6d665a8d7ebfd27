# SPDX-License-Identifier: BSD-3-Clause
"""Prints docs/stats.schema.json: the schema of statistics files, from src/report/statistics.def, methods.def
and callers.h.

usage: schema.py STATISTICS.DEF
"""
import json
import os
import re
import sys

COUNT = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}
RANK = {"type": ["integer", "null"], "minimum": 0}


def rows(text, macro):
    pattern = macro + r'\((\w+),.*"([^"]*)"\)'
    return [(name, meaning) for name, meaning in re.findall(pattern, text)]


def record(properties):
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def described(schema, text):
    return dict(schema, description=text)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    with open(os.path.join(os.path.dirname(sys.argv[1]), "methods.def"), encoding="utf-8") as file:
        methods = re.findall(r'^METHOD\(\w+, "([^"]*)"', file.read(), flags=re.M)
    with open(os.path.join(os.path.dirname(sys.argv[1]), "callers.h"), encoding="utf-8") as file:
        findings = re.findall(r"^\tFINDING\((\w+)\)", file.read(), flags=re.M)
    counters = {
        name: described(COUNT, meaning)
        for name, meaning in rows(text, "STATISTIC") + rows(text, "REASON") + rows(text, "TALLY")
    }
    buckets = {"type": "array", "items": COUNT, "maxItems": 64}
    histograms = {name: described(buckets, meaning) for name, meaning in rows(text, "HISTOGRAM")}
    properties = {
        "schema": {"const": "peerpin-stats/1"},
        "version": TEXT,
        "program": TEXT,
        "host": TEXT,
        "job": {"type": ["string", "null"]},
        "pid": COUNT,
        "pid_namespace": described(COUNT, "inode of the PID namespace that the number is of; 0: unknown"),
        "start_ticks": described(COUNT, "start of the process in clock ticks since boot; 0: unknown"),
        "rank": RANK,
        "local_rank": RANK,
        "complete": described({"type": "boolean"}, "whether the process wrote this itself, at its exit"),
        "ended": described({"enum": ["exit", "running"]}, "running: a snapshot"),
        "started_ns": described(COUNT, "since 1970, when it first used GPU memory or an adapter"),
        "elapsed_ns": described(COUNT, "from then to the end, or to now"),
        "settings": described(
            {"type": "object", "additionalProperties": TEXT}, "those that differ from their defaults"
        ),
        "used": described({"type": "boolean"}, "whether GPUDirect RDMA was used through peerpin"),
        "usage": described(TEXT, "`used` in words, with methods or fallback reason"),
        **counters,
        "histograms": described(
            record(histograms), "entry i counts values from 2^i up to 2^(i+1) - 1, entry 0 also zeros"
        ),
        "findings": {
            "type": "array",
            "items": record({"id": {"enum": findings}, "caller": TEXT, "count": COUNT, "bytes": COUNT, "ns": COUNT}),
        },
        "pairs": {
            "type": "array",
            "items": record(
                {
                    "gpu": {"type": "integer"},
                    "adapter": TEXT,
                    "method": {"enum": methods},
                    "path": {"enum": ["PIX", "PXB", "PHB", "NODE", "SYS", "none", None]},
                    "registrations": COUNT,
                }
            ),
        },
    }
    # Optional: the reason why the preferred registration method was not used.
    properties["pairs"]["items"]["properties"]["reason"] = TEXT
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "peerpin: the statistics of one process",
        **record(properties),
    }
    json.dump(schema, sys.stdout, indent=1)
    print()


main()
