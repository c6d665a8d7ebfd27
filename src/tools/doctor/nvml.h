/* SPDX-License-Identifier: BSD-3-Clause */
/* nvml.h -- readings cuda/: what only NVIDIA's management library knows */
#ifndef PEERPIN_TOOLS_DOCTOR_NVML_H
#define PEERPIN_TOOLS_DOCTOR_NVML_H

#include "tools/doctor/host.h"

/* After the driver's own: NVML's devices are found by what cuda/N/pci says. */
void nvml_fill(struct host *host);

#endif
