# SPDX-License-Identifier: BSD-3-Clause
"""explain.py -- expected values of peerpin's statistics

Each counter has a rule: a number from CUPTI, other counters that it follows from, or a named
reason. Problems: a counter without a rule, a value that its rule does not allow, and a rule without
a counter. Counters of registrations must be 0 unless the host has an adapter.
"""
import os

KINDS = {
    "allocations_device": ("cuMemAlloc",),
    "allocations_pitched": ("cuMemAllocPitch",),
    "allocations_managed": ("cuMemAllocManaged",),
    "allocations_pool": ("cuMemAllocAsync", "cuMemAllocFromPoolAsync"),
    "allocations_mapped": ("cuMemMap",),
    "allocations_shared": ("cuIpcOpenMemHandle", "cuMemPoolImportPointer"),
    "allocations_external": ("cuExternalMemoryGetMappedBuffer",),
}
HOST_ALLOCATIONS = ("cuMemHostAlloc", "cuMemAllocHost")
HOST_FREES = ("cuMemFreeHost",)
CAPTURES = ("cuStreamBeginCapture", "cuStreamBeginCaptureToGraph")
# Always 0.
NEVER = (
    "missed_frees untracked verify_disagreements bypasses internal_errors "
    # Without PEERPIN_KEEP.
    "kept reused kept_released kept_bytes kept_bytes_peak kept_host_bytes kept_host_bytes_peak"
).split()
REGISTRATIONS = frozenset(
    """ucx_unhooked protection_domains sync_missing registrations registrations_background background_delays exports_ready requests hits
    waited synchronous_queued synchronous forwarded
    forwarded_flags forwarded_address forwarded_range forwarded_freed forwarded_capability forwarded_domain
    forwarded_failed forwarded_pin_limit forwarded_version forwarded_private forwarded_form forwarded_data_direct forwarded_unknown forwarded_verify
    host_requests registrations_dma_buf registrations_peer_memory registrations_failed failed_resources
    failed_address failed_argument failed_support failed_other over_pin_limit evictions pinned_bytes
    pinned_bytes_peak deregistrations deregistrations_failed invalidated never_used never_used_bytes never_used_ns
    never_used_sizes requested_bytes revoked late_deregistrations background_ns program_ns waited_ns free_ns""".split()
) | {
    f"histogram {name}"
    for name in "registration_background_ns registration_program_ns wait_ns free_ns used_bytes never_used_bytes".split()
}


def exactly(number, why):
    return number, number, why


def between(least, most, why):
    return least, most, why


def rules(seen, statistics):
    """For each counter of memory and queries: minimum, maximum and reason."""
    allocations = sum(seen.allocations.values())
    frees = sum(seen.frees.values())
    did = seen.done
    asked = sum(seen.asked.values())
    late = 10**9 if seen.exits else 0  # CUPTI reports no calls during exit
    end = ", and what was freed at the exit" if seen.exits else ""
    host_allocations = sum(did[name] for name in HOST_ALLOCATIONS)
    allocated_bytes = sum(size for _, size in seen.sizes)
    # The exporter decides the size of shared memory.
    shared = sum(size for name, size in seen.sizes if name in KINDS["allocations_shared"])
    table = {
        "allocations": exactly(allocations, "allocations that CUPTI saw"),
        "frees": between(frees, allocations, f"ends that CUPTI saw{end}"),
        "graph_allocations": exactly(
            seen.graphs + did["cuGraphAddMemAllocNode"], "captured allocations that CUPTI saw, and nodes added"
        ),
        "access_granted": between(
            0,
            statistics["allocations_mapped"] + statistics["access_removed"] if did["cuMemSetAccess"] else 0,
            "mappings made accessible, once each",
        ),
        "access_removed": between(0, statistics["access_granted"] if did["cuMemSetAccess"] else 0, "cuMemSetAccess"),
        "host_allocations": exactly(host_allocations, "host memory that CUPTI saw begin"),
        "host_frees": between(
            min(sum(did[name] for name in HOST_FREES), host_allocations), host_allocations, f"host memory that ended{end}"
        ),
        "captures": exactly(sum(did[name] for name in CAPTURES), "streams that CUPTI saw captured"),
        "exports": between(
            0, did["cuMemGetHandleForAddressRange"] + statistics["exports_ready"], "cuMemGetHandleForAddressRange, or without it"
        ),
        "exports_ready": between(0, statistics["exports"], "exports"),
        "untracked_frees": between(
            0, seen.unknown_frees + seen.refused + late, f"frees of graphs' memory, of nothing, or refused{end}"
        ),
        "allocated_bytes": between(allocated_bytes - shared, allocated_bytes, "bytes of the allocations that CUPTI saw"),
        "verify_checks": between(0, 10**18, "PEERPIN_VERIFY"),
        # With verification the driver receives these queries too.
        "queries_answered": between(0, asked - statistics["queries_forwarded"], "questions that CUPTI saw asked"),
        "queries_forwarded": between(0, asked, "questions that CUPTI saw asked"),
        "sync_off": between(0, seen.asked["cuPointerSetAttribute"], "cuPointerSetAttribute"),
    }
    for name, calls in KINDS.items():
        table[name] = exactly(sum(seen.allocations_by_name[call] for call in calls), " and ".join(calls))
    return table


def counters(statistics):
    """All numbers that are counted, histograms by their sums."""
    skipped = ("pid", "pid_namespace", "start_ticks", "rank", "local_rank", "started_ns", "elapsed_ns")
    for name, value in statistics.items():
        if isinstance(value, int) and not isinstance(value, bool) and name not in skipped:
            yield name, value
    for name, values in statistics.get("histograms", {}).items():
        yield f"histogram {name}", sum(values)


def adapters():
    folder = "/sys/class/infiniband"
    if os.environ.get("GPU_ADAPTER"):  # the simulated one
        return [os.environ["GPU_ADAPTER"]]
    return os.listdir(folder) if os.path.isdir(folder) else []


def explain(seen, statistics):
    """Unexplained counters, and the number of counters that are not 0."""
    table = rules(seen, statistics)
    told = dict(counters(statistics))
    problems = [f"{name}: not among the statistics" for name in (*table, *NEVER) if name not in told]
    explained = 0
    for name, value in told.items():
        if name == "histogram allocation_bytes":
            least, most, why = exactly(statistics["allocations"], "allocations")
        elif name in NEVER:
            least, most, why = exactly(0, "nothing: it never happens")
        elif name in table:
            least, most, why = table[name]
        elif name in REGISTRATIONS:
            least, most, why = between(0, 10**18 if adapters() else 0, "nothing: there is no adapter")
        else:
            problems.append(f"{name}: {value}, no rule knows this counter")
            continue
        if not least <= value <= most:
            expected = f"{least}" if least == most else f"{least} to {most}"
            problems.append(f"{name}: {value}, explained {expected} by {why}")
        elif value:
            explained += 1
    return problems, explained
