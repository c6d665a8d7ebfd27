/* SPDX-License-Identifier: BSD-3-Clause */
/* topology.h -- PCI distance of GPUs and adapters, and limits of both
 *
 * Read from sysfs at each call; callers keep the values. Unknown facts have harmless values: near,
 * and no limit. Any thread, without any lock of the library held: the functions call the driver and
 * libibverbs.
 */
#ifndef PEERPIN_REGISTRATION_TOPOLOGY_H
#define PEERPIN_REGISTRATION_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/kernel.h"
#include "registration/verbs_abi.h"

/* The adapter's name in /sys/class/infiniband; "": unknown. Valid while the device is open. */
const char *topology_adapter_name(struct ibv_context *context);

/* Memory regions that the adapter supports in total (ibv_query_device); 0: unknown. */
uint64_t topology_region_limit(struct ibv_context *context);

/* True if no other adapter of the machine has a shorter PCI path to the GPU `device` (ordinal). */
bool topology_is_near(struct ibv_context *context, int device);

/* The PCI path between both, as nvidia-smi topo -m names it: PIX, PXB, PHB, NODE or SYS;
 * PCI_PATH_NONE: the adapter is software; "": unknown. */
const char *topology_path(struct ibv_context *context, int device);

/* Bytes of the GPU that the PCI bus can address at once (its BAR1); 0: unknown. */
uint64_t topology_bar1_bytes(int device);

#endif
