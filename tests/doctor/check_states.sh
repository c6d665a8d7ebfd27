#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_states.sh -- findings and fixes of peerpin doctor over test hosts in which one reading changes: versions,
# variables, measurements, limits
set -u
folder=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/launcher/checks
. "$folder/../launcher/checks"
doctor=$PWD/src/tools/peerpin-doctor
[ -x "$doctor" ] || exit 77
python=$(command -v python3) || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
generated=$work
unset NO_COLOR PEERPIN_SYSROOT LD_PRELOAD
same 'make_hosts.py generates hosts' '' "$("$python" "$folder/make_hosts.py" "$generated" 2>&1)"

# ---- versions of UCX and of the driver ----
# hooks UCX-LINE DRIVER MACHINE MODE: "unhooked" if the doctor reports that this UCX cannot hook this driver
hooks() {
	sed -e "s/^.# Version 1.13.1$/\\\\$1/; s/^580.95.05$/$2/; s/^x86_64$/$3/; s/^bistro$/$4/" "$generated/ucx-unhooked.dump" >"$work/hooks.dump"
	"$doctor" --only software --from "$work/hooks.dump" | grep -q 'cannot hook this driver' && echo unhooked || echo hooked
}
while read -r wanted version driver machine mode; do
	same "UCX $version, driver $driver, $machine, $mode" "$wanted" "$(hooks "# Library version: $version" "$driver" "$machine" "$mode")"
done <<-'TEXT'
	hooked 1.13.0 580.95.05 x86_64 bistro
	unhooked 1.13.1 580.95.05 x86_64 bistro
	unhooked 1.17.0 575.51.03 x86_64 bistro
	unhooked 1.18.0 580.95.05 x86_64 BISTRO
	hooked 1.18.1 580.95.05 x86_64 bistro
	hooked 1.20.0 595.45.04 x86_64 bistro
	hooked 1.18.0 570.124.06 x86_64 bistro
	hooked 1.18.0 580.95.05 aarch64 bistro
	hooked 1.18.0 580.95.05 x86_64 reloc
	hooked nothing 580.95.05 x86_64 bistro
TEXT
same 'the line of UCX 1.13' unhooked "$(hooks '# Version 1.13.1' 580.95.05 x86_64 bistro)"
# raced DRIVER MODE: the driver to update to
raced() {
	sed "s/^525.60.13$/$1/; 1a== /sys/module/nvidia_peermem/parameters/persistent_api_support\n$2" "$generated/callback-race.dump" >"$work/raced.dump"
	"$doctor" --only peermem-mode --from "$work/raced.dump" | sed -n 's/^fix .*NVIDIA driver //p'
}
while read -r driver mode wanted; do
	same "nvidia_peermem of driver $driver, mode $mode" "$wanted" "$(raced "$driver" "$mode")"
done <<-'TEXT'
	510.108.03 !ENOENT
	515.43.04 !ENOENT 525.105.17
	525.105.16 !ENOENT 525.105.17
	525.105.17 0
	530.30.02 !ENOENT 535.129.03
	535.43.02 0 535.129.03
	535.43.02 1
	535.129.03 0
	545.23.06 0 550.40.07
	550.40.07 0
	580.95.05 0
TEXT

# ---- variables ----
# variable HOST NAME=VALUE: "warns" if the doctor warns of this variable on the host
variable() {
	{ cat "$generated/$1.dump"; printf '== environment/%s\n%s\n' "${2%%=*}" "${2#*=}"; } >"$work/variable.dump"
	"$doctor" --only software --from "$work/variable.dump" >"$work/variable"
	grep '^WARN  software ' "$work/variable" | grep -qF "$2: " && echo warns && return
	grep -q "^OK    software .*${2%%=*}=" "$work/variable" && echo 'shows it'
}
# Hosts: dgx has both methods and pairs of distance PIX, peer-memory-alone peer memory,
# peermem-not-needed dma-buf alone; distances has a pair of PXB, one-of-two a pair of SYS.
tested=
while read -r host wanted words; do
	for word in $words; do
		same "$host with $word" "${wanted/shows/shows it}" "$(variable "$host" "$word")"
		tested+="$wanted $word"$'\n'
	done
done <<-'TEXT'
	dgx warns UCX_IB_GPU_DIRECT_RDMA=n UCX_IB_GPU_DIRECT_RDMA=No UCX_IB_GPU_DIRECT_RDMA=off UCX_MEM_CUDA_HOOK_MODE=none
	dgx shows UCX_IB_GPU_DIRECT_RDMA=try UCX_IB_GPU_DIRECT_RDMA=y UCX_MEM_CUDA_HOOK_MODE=reloc UCX_MEM_EVENTS=n UCX_MEMTYPE_CACHE=n UCX_RCACHE_ENABLE=n UCX_IB_REG_METHODS=direct
	dgx warns UCX_TLS=rc,sm UCX_TLS=tcp,cuda_copy UCX_TLS=^cuda UCX_TLS=self,^ib UCX_TLS=^sm,ib
	dgx shows UCX_TLS=all UCX_TLS=rc,cuda UCX_TLS=dc_x,self,cuda_copy UCX_TLS=\\rc_mlx5,cuda_copy UCX_TLS=ib,cuda UCX_TLS=^cuda_ipc UCX_TLS=^tcp
	dgx warns UCX_NET_DEVICES=eth0 UCX_NET_DEVICES=mlx4_0:1,eth0 NCCL_IB_HCA=mlx4 NCCL_IB_HCA==mlx4_0:1
	dgx shows UCX_NET_DEVICES=all UCX_NET_DEVICES=mlx5_0:1 UCX_NET_DEVICES=eth0,mlx5_7:1 UCX_NET_DEVICES=^eth0 NCCL_IB_HCA=mlx5 NCCL_IB_HCA==mlx5_3:1 NCCL_IB_HCA=^mlx4
	dgx warns NCCL_NET_GDR_LEVEL=LOC NCCL_NET_GDR_LEVEL=0 NCCL_NET_GDR_LEVEL=NVL NCCL_IB_GDR_LEVEL=LOC NCCL_IB_GDR_LEVEL=0
	dgx shows NCCL_NET_GDR_LEVEL=PIX NCCL_NET_GDR_LEVEL=1 NCCL_NET_GDR_LEVEL=SYS NCCL_NET_GDR_LEVEL=9 NCCL_NET_GDR_LEVEL=loc NCCL_IB_GDR_LEVEL=SYS NCCL_IB_GDR_LEVEL=4
	distances warns NCCL_NET_GDR_LEVEL=PIX NCCL_NET_GDR_LEVEL=1
	distances shows NCCL_NET_GDR_LEVEL=PXB NCCL_NET_GDR_LEVEL=2
	one-of-two warns NCCL_NET_GDR_LEVEL=PHB NCCL_NET_GDR_LEVEL=3
	one-of-two shows NCCL_NET_GDR_LEVEL=SYS NCCL_NET_GDR_LEVEL=4 NCCL_NET_GDR_LEVEL=5
	dgx warns NCCL_IB_CUDA_SUPPORT=0 NCCL_NET_GDR_READ=0 NCCL_NET_GDR_READ=0x0 NCCL_NET=Socket NCCL_NET=socket NCCL_IB_DISABLE=1 NCCL_IB_DISABLE=2
	dgx shows NCCL_IB_CUDA_SUPPORT=1 NCCL_NET_GDR_READ=1 NCCL_NET=IB NCCL_NET_PLUGIN=none NCCL_IB_DISABLE=0 NCCL_IB_DISABLE=yes NCCL_NET_GDR_C2C=0 NCCL_IB_DATA_DIRECT=0
	peermem-not-needed warns NCCL_DMABUF_ENABLE=0 UCX_CUDA_COPY_DMABUF=no NVSHMEM_IB_DISABLE_DMABUF=1 FI_HMEM_CUDA_USE_DMABUF=false
	peermem-not-needed shows NCCL_DMABUF_ENABLE=1 UCX_CUDA_COPY_DMABUF=try NVSHMEM_IB_DISABLE_DMABUF=0 FI_HMEM_CUDA_USE_DMABUF=1
	dgx shows NCCL_DMABUF_ENABLE=0 UCX_CUDA_COPY_DMABUF=no NVSHMEM_IB_DISABLE_DMABUF=1 FI_HMEM_CUDA_USE_DMABUF=0
	dgx warns NVSHMEM_REMOTE_TRANSPORT=none FI_PROVIDER=tcp FI_PROVIDER=tcp;ofi_rxm FI_PROVIDER=shm,sockets FI_HMEM_DISABLE_P2P=1
	dgx shows NVSHMEM_REMOTE_TRANSPORT=ibrc FI_PROVIDER=verbs FI_PROVIDER=verbs;ofi_rxm FI_PROVIDER=tcp,verbs FI_PROVIDER=^tcp FI_HMEM_DISABLE_P2P=no FI_HMEM=cuda FI_HMEM_CUDA_USE_GDRCOPY=0
	misconfigured warns OMPI_MCA_opal_cuda_support=false OMPI_MCA_mpi_cuda_support=0
	dgx shows OMPI_MCA_opal_cuda_support=false OMPI_MCA_opal_cuda_support=1 OMPI_MCA_mpi_cuda_support=0 OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self
	dgx warns MPIR_CVAR_ENABLE_GPU=0 MPICH_GPU_SUPPORT_ENABLED=0 MV2_USE_CUDA=0 MV2_USE_GPUDIRECT_RDMA=0 MV2_USE_GPUDIRECT=0
	dgx shows MPIR_CVAR_ENABLE_GPU=1 MPICH_GPU_SUPPORT_ENABLED=1 MV2_USE_CUDA=1 MV2_USE_GPUDIRECT_RDMA=1 MV2_USE_GPUDIRECT=1
	peer-memory-alone warns PYTORCH_ALLOC_CONF=expandable_segments:True PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64,expandable_segments:True PYTORCH_ALLOC_CONF=backend:cudaMallocAsync PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync
	peer-memory-alone shows PYTORCH_ALLOC_CONF=expandable_segments:False PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False PYTORCH_CUDA_ALLOC_CONF=backend:native
	dgx shows PYTORCH_ALLOC_CONF=expandable_segments:True PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
	dgx warns PEERPIN_DISABLE=1 PEERPIN_DISABLE=yes
	dgx shows PEERPIN_DISABLE=no CUDA_VISIBLE_DEVICES=0 RDMAV_FORK_SAFE=1 IBV_FORK_SAFE=1
TEXT
table=$folder/../../src/tools/doctor/checks_settings.c
for wanted in warns shows; do
	same "each variable of the table $wanted, and none beside it" \
		"$(sed -n "s/^\t\([A-Z_]*\)(\"\([A-Za-z0-9_]*\)\".*/\1 \2/p" "$table" |
			if [ $wanted = shows ]; then cat; else grep -v ^SHOWN; fi | cut -d' ' -f2 | sort -u)" \
		"$(sed -n "s/^$wanted \([^=]*\)=.*/\1/p" <<<"$tested" | sort -u)"
done
same 'PyTorch with blanks' warns "$(variable peer-memory-alone 'PYTORCH_ALLOC_CONF=max_split_size_mb:64, expandable_segments: True')"

# ---- a measurement outranks what readings imply ----
# with HOST READING VALUE: a dump of the host with this value; the first record of a name counts
with() {
	head -n 1 "$generated/$1.dump"
	printf '== %s\n%b\n' "$2" "$3"
	tail -n +2 "$generated/$1.dump"
}
# sign CHECK: the sign of this check on the dump
sign() {
	"$doctor" --only "$1" --from "$work/claim.dump" | sed -n "s/^\([A-Z?-]*\)  *$1 .*/\1/p"
}
# Each reading speaks against a method or a part. Measured: on small hosts, the probe registered by both methods (OK) or
# nothing was registered.
closed='NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05'
refused='cuMemGetHandleForAddressRange CUDA_ERROR_NOT_SUPPORTED'
while IFS='|' read -r check reading value; do
	for host in program-good not-probed; do
		with $host "$reading" "$value" >"$work/claim.dump"
		found=$(sign "$check")
		[ $host = program-good ] && wanted=OK || wanted='[A-Z?-]*'
		[ $host = not-probed ] && [ "$found" = OK ] && wanted='another verdict'
		matches "$check on $host with $reading" "$wanted" "$found"
	done
done <<-TEXT
	driver|identity/kernel|4.18.0-553.el8_10.x86_64
	driver|/proc/driver/nvidia/version|$closed
	peermem|/sys/module/nvidia_peermem/version|570.10
	peermem|/sys/module/nv_peer_mem/version|1.3-0
	peermem|/sys/kernel/mm/memory_peers/nv_mem/version|!ENOENT
	peer-mapping|/proc/driver/nvidia/params|GrdmaPciTopoCheckOverride: 2
	platform|/proc/version|Linux version 5.15.167.4-microsoft-standard-WSL2
	platform|/dev/tdx_guest?|020600 0 0 --
	platform|cuda/0/virtualization|2
	platform|identity/machine|aarch64
	platform|identity/machine|ppc64le
	gpu|cuda/0/attribute/116|0\\n== cuda/0/attribute/124\\n0
	gpu-mode|cuda/0/mig|1
	export|cuda/0/export/device|$refused
	export|cuda/0/capable/device|0
	dma-buf|verbs/mlx5_0/dmabuf|EOPNOTSUPP
	dma-buf|verbs/mlx5_0/dmabuf|EIO
	verbs|verbs/symbol/ibv_reg_dmabuf_mr|!ENOENT
	provider|/sys/class/infiniband/mlx5_0/parent|eth0
TEXT
while IFS='|' read -r wanted check host reading value; do
	with "$host" "$reading" "$value" >"$work/claim.dump"
	same "a measurement of its own GPU, adapter and method alone: $check on $host with $reading" "$wanted" "$(sign "$check")"
done <<-'TEXT'
	OK|gpu-mode|one-of-two|cuda/0/mig|1
	WARN|gpu-mode|one-of-two|cuda/1/mig|1
	WARN|provider|dgx|/sys/class/infiniband/mlx5_0/device/driver@|/sys/bus/pci/drivers/i40e
	WARN|provider|dgx|/sys/class/infiniband/mlx5_0/device/driver@|/sys/bus/pci/drivers/ib_mthca
	OK|provider|dgx|/sys/class/infiniband/mlx5_0/device/driver@|/sys/bus/pci/drivers/bnxt_en
	OK|provider|misconfigured|/sys/class/infiniband/mlx5_0/parent|eth0
	WARN|provider|misconfigured|/sys/class/infiniband/mlx5_1/parent|eth1
	OK|peermem|program-good|/sys/module/nv_peer_mem/version|1.3-0
	WARN|peermem|peermem-not-needed|/sys/module/nv_peer_mem/version|1.3-0
	OK|peermem|peermem-not-needed|/sys/module/nv_peer_mem/version|1.3-0\n== /sys/module/nvidia/version\n460.106.00\n== /sys/kernel/mm/memory_peers/nv_mem/version\n1.0
TEXT
while IFS='|' read -r wanted reading value; do
	with proprietary "$reading" "$value" >"$work/claim.dump"
	same "boot: $reading $value" "$wanted" "$(sign peermem-install)"
done <<-'TEXT'
	WARN|a|b
	WARN|/etc/modules-load.d/|a.conf\n== /etc/modules-load.d/a.conf\n\\# nvidia-peermem\nnvidia-uvm
	OK|/etc/modules-load.d/|a.conf\n== /etc/modules-load.d/a.conf\n\\# a comment\nnvidia_peermem
	OK|/usr/lib/modules-load.d/|a.conf\n== /usr/lib/modules-load.d/a.conf\n nvidia-peermem
	OK|/run/modules-load.d/|a.conf\n== /run/modules-load.d/a.conf\nnvidia-peermem
	OK|/.dockerenv?|100644 0 0 r-
TEXT
while IFS='|' read -r wanted model cuda; do
	with jetson /proc/device-tree/model "$model\\n== cuda/driver_version\\n$cuda" >"$work/claim.dump"
	same "$model with CUDA $cuda" "$wanted" "$(sign driver)"
done <<-'TEXT'
	WARN|NVIDIA Jetson AGX Xavier Developer Kit|10000
	OK|NVIDIA Jetson AGX Xavier Developer Kit|10010
	WARN|NVIDIA DRIVE AGX Xavier|11010
	OK|NVIDIA DRIVE AGX Xavier|11020
	WARN|NVIDIA DRIVE AGX Orin|11030
	OK|NVIDIA Jetson AGX Orin|11040
	OK|another model|10000
TEXT
# The beginning of a fix, and its line of the kernel's log; the same line on a host that works warns of nothing
while IFS='|' read -r wanted line; do
	for host in not-probed dgx; do
		with $host kernel/log "[   71.200000] $line" >"$work/claim.dump"
		found=$("$doctor" --only kernel-log --verbose --from "$work/claim.dump" | sed -n 's/^fix *kernel-log *//p;s/^OK .*kernel-log .*but the probe registered.*/measured/p;s/^OK .*no line explains.*/none/p')
		matches "$host with the line $line" "$([ $host = dgx ] && [ "$wanted" != none ] && echo measured || echo "$wanted")*" "$found"
	done
done <<-'TEXT'
	ask your administrator: the driver's open kernel modules|nvidia-peermem nv_dma_map:214 nv_dma_map -- assumption of 64KB pages failed size_id=0
	peerpin doctor --only limits,bar1|nvidia-peermem nv_mem_get_pages:330 error -12 while calling nvidia_p2p_get_pages()
	ask your administrator: reinstall the driver|nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client
	ask your administrator: reinstall the driver|nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)
	nvidia-smi -q|NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.
	nvidia-smi -q|NVRM: Xid (PCI:0000:1b:00): 119, pid=1931, name=app, Timeout after 6s of waiting for RPC response from GPU1 GSP!
	none|NVRM: Xid (PCI:0000:1b:00): 31, pid=1931, name=app, Ch 00000008, intr 00000000. MMU Fault
	none|NVRM: Xid (PCI:0000:1b:00): 13, pid=1931, Graphics Exception: ESR 0x505730=0x12000e
	peerpin doctor --only peermem|mlx5_0:mr_umem_get:709:(pid 15855): umem get failed (-14)
	peerpin doctor --only limits,bar1|infiniband mlx5_0: create_mkey_callback:131:(pid 0): async reg mr failed. status -12
	peerpin doctor --only limits,bar1|mlx5_core 0000:1a:00.0: mlx5_cmd_check:782:(pid 15855): CREATE_MKEY(0x200) op_mod(0x0) failed, status limits exceeded(0x8)
	none|nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing
TEXT
with translating-iommu-peermem probe/0/mlx5_0/peermem/2097152 'ok 310000' >"$work/claim.dump"
matches 'peer memory through an IOMMU' '*does not work through it, but the probe registered memory*' \
	"$("$doctor" --only iommu --from "$work/claim.dump")"
with compute-10 probe/0/mlx5_0/peermem/2097152 'ok 310000' >"$work/claim.dump"
same 'peer memory of compute capability 10' OK "$(sign gpu)"
with cgroup-denies verbs/mlx5_0/open 'ok' >"$work/claim.dump"
same 'an adapter that was opened' OK "$(sign uverbs)"
{ with cgroup-denies verbs/mlx5_0/open 'ok' | sed '1a== /dev/infiniband/uverbs0?\n020600 0 0 --'; } >"$work/claim.dump"
same 'an adapter that was opened, whatever its mode' OK "$(sign uverbs)"
for registered in ok:OK '!ENOMEM:WARN' '!ENOENT:WARN'; do
	{ with soft-limits limits/nofile 65536 | sed "1a== verbs/mlx5_0/host\n${registered%:*}"; } >"$work/claim.dump"
	same "host memory beyond a memlock limit of 64 KiB: ${registered%:*}" "${registered#*:}" "$(sign limits)"
done
with parts-crashed verbs/mlx5_0/ended '!ETIME none' >"$work/claim.dump"
matches 'an adapter for which no time was left is not closed' 'Undecided: *=> 3' \
	"$(outcome "$doctor" --quiet --from "$work/claim.dump")"

# ---- a fix works in the state that was read ----
# CHECK, HOST, then readings that change it, as for with(), and the beginning of one fix
in_docker='/.dockerenv?|100644 0 0 r-'
while IFS='|' read -r check host reading value wanted; do
	with "$host" "$reading" "$value" >"$work/claim.dump"
	matches "fix of $check on $host with $reading $value" "*fix   *$check  *$wanted*" \
		"$("$doctor" --only "$check" --verbose --from "$work/claim.dump")"
done <<-TEXT
	peermem|both-modules|a|b|sudo sh -c 'service nv_peer_mem stop; 
	peermem|both-modules|$in_docker|ask your administrator, on the host: sh -c 'service nv_peer_mem stop; 
	limits|dgx|/proc/sys/vm/max_map_count|1000|sudo sysctl vm.max_map_count=
	limits|dgx|/proc/sys/vm/max_map_count|1000\\n== /.singularity.d?\\n040755 0 0 r-|ask your administrator, on the host: sysctl
	acs|no-root|a|b|sudo peerpin doctor --only acs
	acs|no-root|identity/uid|0|run it as root of the host
	acs|no-root|identity/uid|0\\n== /.dockerenv?\\n100644 0 0 r-|run it on the host itself
	iommu|translating-iommu|a|b|ask your administrator: iommu=pt on
	iommu|translating-iommu|identity/machine|aarch64|ask your administrator: iommu.passthrough=1 on
	iommu|translating-iommu|/proc/cmdline|ro iommu=pt|ask your administrator: the kernel's command line has the setting already
	export|not-installed|a|b|ask your administrator: install the driver's open kernel modules
	export|not-installed|/proc/driver/nvidia/version|Open Kernel Module|ask your administrator: update the driver, or load nvidia-peermem
	probe|not-installed|a|b|ask your administrator: install the driver's open kernel modules
	probe|not-installed|/proc/driver/nvidia/version|Open Kernel Module|ask your administrator: update the driver, or load nvidia-peermem
	path|one-of-two|a|b|run on a GPU that has an adapter of its own socket
	path|one-of-two|/sys/bus/pci/devices/0000:18:00.0@|/sys/devices/pci0000:95/0000:18:00.0\\n== /sys/bus/pci/devices/0000:18:00.0/numa_node\\n1|ask your administrator: an adapter in a slot
	gpu|dgx|cuda/init|CUDA_ERROR_NO_DEVICE|run it where a GPU
	gpu|dgx|cuda/init|CUDA_ERROR_NO_DEVICE\\n== environment/CUDA_VISIBLE_DEVICES\\n|unset CUDA_VISIBLE_DEVICES
	gpu|no-driver|cuda/ended|!ETIME none|peerpin doctor --limit 1200
	gpu|no-driver|cuda/ended|!ETIME none\\n== option/limit\\n5000|peerpin doctor --limit 50000
	uverbs|cgroup-denies|/dev/infiniband/|!ENOENT|sudo modprobe ib_uverbs
	uverbs|cgroup-denies|/dev/infiniband/|!ENOENT\\n== /sys/module/ib_uverbs/\\nparameters|ask your administrator: the adapter's driver
	uverbs|cgroup-denies|/dev/infiniband/|!ENOENT\\n== /.dockerenv?\\n100644 0 0 r-|docker run --device
	adapter|no-adapter|a|b|ask your administrator: load the adapter's driver
	adapter|no-adapter|$in_docker|docker run --net host
	acs|acs-on|a|b|sudo setpci
	acs|acs-locked|a|b|ask your administrator: ACS off in the firmware
TEXT

# ---- the kernel's command line: the last value of an option counts ----
while IFS='|' read -r wanted line; do
	with translating-iommu /proc/cmdline "$line" >"$work/claim.dump"
	matches "the kernel's command line: $line" "*fix *iommu *administrator: $wanted*" "$("$doctor" --only iommu --from "$work/claim.dump")"
done <<-'TEXT'
	the kernel's command line has|ro iommu=nopt iommu=pt
	iommu=pt on|iommu=pt iommu=nopt ro
	iommu=pt on|ro iommu.passthrough=1 iommu.passthrough=0
	the kernel's command line has|ro intel_iommu=on intel_iommu=off
	iommu=pt on|ro intel_iommu=off intel_iommu=on,sm_on
	the kernel's command line has|ro intel_iommu=on iommu=pt
	iommu=pt on|ro amd_iommu=pt
TEXT

# ---- fixes of limits ----
# limits NAME SOFT HARD CAPABILITIES: the fixes, by their first words, on a host with these limits
limits() {
	sed -e "/^== limits.$1$/{n;s/.*/$2/}" -e "/^== limits.$1.hard$/{n;s/.*/$3/}" -e "s/^\(CapEff:\).*/\1\t$4/" \
		"$generated/dgx.dump" >"$work/limits.dump"
	"$doctor" --only limits --from "$work/limits.dump" | sed -n 's/^fix *limits *//p' |
		sed 's/^\(ask\|ulimit -. [^ ]*\).*/\1/' | paste -sd,
}
lock=0000000000004000 resource=0000000001000000 none=0000000000000000
while IFS='|' read -r name soft hard capabilities wanted; do
	same "limit $name $soft, hard $hard, capabilities $capabilities" "$wanted" "$(limits "$name" "$soft" "$hard" "$capabilities")"
done <<-TEXT
	memlock|65536|unlimited|$none|ulimit -l unlimited
	memlock|65536|8388608|$none|ulimit -l 8192,ask
	memlock|65536|2147483648|$none|ulimit -l 2097152
	memlock|65536|65536|$none|ask
	memlock|65536|66000|$none|ask
	memlock|65536|65536|$resource|ulimit -l unlimited
	memlock|65536|65536|$lock|
	nofile|256|1048576|$none|ulimit -n 65536
	nofile|256|4096|$none|ulimit -n 4096
	nofile|256|512|$none|ulimit -n 512,ask
	nofile|256|256|$none|ask
	nofile|256|512|$resource|ulimit -n 65536
	nofile|1024|1024|$none|
TEXT
sed -i '/^== limits.nofile.hard$/,+1d' "$work/limits.dump"
same 'a hard limit that was not recorded' 'fix   limits           ask your administrator' \
	"$(sed '/^== limits.nofile$/{n;s/.*/256/}' "$work/limits.dump" >"$work/unknown.dump"
		"$doctor" --only limits --from "$work/unknown.dump" | grep '^fix' | cut -d: -f1)"
finish
