/* SPDX-License-Identifier: BSD-3-Clause */
/* topology.h -- where GPUs and adapters are in the machine, and what they have room for
 *
 * Read from sysfs, once for each; what cannot be found out is answered as if it were of no importance: near, and
 * without a limit. Any thread, but without any lock of ours held: the driver and libibverbs are asked.
 */
#ifndef PEERPIN_REGISTRATION_TOPOLOGY_H
#define PEERPIN_REGISTRATION_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "registration/verbs_abi.h"

/* The adapter's name in /sys/class/infiniband; "" if it is unknown. Valid as long as the device is open. */
const char *topology_adapter_name(struct ibv_context *context);

/* Memory regions that the adapter can have in all (ibv_query_device); 0: unknown. */
uint64_t topology_region_limit(struct ibv_context *context);

/* Whether no other adapter of the machine has a shorter way over PCI to the GPU `device` (its ordinal). */
bool topology_is_near(struct ibv_context *context, int device);

/* The way over PCI between the two, by the names of nvidia-smi topo -m: PIX, PXB, PHB, NODE or SYS; "" if it is unknown. */
const char *topology_path(struct ibv_context *context, int device);

/* Bytes of the GPU that the PCI bus can reach at once (its BAR1); 0: unknown. */
uint64_t topology_bar1_bytes(int device);

#endif
