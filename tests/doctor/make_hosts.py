#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes generated hosts for the tests of peerpin doctor: make_hosts.py FOLDER

Each host has one change to a host without problems, and the change's name. Texts are those of
kernel and drivers; addresses and times are invented. hosts/h200-no-adapter.dump is from a real
machine: peerpin doctor --dump wrote it. No host with a real adapter has been recorded. A missing
reading is an error ENOENT.
"""

import pathlib
import sys

FIRST_LINE = "# peerpin doctor: readings of a host, version 1"
DEVICES = "/sys/bus/pci/devices"
CLASS = "/sys/class/infiniband"
OPEN_DRIVER = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {0}  Release Build  (dvs-builder@U22-I3-H04-03-5)\n"
    "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)"
)
CLOSED_DRIVER = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {0}  Mon Oct  6 20:51:49 UTC 2025\n"
    "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)"
)


class Error(str):
    """A reading that failed: an errno's name, and words."""


def config_space(acs=None):
    """4096 bytes: AER and, behind it, ACS with these control bits."""
    space = bytearray(4096)
    space[0x100:0x104] = (0x0001 | 1 << 16 | (0x148 << 20 if acs is not None else 0)).to_bytes(4, "little")
    if acs is not None:
        space[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
        space[0x14E:0x150] = acs.to_bytes(2, "little")
    return bytes(space)


class Host:
    def __init__(self, name, kernel="6.8.0-60-generic", machine="x86_64"):
        self.readings = {}
        self.about = "test"
        self.gpus = 0
        self.adapters = []
        self.set("identity/host", name)
        self.set("identity/kernel", kernel)
        self.set("identity/machine", machine)
        self.set("identity/glibc", "2.39")
        self.set("identity/uid", "0")
        self.set("/proc/version", f"Linux version {kernel} (buildd@lcy02-amd64-080)")
        self.set("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/md0 ro iommu=pt")
        self.set("/proc/self/status", "Name:\tpeerpin-doctor\nCapEff:\t000001ffffffffff")
        self.set("/proc/self/uid_map", "         0          0 4294967295")
        self.set("/proc/self/cgroup", "0::/user.slice")
        self.set("/proc/sys/vm/max_map_count", "262144")
        self.set("/sys/kernel/security/lockdown", "[none] integrity confidentiality")
        self.set("/sys/class/dmi/id/sys_vendor", "NVIDIA")
        self.set("/sys/class/dmi/id/product_name", "DGXH100")
        self.set("/sys/kernel/", "iommu_groups\nmm")
        self.set("/sys/kernel/iommu_groups/", "0\n1")
        self.set("/sys/module/", "ib_uverbs\nmlx5_ib\nnvidia")
        self.set(f"/lib/modules/{kernel}/", "kernel\nmodules.dep")
        self.set("kernel/module/nvidia-peermem", "updates/dkms/nvidia-peermem.ko.zst")
        self.set("kernel/symbol/ib_register_peer_memory_client", "1")
        self.set("kernel/log", "[    9.120000] mlx5_core 0000:19:00.0: firmware version: 28.42.1000")
        self.set("limits/memlock", "unlimited")
        self.set("limits/memlock/hard", "unlimited")
        self.set("limits/nofile", "65536")
        self.set("limits/nofile/hard", "1048576")
        self.kernel = kernel

    def set(self, name, text):
        self.readings[name] = text

    def drop(self, *prefixes):
        self.readings = {n: t for n, t in self.readings.items() if not n.startswith(prefixes)}

    def line(self, name, text):
        """Adds a line to a folder or a list."""
        lines = self.readings.get(name, "").split("\n") if self.readings.get(name) else []
        self.set(name, "\n".join(lines + [text]))

    def driver(self, version="580.95.05", text=OPEN_DRIVER):
        self.set("/proc/driver/nvidia/version", text.format(version))
        self.set("/sys/module/nvidia/version", version)
        self.set("/proc/driver/nvidia/params", "EnableResizableBar: 0\nGrdmaPciTopoCheckOverride: 0")
        for name, text in (("ended", "ok"), ("library", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"),
                           ("init", "CUDA_SUCCESS"), ("driver_version", "13000"), ("count", str(self.gpus))):
            self.set(f"cuda/{name}", text)

    def peermem(self, version="580.95.05", client="nv_mem"):
        self.set("/sys/module/nvidia_peermem/version", version)
        self.set("/sys/module/nvidia_peermem/parameters/persistent_api_support", "1")
        self.set("/sys/module/nvidia_peermem/parameters/peerdirect_support", "0")
        if client:
            self.set(f"/sys/kernel/mm/memory_peers/{client}/version", version)
        self.set("/etc/modules-load.d/", "nvidia.conf")
        self.set("/etc/modules-load.d/nvidia.conf", "nvidia-peermem")

    def device(self, path, node, bar_bytes=None, vendor="0x15b3", pci_class="0x020700", group="identity"):
        pci = path.rsplit("/", 1)[1]
        self.line(f"{DEVICES}/", pci)
        self.set(f"{DEVICES}/{pci}@", path)
        self.set(f"{DEVICES}/{pci}/vendor", vendor)
        self.set(f"{DEVICES}/{pci}/class", pci_class)
        self.set(f"{DEVICES}/{pci}/numa_node", str(node))
        self.set(f"{DEVICES}/{pci}/config", config_space())
        self.set(f"{DEVICES}/{pci}/iommu_group/", "devices\ntype")
        self.set(f"{DEVICES}/{pci}/iommu_group/type", group)
        if bar_bytes:
            first = 0x2E000000000
            self.set(f"{DEVICES}/{pci}/resource",
                     f"0x00000000e0000000 0x00000000e0ffffff 0x0000000000040200\n"
                     f"0x{first:016x} 0x{first + bar_bytes - 1:016x} 0x000000000014220c\n"
                     "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
                     "0x0000030000000000 0x0000030001ffffff 0x000000000014220c")
        for bridge in path.split("/")[4:-1]:
            self.set(f"{DEVICES}/{bridge}/config", config_space(acs=0x0001))
        return pci

    def gpu(self, path, node=0, name="NVIDIA H100 80GB HBM3", memory=81559 << 20, bar=128 << 30, compute="9.0",
            dma_buf=True):
        n = self.gpus
        self.gpus += 1
        pci = self.device(path, node, bar, "0x10de", "0x030200")
        self.set("cuda/count", str(self.gpus))
        for key, value in (("name", name), ("pci", pci), ("memory", str(memory)), ("compute", compute),
                           ("context", "CUDA_SUCCESS"), ("bar1", f"{bar} 1048576"), ("mig", "0"),
                           ("persistence", "1"), ("ecc_pending", "0")):
            self.set(f"cuda/{n}/{key}", value)
        for attribute, value in ((18, 0), (110, 1), (116, 1), (117, 1), (118, 0), (124, int(dma_buf))):
            self.set(f"cuda/{n}/attribute/{attribute}", str(value))
        plain = "ok" if dma_buf else "cuMemGetHandleForAddressRange CUDA_ERROR_NOT_SUPPORTED"
        pcie = "cuMemGetHandleForAddressRange CUDA_ERROR_NOT_SUPPORTED"
        for kind, value in (("device", plain), ("device_pcie", pcie), ("mapped", plain), ("mapped_plain", plain),
                            ("pool", plain)):
            self.set(f"cuda/{n}/export/{kind}", value)
        for kind, value in (("device", 1), ("mapped", 1), ("mapped_plain", 0), ("pool", 0)):
            self.set(f"cuda/{n}/capable/{kind}", str(value))
        self.set(f"cuda/{n}/virtualization", "0")
        return n

    def adapter(self, name, path, node=0, layer="InfiniBand", rate="400 Gb/sec (4X NDR)", dma_buf="EBADF",
                driver="mlx5_core"):
        n = len(self.adapters)
        self.adapters.append(name)
        self.line(f"{CLASS}/", name)
        self.set(f"{CLASS}/{name}/ports/", "1")
        self.set(f"{CLASS}/{name}/ports/1/state", "4: ACTIVE")
        self.set(f"{CLASS}/{name}/ports/1/link_layer", layer)
        self.set(f"{CLASS}/{name}/ports/1/rate", rate)
        if path:
            self.device(path, node)
            self.set(f"{CLASS}/{name}/device@", path)
            self.set(f"{CLASS}/{name}/device/numa_node", str(node))
            self.set(f"{CLASS}/{name}/device/driver@", f"/sys/bus/pci/drivers/{driver}")
            for key, value in (("current_link_speed", "32.0 GT/s PCIe"), ("max_link_speed", "32.0 GT/s PCIe"),
                               ("current_link_width", "16"), ("max_link_width", "16")):
                self.set(f"{CLASS}/{name}/device/{key}", value)
        else:
            self.set(f"{CLASS}/{name}/parent", "eth0")
        self.line("/dev/infiniband/", f"uverbs{n}")
        self.set(f"/dev/infiniband/uverbs{n}?", "020666 0 0 rw")
        self.set(f"/sys/class/infiniband_verbs/uverbs{n}/ibdev", name)
        self.set("verbs/ended", "ok")
        self.set("verbs/library", "/usr/lib/x86_64-linux-gnu/libibverbs.so.1")
        self.set("verbs/symbol/ibv_reg_dmabuf_mr", "IBVERBS_1.12")
        self.set("verbs/symbol/mlx5dv_reg_dmabuf_mr", "MLX5_1.25")
        self.set("verbs/fork", "disabled")
        self.line("verbs/devices", name)
        self.set(f"verbs/{name}/open", "ok")
        self.set(f"verbs/{name}/limits", "max_mr 16777216\nmax_mr_size 18446744073709551615")
        self.set(f"verbs/{name}/dmabuf", dma_buf)

    def probe(self, **methods):
        """Results of the probe for each pair, by method (dma_buf, peermem): "ok" or "fail ..."."""
        self.set("probe/ended", "ok")
        for gpu in range(self.gpus):
            for number, adapter in enumerate(self.adapters):
                for method, result in methods.items():
                    place = f"probe/{gpu}/{adapter}/{method.replace('_', '-')}"
                    self.drop(f"{place}/")
                    near = gpu == number
                    for size, time in ((67108864, 2900000), (2097152, 310000)):
                        shown = result if result != "ok" else f"ok {time + (0 if near else 250000)}"
                        self.set(f"{place}/{size}", shown)
                    if result == "ok":
                        self.set(f"{place}/relaxed", "ok 2800000")
                        self.set(f"{place}/returned", "ok")

    def write(self, folder):
        lines = [FIRST_LINE, f"# {self.about}"]
        for name in sorted(self.readings, key=lambda n: n.encode()):
            value = self.readings[name]
            lines.append(f"== {name}")
            if isinstance(value, Error):
                lines.append(f"!{value}")
            elif isinstance(value, bytes):
                lines.append(f"!bytes {len(value)}")
                for at in range(0, len(value), 16):
                    part = value[at:at + 16]
                    if any(part):
                        lines.append(f"{at:03x}: " + part.hex(" "))
            elif value:
                lines += [("\\" + text if text[:1] in ("=", "!", "#") else text)
                          for text in value.replace("\\", "\\\\").split("\n")]
        name = self.readings["identity/host"]
        (pathlib.Path(folder) / f"{name}.dump").write_text("\n".join(lines) + "\n", encoding="utf-8")


def switch(root, port, slot):
    """A path below a switch: pciROOT, root port, upstream port, downstream port, device."""
    bus = int(root, 16)
    return (f"/sys/devices/pci0000:{root}/0000:{root}:01.0/0000:{bus + 1:02x}:00.0/0000:{bus + 2:02x}:{port:02x}.0/"
            f"0000:{bus + 3 + slot:02x}:00.0")


def small(name, **arguments):
    """One GPU and one adapter below one switch; peer memory is there, too."""
    host = Host(name, **arguments)
    host.gpu(switch("15", 0, 0))
    host.adapter("mlx5_0", switch("15", 1, 1))
    host.driver()
    host.peermem()
    host.probe(dma_buf="ok", peermem="ok")
    return host


HOSTS = []


def host_of(about, base=small, **arguments):
    """A host of the function's name: the base with the change that the function makes."""

    def add(change):
        def make(name=change.__name__.replace("_", "-")):
            host = base(name, **arguments)
            change(host)
            host.about = about
            return host

        HOSTS.append(make)
        return make

    return add


def without_peermem(host):
    host.drop("/sys/module/nvidia_peermem", "/sys/kernel/mm/memory_peers", "/etc/modules-load.d")


def closed(host):
    host.driver(text=CLOSED_DRIVER)
    for gpu in range(host.gpus):
        host.set(f"cuda/{gpu}/attribute/124", "0")
        for kind in ("device", "device_pcie", "mapped", "mapped_plain", "pool"):
            host.set(f"cuda/{gpu}/export/{kind}", "cuMemGetHandleForAddressRange CUDA_ERROR_NOT_SUPPORTED")


NO_EXPORT = "fail cuMemGetHandleForAddressRange CUDA_ERROR_NOT_SUPPORTED"


@host_of("8 GPUs, 8 adapters, no problem", Host)
def dgx(host):
    roots = ("15", "35", "55", "75", "95", "a5", "c5", "e5")
    for number, root in enumerate(roots):
        host.gpu(switch(root, 0, 0), node=number // 4)
        host.adapter(f"mlx5_{number}", switch(root, 1, 1), node=number // 4)
    host.driver()
    host.peermem()
    host.probe(dma_buf="ok", peermem="ok")
    host.set("command/ompi_info --parsable --all | grep mpi_built_with_cuda_support:value",
             "mca:mpi:base:param:mpi_built_with_cuda_support:value:true")
    host.set("command/ucx_info -v | grep ersion", "# Library version: 1.19.0")
    host.set("command/ucx_info -d | grep cuda", "# Memory domain: cuda_cpy\n#      Transport: cuda_copy")


@host_of("a node with an adapter and no GPU", Host)
def no_gpu(host):
    host.adapter("mlx5_0", switch("15", 1, 1))
    host.set("cuda/ended", "ok")
    host.set("cuda/library", Error("ENOENT libcuda.so.1: cannot open shared object file"))


@host_of("an old kernel without dma-buf registration; nvidia-peermem is not loaded, and cannot be",
         kernel="5.4.0-200-generic")
def peermem_missing(host):
    without_peermem(host)
    host.set("verbs/mlx5_0/dmabuf", "EOPNOTSUPP")
    host.probe(dma_buf="fail ibv_reg_dmabuf_mr EOPNOTSUPP", peermem="fail ibv_reg_mr EFAULT")
    host.drop("verbs/symbol/mlx5dv", "kernel/symbol")


@host_of("dma-buf works, nvidia-peermem is not loaded and cannot be")
def peermem_not_needed(host):
    without_peermem(host)
    host.drop("probe/0/mlx5_0/peermem")
    host.drop("kernel/symbol")


@host_of("nv_peer_mem and nvidia_peermem are both loaded, and neither is registered")
def both_modules(host):
    closed(host)
    host.set("/sys/module/nv_peer_mem/version", "1.3-0")
    host.drop("/sys/kernel/mm/memory_peers")
    host.probe(dma_buf=NO_EXPORT, peermem="fail ibv_reg_mr EFAULT")


@host_of("a driver before 470: nv_peer_mem is its only peer-memory module", kernel="5.4.0-200-generic")
def nv_peer_mem(host):
    closed(host)
    host.driver(version="460.106.00", text=CLOSED_DRIVER)
    without_peermem(host)
    host.drop("kernel/module")
    host.set("/sys/module/nv_peer_mem/version", "1.3-0")
    host.set("/sys/kernel/mm/memory_peers/nv_mem/version", "1.3-0")
    host.probe(dma_buf=NO_EXPORT, peermem="ok")


@host_of("an IOMMU that translates; dma-buf works through it")
def translating_iommu(host):
    host.set("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro intel_iommu=on")
    for pci in host.readings[f"{DEVICES}/"].split("\n"):
        host.set(f"{DEVICES}/{pci}/iommu_group/type", "DMA-FQ")


@host_of("an IOMMU that translates, and peer memory is the only way", translating_iommu)
def translating_iommu_peermem(host):
    closed(host)
    host.probe(dma_buf=NO_EXPORT, peermem="fail ibv_reg_mr EFAULT")


@host_of("the switch's ports redirect peer traffic")
def acs_on(host):
    for bridge in ("0000:17:00.0", "0000:17:01.0"):
        host.set(f"{DEVICES}/{bridge}/config", config_space(acs=0x001D))


@host_of("as acs-on, and the kernel is locked down", acs_on)
def acs_locked(host):
    host.set("/sys/kernel/security/lockdown", "none [integrity] confidentiality")


@host_of("a GPU with 256 MiB of BAR1", Host)
def bar1_256m(host):
    host.gpu(switch("15", 0, 0), name="Tesla T4", memory=15360 << 20, bar=256 << 20, compute="7.5")
    host.adapter("mlx5_0", switch("15", 1, 1), rate="100 Gb/sec (4X EDR)", layer="Ethernet")
    host.driver()
    host.peermem()
    host.probe(dma_buf="ok", peermem="ok")


@host_of("other processes use the GPU's BAR1")
def bar1_full(host):
    host.set("cuda/0/bar1", f"{128 << 30} {120 << 30}")
    host.probe(dma_buf="fail ibv_reg_dmabuf_mr ENOMEM", peermem="fail ibv_reg_mr ENOMEM")


@host_of("the firmware assigned no address to BAR1")
def bar1_unassigned(host):
    pci = host.readings["cuda/0/pci"]
    host.set(f"{DEVICES}/{pci}/resource", "0x00000000e0000000 0x00000000e0ffffff 0x0000000000040200\n"
             f"0x0000000000000000 0x{(128 << 30) - 1:016x} 0x000000002014220c\n"
             "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
             "0x0000030000000000 0x0000030001ffffff 0x000000000014220c")
    host.drop("cuda/0/bar1", "probe/")


@host_of("an integrated GPU: adapters access its host memory", Host, kernel="5.10.104-tegra", machine="aarch64")
def jetson(host):
    host.gpus = 1
    for key, value in (("name", "Orin"), ("pci", "0000:00:00.0"), ("memory", str(30536 << 20)), ("compute", "8.7"),
                       ("context", "CUDA_SUCCESS")):
        host.set(f"cuda/0/{key}", value)
    for attribute, value in ((18, 1), (110, 0), (116, 0), (117, 0), (118, 0), (124, 0)):
        host.set(f"cuda/0/attribute/{attribute}", str(value))
    host.set("cuda/0/export/device", "cuMemGetHandleForAddressRange CUDA_ERROR_NOT_SUPPORTED")
    host.set("cuda/0/capable/device", "0")
    host.adapter("mlx5_0", "/sys/devices/platform/14180000.pcie/pci0005:00/0005:00:00.0/0005:01:00.0")
    host.driver()
    host.set("cuda/driver_version", "11040")
    host.drop("/proc/driver", "/sys/module/nvidia", "/sys/class/dmi", "kernel/")
    host.set("/proc/device-tree/model", "NVIDIA Jetson AGX Orin Developer Kit")
    host.probe(dma_buf=NO_EXPORT, peermem="ok")


@host_of("an integrated GPU, whose CUDA is older than its GPUDirect RDMA", jetson)
def drive_old(host):
    host.set("/proc/device-tree/model", "NVIDIA DRIVE AGX Developer Kit")
    host.set("cuda/driver_version", "10020")
    host.drop("probe/")
    host.set("option/probe", "off")


@host_of("an integrated GPU, and a record in which the probe tried device memory", jetson)
def jetson_device_memory(host):
    host.probe(dma_buf=NO_EXPORT, peermem="fail ibv_reg_mr EFAULT")


@host_of("POWER: the driver has no open kernel modules, and nvidia-peermem is not loaded", Host, kernel="4.18.0-553.el8.ppc64le",
         machine="ppc64le")
def power(host):
    host.gpu(switch("15", 0, 0), name="Tesla V100-SXM2-16GB", memory=16128 << 20, bar=16 << 30, compute="7.0")
    host.adapter("mlx5_0", switch("15", 1, 1), rate="100 Gb/sec (4X EDR)")
    closed(host)
    host.driver(version="535.183.06", text=CLOSED_DRIVER.replace("x86_64", "ppc64le"))
    host.set("cuda/driver_version", "12020")
    host.set("/sys/class/dmi/id/sys_vendor", "IBM")
    host.set("/sys/class/dmi/id/product_name", "8335-GTH")
    without_peermem(host)
    host.probe(dma_buf=NO_EXPORT, peermem="fail ibv_reg_mr EFAULT")
    host.set("command/ucx_info -v | grep ersion", "# Library version: 1.15.0")
    host.set("command/ucx_info -d | grep cuda", "")


@host_of("POWER without a driver", power)
def power_no_driver(host):
    host.drop("cuda/", "probe/", "/proc/driver", "/sys/module/nvidia")
    host.set("cuda/ended", "ok")
    host.set("cuda/library", Error("ENOENT libcuda.so.1: cannot open shared object file"))


@host_of("processes share the GPU through the Multi-Process Service")
def mps(host):
    host.set("/tmp/nvidia-mps/control?", "010666 0 0 rw")


@host_of("adapters with a second function next to the GPU", Host, kernel="6.11.0-1010-nvidia-64k", machine="aarch64")
def data_direct(host):
    host.set("/sys/class/dmi/id/product_name", "GB300 NVL")
    for gpu in range(2):
        host.gpu(f"/sys/devices/pci000{gpu + 8}:00/000{gpu + 8}:00:00.0/000{gpu + 8}:01:00.0", node=gpu,
                 name="NVIDIA GB300", memory=288 << 30, bar=512 << 30, compute="10.3")
        host.adapter(f"mlx5_{gpu}", f"/sys/devices/pci000{gpu * 2}:00/000{gpu * 2}:00:00.0/000{gpu * 2}:03:00.0",
                     node=gpu, rate="800 Gb/sec (4X XDR)")
        host.set(f"verbs/mlx5_{gpu}/dmabuf_data_direct", "EBADF")
        host.set(f"cuda/{gpu}/export/device_pcie", "ok")
    host.driver(text=OPEN_DRIVER.replace("x86_64", "aarch64"))
    host.set("/sys/module/", "mlx5_ib\nnvidia")
    host.probe(dma_buf="ok", data_direct="ok")
    host.drop("kernel/symbol", "probe/0/mlx5_1/data", "probe/1/mlx5_0/data")


@host_of("a container that was given GPUs, but neither /dev/infiniband nor memlock")
def container(host):
    host.set("/.dockerenv?", "100755 0 0 r-")
    host.set("identity/uid", "1000")
    host.set("/proc/self/status", "Name:\tpeerpin-doctor\nCapEff:\t0000000000000000")
    host.set("limits/memlock", "8388608")
    host.set("limits/memlock/hard", "8388608")
    host.drop("/dev/infiniband", "/lib/modules", "kernel/", "/etc/modules-load.d", "probe/", "verbs/mlx5_0",
              "/proc/sys")
    for name in list(host.readings):
        if name.endswith("/config"):
            host.set(name, host.readings[name][:64])
    host.set("verbs/mlx5_0/open", Error("ENOENT"))
    host.set("probe/ended", "ok")


@host_of("the only adapter is Soft-RoCE", Host)
def soft_roce(host):
    host.gpu("/sys/devices/pci0000:00/0000:00:04.0", bar=32 << 30, name="NVIDIA L4", memory=23034 << 20)
    host.adapter("rxe0", None, layer="Ethernet", rate="10 Gb/sec (1X)", dma_buf="EOPNOTSUPP")
    host.driver()
    host.probe(dma_buf="fail ibv_reg_dmabuf_mr EOPNOTSUPP", peermem="fail ibv_reg_mr EFAULT")
    host.set("/sys/kernel/iommu_groups/", "")


@host_of("Soft-RoCE stands before an adapter whose kernel driver has no dma-buf registration",
         Host, kernel="5.4.0-200-generic")
def software_first(host):
    host.gpu(switch("15", 0, 0))
    host.adapter("rxe0", None, layer="Ethernet", rate="10 Gb/sec (1X)", dma_buf="EOPNOTSUPP")
    host.adapter("mlx5_0", switch("15", 1, 1), dma_buf="EOPNOTSUPP")
    host.driver()
    host.probe(dma_buf="fail ibv_reg_dmabuf_mr EOPNOTSUPP", peermem="fail ibv_reg_mr EFAULT")


@host_of("the proprietary kernel module: peer memory works")
def proprietary(host):
    closed(host)
    host.probe(dma_buf=NO_EXPORT, peermem="ok")
    host.drop("/etc/modules-load.d")


@host_of("nvidia_peermem refuses the GPU's pages, and the kernel's log says so", proprietary)
def kernel_log(host):
    host.probe(dma_buf=NO_EXPORT, peermem="fail ibv_reg_mr EINVAL")
    for line in ("[   71.200000] nvidia-peermem nv_dma_map:214 nv_dma_map -- assumption of 64KB pages failed size_id=0",
                 "[   71.200004] infiniband mlx5_0: ib_umem_get: umem get failed (-22)",
                 "[   80.000000] nvidia-peermem nv_dma_map:214 nv_dma_map -- assumption of 64KB pages failed size_id=2"):
        host.line("kernel/log", line)


@host_of("a user who may not read the configuration space")
def no_root(host):
    host.set("identity/uid", "1000")
    host.set("/proc/self/status", "Name:\tpeerpin-doctor\nCapEff:\t0000000000000000")
    host.set("kernel/log", Error("EPERM"))
    for name in list(host.readings):
        if name.endswith("/config"):
            host.set(name, host.readings[name][:64])


@host_of("/sys cannot be read")
def unreadable_sysfs(host):
    host.drop("/sys/", "verbs/", "probe/", "/dev/infiniband", "/lib/modules", "kernel/", "limits/", "/proc/self")
    for name in ("/sys/module/", "/sys/kernel/", "/sys/kernel/iommu_groups/", f"{DEVICES}/", f"{CLASS}/",
                 f"{DEVICES}/0000:18:00.0@", f"{DEVICES}/0000:18:00.0/numa_node",
                 f"{DEVICES}/0000:18:00.0/resource", f"{DEVICES}/0000:18:00.0/config"):
        host.set(name, Error("EACCES"))
    host.set("/etc/ld.so.preload", Error("EACCES"))
    host.drop("cuda/0/bar1", "cuda/0/mig", "cuda/0/persistence", "cuda/0/export")


@host_of("a GPU and no adapter", Host)
def no_adapter(host):
    host.gpu(switch("15", 0, 0))
    host.driver()
    host.set("verbs/ended", "ok")
    host.set("verbs/library", Error("ENOENT libibverbs.so.1: cannot open shared object file"))


@host_of("a GPU whose driver is not installed", Host)
def no_driver(host):
    host.gpu(switch("15", 0, 0))
    host.adapter("mlx5_0", switch("15", 1, 1))
    host.drop("cuda/")
    host.set("cuda/ended", "ok")
    host.set("cuda/library", Error("ENOENT libcuda.so.1: cannot open shared object file"))


@host_of("a kernel and a libibverbs older than dma-buf registration: peer memory works; variables against it",
         kernel="5.10.0-30-amd64")
def old_kernel(host):
    host.set("verbs/mlx5_0/dmabuf", "EOPNOTSUPP")
    host.drop("verbs/symbol")
    host.probe(dma_buf="fail ibv_reg_dmabuf_mr EOPNOTSUPP", peermem="ok")
    host.set("environment/PYTORCH_ALLOC_CONF", "expandable_segments:True")
    host.set("environment/NCCL_NET_GDR_LEVEL", "0")


@host_of("as old-kernel, without variables", old_kernel)
def peer_memory_alone(host):
    host.drop("environment/")


@host_of("nvidia_peermem in its callback mode", peer_memory_alone)
def callback_mode(host):
    host.set("/sys/module/nvidia_peermem/parameters/persistent_api_support", "0")
    host.set("/sys/kernel/mm/memory_peers/nv_mem_nc/version", "580.95.05")


@host_of("a driver without the persistent interface, whose free callback races with a deregistration",
         peer_memory_alone)
def callback_race(host):
    host.driver(version="525.60.13")
    host.peermem(version="525.60.13")
    host.drop("/sys/module/nvidia_peermem/parameters")
    host.set("/sys/kernel/mm/memory_peers/nv_mem_nc/version", "525.60.13")


@host_of("nvidia_peermem of another driver, not registered with the RDMA stack")
def peermem_unregistered(host):
    host.peermem(version="570.10", client=None)
    host.drop("/sys/kernel/mm/memory_peers")
    closed(host)
    host.probe(dma_buf=NO_EXPORT, peermem="fail ibv_reg_mr EFAULT")


@host_of("Windows below: a GeForce, and no adapter", Host, kernel="5.15.167.4-microsoft-standard-WSL2")
def wsl2(host):
    host.gpu("/sys/devices/pci0000:00/0000:00:04.0", name="NVIDIA GeForce RTX 4090", memory=24564 << 20,
             bar=256 << 20, compute="8.9", dma_buf=False)
    host.driver()
    host.drop(f"{DEVICES}/", "/proc/driver", "/sys/module/nvidia", "/lib/modules", "kernel/", "cuda/0/export", "cuda/0/bar1")
    host.set("/sys/bus/pci/devices/", "0000:00:00.0")
    host.set("cuda/0/attribute/116", "0")
    host.drop("/sys/class/dmi", "/sys/kernel/security")
    host.set("/proc/version", "Linux version 5.15.167.4-microsoft-standard-WSL2 (root@f9c826d3017f)")


@host_of("it works, and much of it is badly set", Host)
def misconfigured(host):
    host.gpu(switch("15", 0, 0), node=0)
    host.gpu(switch("95", 0, 0), node=1)
    host.adapter("mlx5_0", switch("15", 1, 1), node=0)
    host.adapter("mlx5_1", switch("95", 1, 1), node=1)
    host.driver()
    host.probe(dma_buf="ok")
    host.set(f"{CLASS}/mlx5_1/ports/1/state", "1: DOWN")
    host.set(f"{CLASS}/mlx5_0/device/current_link_width", "8")
    host.set("cuda/0/persistence", "0")
    host.set("/dev/infiniband/uverbs1?", "020600 0 0 --")
    host.set("verbs/mlx5_1/open", Error("EACCES ibv_open_device"))
    host.drop("verbs/mlx5_1/limits", "verbs/mlx5_1/dmabuf", "probe/0/mlx5_1", "probe/1/mlx5_1")
    host.set("/proc/driver/nvidia/params", "EnableResizableBar: 1\nGrdmaPciTopoCheckOverride: 0")
    host.set("/sys/kernel/security/lockdown", "none [integrity] confidentiality")
    host.set("/proc/self/cgroup", "0::/system.slice/job_7")
    host.set("/sys/fs/cgroup/system.slice/job_7/rdma.max", "mlx5_0 hca_handle=2 hca_object=2000")
    host.set("limits/nofile", "256")
    host.set("environment/LD_PRELOAD", "/usr/lib/libvgpu.so /opt/site/libtrace.so")
    host.set("environment/UCX_IB_GPU_DIRECT_RDMA", "no")
    host.set("environment/PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    host.set("command/ompi_info --parsable --all | grep mpi_built_with_cuda_support:value",
             "mca:mpi:base:param:mpi_built_with_cuda_support:value:false")
    host.set("command/ucx_info -v | grep ersion", "# Library version: 1.12.1")
    host.set("command/ucx_info -d | grep cuda", "")


@host_of("a UCX that cannot patch the functions of its driver")
def ucx_unhooked(host):
    host.set("command/ucx_info -v | grep ersion", "# Version 1.13.1")
    host.set("command/ucx_info -d | grep cuda", "# Memory domain: cuda_cpy\n#      Transport: cuda_copy")
    host.set("environment/UCX_MEM_CUDA_HOOK_MODE", "bistro")


@host_of("the second GPU's path to the only adapter crosses the sockets and is refused", Host)
def one_of_two(host):
    host.gpu(switch("15", 0, 0), node=0)
    host.gpu(switch("95", 0, 0), node=1)
    host.adapter("mlx5_0", switch("15", 1, 1), node=0)
    host.driver()
    host.probe(dma_buf="ok")
    for size in (2097152, 67108864):
        host.set(f"probe/1/mlx5_0/dma-buf/{size}", "fail ibv_reg_dmabuf_mr ENOTSUPP")
        host.set(f"probe/1/mlx5_0/peermem/{size}", "fail ibv_reg_mr EFAULT")
    host.set("probe/0/mlx5_0/dma-buf/returned", "lost 2097152")
    host.drop("probe/1/mlx5_0/dma-buf/re")


@host_of("driver and adapter report support, and nothing was registered")
def not_probed(host):
    host.drop("probe/")
    host.set("option/probe", "off")


@host_of("readings that speak against GPUDirect RDMA, and nothing was registered", not_probed)
def claimed(host):
    host.set("/proc/driver/nvidia/params", "EnableResizableBar: 0\nGrdmaPciTopoCheckOverride: 2")
    host.set("cuda/0/mig", "1")
    host.set("cuda/0/virtualization", "2")
    host.set("cuda/0/capable/device", "0")
    host.set("cuda/0/capable/mapped", "0")
    host.set("cuda/0/export/mapped", "cuMemGetHandleForAddressRange CUDA_ERROR_NOT_SUPPORTED")


@host_of("as claimed, and the probe registered memory", claimed)
def claims_refuted(host):
    host.drop("option/probe")
    host.set("cuda/0/export/mapped", "ok")
    host.probe(dma_buf="ok", peermem="ok")


@host_of("the adapter's device has mode 0666, and its cgroup denies it")
def cgroup_denies(host):
    host.drop("probe/", "verbs/mlx5_0/")
    host.set("verbs/mlx5_0/open", Error("EPERM ibv_open_device"))


@host_of("the memlock limit is unlimited, and host memory cannot be registered")
def host_memory_refused(host):
    host.set("verbs/mlx5_0/host", Error("ENOMEM ibv_reg_mr"))


@host_of("root of a user namespace only, and nothing could be asked of the adapter")
def user_namespace(host):
    without_peermem(host)
    host.drop("probe/", "verbs/")
    host.set("/run/.containerenv?", "100644 0 0 r-")
    host.set("/proc/self/uid_map", "         0       1000          1")
    host.set("limits/memlock", "8388608")
    host.set("limits/memlock/hard", "8388608")
    host.set("environment/LD_PRELOAD", "/opt/site/libtrace.so")


@host_of("a user whose soft limits are below the hard ones, which are too low as well")
def soft_limits(host):
    host.set("identity/uid", "1000")
    host.set("/proc/self/status", "Name:\tpeerpin-doctor\nCapEff:\t0000000000000000")
    host.set("limits/memlock", "65536")
    host.set("limits/memlock/hard", "8388608")
    host.set("limits/nofile", "256")
    host.set("limits/nofile/hard", "512")


@host_of("one GPU, and an adapter at each distance but the shortest", Host)
def distances(host):
    host.gpu(switch("15", 0, 0))
    bridge = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:20:00.0/0000:21:00.0"
    host.adapter("mlx5_0", bridge.replace("0000:20:00.0/0000:21:00.0", "0000:20:00.0/0000:21:00.0/0000:22:00.0"))
    host.adapter("mlx5_1", "/sys/devices/pci0000:15/0000:15:03.0/0000:40:00.0")
    host.adapter("mlx5_2", switch("55", 1, 1))
    host.adapter("mlx5_3", switch("95", 1, 1), node=1)
    host.driver()
    host.probe(dma_buf="ok")


@host_of("an adapter behind the GPU's host bridge, whose provider has private data", Host)
def host_bridge(host):
    host.gpu(switch("15", 0, 0))
    host.adapter("irdma0", "/sys/devices/pci0000:15/0000:15:03.0/0000:40:00.0", layer="Ethernet", driver="ice",
                 rate="100 Gb/sec (4X EDR)")
    host.driver()
    host.probe(dma_buf="ok")


@host_of("an adapter behind another root complex of an ARM64 machine; nothing was registered", Host, machine="aarch64")
def root_complexes(host):
    host.gpu(switch("15", 0, 0))
    host.adapter("mlx5_0", switch("55", 1, 1))
    host.driver(text=OPEN_DRIVER.replace("x86_64", "aarch64"))
    host.set("option/probe", "off")


@host_of("data was sent: it does not arrive by one adapter, and does by the other")
def deep(host):
    host.adapter("mlx5_1", switch("15", 2, 2))
    host.probe(dma_buf="ok")
    host.set("option/deep", "on")
    host.set("probe/0/mlx5_0/dma-buf/transfer", "fail 4096 of 65536 bytes differ")
    host.set("probe/0/mlx5_1/dma-buf/transfer", "ok")
    host.set("probe/0/mlx5_1/dma-buf/copies", "ok 4 0 4")
    for size, cost in ((1 << 16, "20000 90000 40000"), (1 << 20, "20000 110000 50000"), (1 << 24, "30000 410000 110000")):
        host.set(f"probe/0/mlx5_1/dma-buf/cost/{size}", f"ok {cost}")


@host_of("an adapter reads old data behind a copy, once with SYNC_MEMOPS")
def deep_copies(host):
    host.set("option/deep", "on")
    host.set("probe/0/mlx5_0/dma-buf/transfer", "ok")
    host.set("probe/0/mlx5_0/dma-buf/copies", "ok 4 1 4")
    for size, cost in ((1 << 16, "20000 90000 40000"), (1 << 20, "20000 110000 50000"), (1 << 24, "30000 410000 110000"),
                       (1 << 28, "90000 1630000 520000"), (1 << 30, "300000 6100000 1900000")):
        host.set(f"probe/0/mlx5_0/dma-buf/cost/{size}", f"ok {cost}")


@host_of("memory is registered, and data does not arrive")
def deep_fails(host):
    host.set("option/deep", "on")
    host.set("probe/0/mlx5_0/dma-buf/transfer", "fail 4096 of 65536 bytes differ")
    host.set("probe/0/mlx5_0/peermem/transfer", "fail 4096 of 65536 bytes differ")


@host_of("the CUDA driver crashes, and libibverbs hangs")
def crashed(host):
    host.drop("cuda/", "probe/", "verbs/")
    host.set("cuda/ended", "signal 11 in cuInit")
    host.set("verbs/ended", "timeout 10 in ibv_open_device mlx5_0")
    host.set("probe/ended", "ok")


@host_of("the driver crashes with the only GPU, and libibverbs hangs with the only adapter")
def parts_crashed(host):
    host.drop("cuda/0/export", "cuda/0/capable", "verbs/mlx5_0/", "probe/")
    host.set("cuda/0/ended", "signal 11 in cuMemAlloc")
    host.set("verbs/mlx5_0/ended", "timeout 10 in ibv_open_device mlx5_0")
    host.set("probe/ended", "ok")


def program(name, about, **readings):
    host = small(name)
    host.about = about
    host.set("option/program", "./app")
    for key, value in {"path": "/home/user/app", "kind": "elf", "class": "64", "machine": "x86_64",
                       "loader": "/lib64/ld-linux-x86-64.so.2", "privilege": "none", "glibc": "2.34",
                       "needed": "libmpi.so.40\nlibcudart.so.13\nlibc.so.6"}.items():
        host.set(f"program/{key}", value)
    for key, value in readings.items():
        host.set(f"program/{key}", value)
        if value is None:
            host.drop(f"program/{key}")
    return host


@host_of("statistics of a job, and the ranks that fit")
def job_fits(host):
    host.set("job/processes", "4")
    host.set("job/bytes", str(2 << 30))
    host.set("job/regions", "300")


@host_of("statistics of a job, and the ranks that fit", job_fits)
def job_too_large(host):
    host.set("job/bytes", str(200 << 30))
    host.set("job/regions", "20000000")


def programs():
    yield program("program-good", "an MPI program")
    yield program("program-silent", "a program that loads libraries with RTLD_DEEPBIND, and of which one is missing",
                  missing="libmpi.so.40", needed="libmpi.so.40\nlibc.so.6", deepbind="1")
    host = program("program-preloads-driver", "a program with the CUDA driver in LD_PRELOAD",
                          needed="libcuda.so.1\nlibc.so.6")
    host.set("environment/LD_PRELOAD", "/usr/lib/x86_64-linux-gnu/libcuda.so.1")
    yield host
    yield program("program-static", "a static program", loader=None, needed=None)
    yield program("program-setuid", "a setuid program", privilege="setuid")
    yield program("program-musl", "a program of musl", loader="/lib/ld-musl-x86_64.so.1")
    yield program("program-32", "a program of 32 bits", **{"class": "32", "machine": "i386"})
    yield program("program-script", "a script", kind="script", interpreter_line="/usr/bin/env python3", needed="libc.so.6")
    yield program("program-newer", "a program that was built against a newer glibc", glibc="2.41")
    host = program("program-unproved", "a static program, on a host where nothing was registered", loader=None, needed=None)
    host.drop("probe/")
    host.set("option/probe", "off")
    yield host
    host = program("program-missing", "a program that is not there")
    host.drop("program/")
    host.set("program/path", Error("ENOENT"))
    yield host


@host_of("memory is registered with each adapter, and no port is active", Host)
def ports_down(host):
    for number, root in enumerate(("15", "95")):
        host.gpu(switch(root, 0, 0), node=number)
        host.adapter(f"mlx5_{number}", switch(root, 1, 1), node=number)
        host.set(f"{CLASS}/mlx5_{number}/ports/1/state", "1: DOWN")
    host.driver()
    host.peermem()
    host.probe(dma_buf="ok", peermem="ok")


@host_of("memory is registered, and the state of the only port cannot be read")
def port_unreadable(host):
    host.set(f"{CLASS}/mlx5_0/ports/1/state", Error("EACCES"))


@host_of("as peermem-missing, and /proc/kallsyms cannot be read", peermem_missing)
def kallsyms_unreadable(host):
    host.set("kernel/symbol/ib_register_peer_memory_client", Error("EACCES"))


@host_of("an IOMMU is on, and what it does with the GPU and the adapter cannot be read")
def iommu_unreadable(host):
    for pci in host.readings[f"{DEVICES}/"].split("\n"):
        host.set(f"{DEVICES}/{pci}/iommu_group/", Error("EACCES"))
        host.set(f"{DEVICES}/{pci}/iommu_group/type", Error("EACCES"))


@host_of("a virtual GPU, an adapter with few registrations, a cgroup that is limited further up")
def virtual(host):
    host.set("cuda/0/name", "NVIDIA H100-80C")
    host.set("cuda/0/virtualization", "2")
    host.set("cuda/0/capable/mapped", "0")
    for attribute in (110, 117, 118):
        host.set(f"cuda/0/attribute/{attribute}", "0")
    host.set("/proc/self/cgroup", "0::/slurm/job_7/step_0")
    host.set("/sys/fs/cgroup/slurm/job_7/rdma.max", "mlx5_0 hca_handle=2 hca_object=2000")
    host.set("verbs/mlx5_0/limits", "max_mr 8192\nmax_mr_size 1073741824")


@host_of("RDMA devices belong to one network namespace each, and none to this one", Host)
def namespaces(host):
    host.gpu(switch("15", 0, 0))
    host.driver()
    host.set(f"{CLASS}/", "")
    host.set("/sys/module/ib_core/parameters/netns_mode", "N")
    host.set("verbs/ended", "ok")
    host.set("verbs/library", "/usr/lib/x86_64-linux-gnu/libibverbs.so.1")
    host.set("verbs/devices", "")


@host_of("a GPU of compute capability 10 with peer memory alone, and nothing registered")
def compute_10(host):
    host.set("cuda/0/name", "NVIDIA B200")
    host.set("cuda/0/compute", "10.0")
    closed(host)
    host.drop("probe/")
    host.set("option/probe", "off")


@host_of("the proprietary module, an old libibverbs, and no nvidia-peermem for this kernel")
def not_installed(host):
    closed(host)
    without_peermem(host)
    host.drop("kernel/module", "verbs/symbol")
    host.probe(dma_buf=NO_EXPORT, peermem="fail ibv_reg_mr EFAULT")


def main():
    for host in [make() for make in HOSTS] + list(programs()):
        host.write(sys.argv[1])


if __name__ == "__main__":
    main()
