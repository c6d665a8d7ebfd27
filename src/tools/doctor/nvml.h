/* SPDX-License-Identifier: BSD-3-Clause */
/* nvml.h -- readings cuda/ that only NVIDIA's management library (NVML) provides */
#ifndef PEERPIN_TOOLS_DOCTOR_NVML_H
#define PEERPIN_TOOLS_DOCTOR_NVML_H

#include "tools/doctor/host.h"

/* Runs after the driver's readings: cuda/N/pci selects NVML's devices. */
void nvml_fill(struct host *host);

#endif
