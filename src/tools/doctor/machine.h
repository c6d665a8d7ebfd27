/* SPDX-License-Identifier: BSD-3-Clause */
/* machine.h -- the GPUs and adapters of a host, how far they are from each other, and by which ways they reach each other
 *
 * All of it comes from readings, and none of it from what a check has found: so checks may be left out, and the
 * conclusion stays the same.
 */
#ifndef PEERPIN_DOCTOR_MACHINE_H
#define PEERPIN_DOCTOR_MACHINE_H

#include "base/pci_path.h"
#include "tools/doctor/host.h"

#define GPUS_MAX     64
#define ADAPTERS_MAX 64
#define PATH_SIZE    512

struct gpu {
	int ordinal;	/* the driver's; -1: the driver does not show it */
	char label[24]; /* "GPU0"; of one that the driver does not show its PCI address */
	char pci[24];	/* "0000:1b:00.0"; "": unknown */
	char path[PATH_SIZE];
	int64_t node; /* NUMA; -1: unknown */
};

/* Of an adapter: INACTIVE only where each of its ports was read. */
enum ports { PORTS_UNKNOWN, PORTS_INACTIVE, PORTS_ACTIVE };

struct adapter {
	char name[64];
	char path[PATH_SIZE]; /* "": it is on no bus (a software adapter), or that cannot be read */
	char pci[24];	      /* "": likewise */
	int64_t node;
	bool software; /* Soft-RoCE, Soft-iWARP */
	enum ports ports;
};

struct machine {
	struct gpu gpus[GPUS_MAX];
	unsigned int gpu_count;
	struct adapter adapters[ADAPTERS_MAX];
	unsigned int adapter_count;
	unsigned int hidden_gpus; /* the PCI bus has them, the driver does not show them */
	bool driver_answers;	  /* cuInit succeeded */
	bool adapters_are_known;  /* the folder could be read, or is not there */
};

const struct machine *machine_of(struct host *host);

enum pci_path distance_between(const struct gpu *gpu, const struct adapter *adapter);
const char *distance_name(enum pci_path distance); /* "?": unknown */

/* Bridges that the way over PCIe passes below where both paths meet, and that one; calls visit with their addresses. */
void each_bridge_between(const struct gpu *gpu, const struct adapter *adapter,
			 void (*visit)(const char *pci, void *argument), void *argument);

/* ---- ways ---- */

enum way { WAY_DMA_BUF, WAY_PEER_MEMORY, WAY_DATA_DIRECT };
#define WAYS 3

const char *way_name(enum way way);

/* Proved: memory has been registered; else it is what the parts say of themselves. */
enum answer { ANSWER_NO, ANSWER_UNKNOWN, ANSWER_EXPECTED, ANSWER_PROVED };

struct answered {
	enum answer answer;
	char reason[272]; /* of NO and UNKNOWN */
};

struct answered way_between(struct host *host, const struct gpu *gpu, const struct adapter *adapter,
			    enum way way);

/* --deep: why data did not arrive in memory that was registered; NULL: it did, or none was sent. */
const char *transfer_failure(struct host *host, const struct gpu *gpu, const struct adapter *adapter,
			     enum way way);

/* The best that the ways which peerpin serves (all but data direct) have for it. NO over an adapter without an active port,
 * whatever was registered: nothing can be sent by it. */
struct answered ways_of_pair(struct host *host, const struct gpu *gpu, const struct adapter *adapter);

/* The adapter to use: it works best, and is closest. NULL: there is none. */
const struct adapter *adapter_of_gpu(struct host *host, const struct gpu *gpu, struct answered *answered);

/* Whether each GPU has an adapter that it reaches by this way, proved or expected; then other ways are not needed. */
bool way_suffices(struct host *host, enum way way);

/* Whether memory of each GPU was registered with an adapter that has an active port. */
bool every_gpu_works(struct host *host);

/* Whether that cannot be ruled out: for no GPU is the answer NO by every adapter. */
bool way_is_open(struct host *host, enum way way);

/* ---- facts that several checks need ---- */

enum flavour { FLAVOUR_NONE, FLAVOUR_OPEN, FLAVOUR_PROPRIETARY, FLAVOUR_UNKNOWN };

/* The driver's kernel module. */
enum flavour driver_flavour(struct host *host);

/* The running kernel is that version or newer. */
bool kernel_is_at_least(struct host *host, int major, int minor);

/* From compute capability 10 on registrations were seen to work by dma-buf alone. */
bool is_past_peer_memory(struct host *host, const struct gpu *gpu);

/* A peer-memory client is registered with the RDMA stack: its folder's name; NULL: none. */
const char *peer_memory_client(struct host *host);

#endif
