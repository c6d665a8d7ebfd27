#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reports defects of doctor's JSON and of the test hosts: check_results.py FOLDER,
which has NAME.text, NAME.verbose and NAME.json of each host.

JSON and text have equal results. Over all hosts, each check is OK at least once and not OK at least
once: otherwise the hosts do not test it.
"""

import collections
import json
import pathlib
import re
import sys

SIGNS = {"OK": "OK", "-": "NOT NEEDED", "?": "UNKNOWN", "WARN": "WARN", "FAIL": "FAIL"}
KEYS = {"id", "group", "result", "found", "read", "why", "fixes", "needs", "more"}

# Causes and fixes of each check: part of the text, part of the fix.
CAUSES = {
    "driver": [("no NVIDIA driver is loaded", "install the NVIDIA driver"),
               ("proprietary kernel module", "open kernel modules|modprobe nvidia-peermem$"),
               ("has GPUDirect RDMA from CUDA 11.2 on", "a newer CUDA"),
               ("older than 5.12", "a kernel from 5.12 on")],
    "peermem": [("both loaded", "service nv_peer_mem stop; .*dpkg -P .*rpm -e .*modprobe nvidia-peermem"),
                ("differs from the driver's version", "rmmod nvidia_peermem && .*modprobe nvidia-peermem"),
                ("is not loaded", "modprobe nvidia-peermem$|install MLNX_OFED or DOCA-OFED|kernel modules for this kernel"),
                ("; not registered with the RDMA stack", "reinstall the driver after")],
    "peermem-mode": [("driver 525.60.13 can crash the kernel", "NVIDIA driver 525.105.17")],
    "peermem-install": [("no peer-memory interface", "install MLNX_OFED or DOCA-OFED"),
                        ("loads it at the next start", "nvidia-peermem.conf"),
                        ("is not installed for this kernel", "kernel modules for this kernel")],
    "kernel-log": [("pages of 64 KiB alone", "open kernel modules"), ("found no pages", "--only peermem$")],
    "peer-mapping": [("GrdmaPciTopoCheckOverride is 2", "remove NVreg_GrdmaPciTopoCheckOverride=2")],
    "platform": [("does not guarantee", "--deep"), ("WSL2", "use Linux on the hardware"),
                 ("GPU0 virtual", "pass the whole GPU through")],
    "gpu": [("no GPUDirect RDMA", "data centre or workstation GPU"), ("the CUDA probe process was killed", "nvidia-smi"),
            ("neither ordered nor flushed", "update the driver"), ("unproven from", "open kernel modules"),
            ("libcuda.so.1 cannot be loaded", "run it where a GPU and its driver are")],
    "gpu-mode": [("MIG mode", "nvidia-smi -i .* -mig 0")],
    "bar1": [("MiB: registrations cannot exceed", "Above 4G Decoding and Resizable BAR .*PIN_LIMIT"),
             ("has no BAR1", "Resizable BAR on in the BIOS$"),
             ("of BAR1 in use: registrations may", "processes that use it")],
    "export": [("the CUDA probe process was killed", "nvidia-smi"), ("is not exported", "open kernel modules|modprobe nvidia-peermem$"),
               ("is out of adapters' reach", "nvidia-smi -q")],
    "adapter": [("PCIe link .* it could do", "another slot"), (r"\b(DOWN|INIT)\b", "the cable, the switch's port"),
                ("no RDMA adapter is visible$", "load the adapter's driver|--net host"),
                ("in one network namespace alone", "rdma system set netns shared")],
    "uverbs": [("cannot be opened by this user", "mode 0666|devices cgroup"), ("this container was not given it", "--device /dev/infiniband")],
    "verbs": [("no ibv_reg_dmabuf_mr", "rdma-core 35"), ("cannot be loaded", "apt install libibverbs1")],
    "dma-buf": [("the libibverbs probe process exceeded", "dmesg"), ("mlx5_0 no dma-buf", "a kernel from 5.12 on")],
    "provider": [(r"irdma0 by ice \(irdma\)", "another driver, such as mlx5"),
                 ("is a software adapter", "hardware RDMA adapter")],
    "limits": [("memlock [0-9]+ [KM]iB: registrations", "ulimit -l|memlock unlimited"),
               ("only [0-9]+ open files", "ulimit -n|nofile 65536"),
               ("2 MiB of host memory cannot be registered", "memory limit of the job"),
               ("this cgroup limits", "rdma.max of this job"), ("the cgroup above, /slurm/job_7 limits", "rdma.max of /slurm/job_7$"),
               ("supports only 8192 registrations", "UCX_RCACHE_MAX_REGIONS"), ("at most 1024 MiB at a time", "allocate in pieces")],
    "job": [("no rank fits", "PEERPIN_PIN_LIMIT=")],
    "path": [("NODE, over two root complexes", "--deep"), ("is closer to", "reason against mlx5_1"), (r"SYS \(crosses sockets\)$", "adapter of its own socket")],
    "acs": [("sent up to the root complex", "setpci -s|refuses setpci")],
    "iommu": [("translated", "iommu=pt")],
    "probe": [("ibv_reg_dmabuf_mr EOPNOTSUPP|ibv_reg_mr EFAULT", "modprobe nvidia-peermem|MLNX_OFED|kernel modules for this kernel|refused the memory|hardware RDMA adapter"),
              ("ENOMEM", "--only limits,bar1"), ("cuMemGetHandleForAddressRange", "open kernel modules|modprobe nvidia-peermem$"), ("EINVAL", "--only kernel-log"),
              ("the kernel refuses the PCIe path", "--only path"),
              ("with SYNC_MEMOPS in [1-9]", "synchronize before each send"), ("are not freed", "update the driver"), ("but data does not arrive", "--only acs,iommu,path")],
    "software": [("Open MPI without CUDA support(;|$)", "Open MPI that was configured --with-cuda"),
                 ("UCX without CUDA", "(install|build) UCX with CUDA"),
                 ("UCX 1.13.1 cannot hook this driver", "use UCX 1.18.1 or newer"),
                 ("UCX_IB_GPU_DIRECT_RDMA=no", "unset UCX_IB_GPU_DIRECT_RDMA"),
                 ("expandable_segments:True: peer memory registers", "take expandable_segments:True out of PYTORCH_ALLOC_CONF"),
                 ("NCCL_NET_GDR_LEVEL=0: ", "unset NCCL_NET_GDR_LEVEL, or set it to the distance")],
    "preloads": [("HAMi", "which precedes other preloads"), ("libtrace.so, unknown to peerpin", "run once without .*libtrace")],
    "program": [("32-bit program", "build it for 64 bits"), ("on a machine of", "build it for this machine"),
                ("static:", "link it dynamically"), ("to musl", "against glibc"), ("leaves LD_PRELOAD out", "a copy without"),
                ("is not found(;|$)", "LD_LIBRARY_PATH"), ("RTLD_DEEPBIND", "each intercepted allocation"),
                ("no such program", "give its path"), ("it needs glibc", "build it on this machine")],
}


def check_fixes(host, check, met):
    """Reports a cause without its fix, or a fix without its cause, in a check that warns or fails."""
    found = [(cause, fix) for cause, fix in CAUSES[check["id"]] if re.search(cause, check["found"])]
    met.update((check["id"], cause) for cause, _ in found)
    for cause, fix in found:
        if not any(re.search(fix, done) for done in check["fixes"]):
            print(f"{host}: {check['id']} has no fix for {cause!r}")
    for done in check["fixes"]:
        if not any(re.search(fix, done) for _, fix in found):
            print(f"{host}: {check['id']} has the fix {done!r} without a known cause")


def results_of_text(text):
    lines = (re.match(r"(OK|-|\?|WARN|FAIL) +([a-z0-9-]+)  +\S", line) for line in text.split("\n"))
    return {found[2]: SIGNS[found[1]] for found in lines if found}


def main():
    seen = collections.defaultdict(set)
    met = set()
    for file in sorted(pathlib.Path(sys.argv[1]).glob("*.text")):
        text = file.read_text(encoding="utf-8")
        results = results_of_text(file.with_suffix(".verbose").read_text(encoding="utf-8"))
        whole = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
        written_results = {check["id"]: check["result"] for check in whole["checks"]}
        if written_results != results:
            print(f"{file.stem}: JSON and text differ: {set(written_results.items()) ^ set(results.items())}")
        if text.rsplit("=> ", 1)[1].split()[0] != str(whole["status"]) or whole["conclusion"] not in text:
            print(f"{file.stem}: JSON has another conclusion")
        for check in whole["checks"]:
            seen[check["id"]].add(check["result"])
            if set(check) != KEYS or not check["found"] or not check["read"] or not check["why"]:
                print(f"{file.stem}: {check['id']} lacks something")
            if check["result"] in ("WARN", "FAIL") and not check["fixes"]:
                print(f"{file.stem}: {check['id']} has no fix")
            if check["result"] in ("WARN", "FAIL"):
                check_fixes(file.stem, check, met)
    for name, results in seen.items():
        if "OK" not in results or not results & {"WARN", "FAIL"}:
            print(f"{name} is only ever {sorted(results)}")
    for missed in {(name, cause) for name, causes in CAUSES.items() for cause, _ in causes} - met:
        print(f"no host has this cause: {missed}")
    if len(seen) != 25:
        print(f"{len(seen)} checks were found")


if __name__ == "__main__":
    main()
