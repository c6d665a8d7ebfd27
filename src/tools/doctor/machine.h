/* SPDX-License-Identifier: BSD-3-Clause */
/* machine.h -- GPUs, adapters, their distances and registration methods
 *
 * All results come from readings, none from findings of checks: the conclusion does not depend
 * on the selected checks.
 */
#ifndef PEERPIN_DOCTOR_MACHINE_H
#define PEERPIN_DOCTOR_MACHINE_H

#include "base/pci.h"
#include "tools/doctor/host.h"

#define GPUS_MAX     64
#define ADAPTERS_MAX 64
#define PATH_SIZE    512

struct gpu {
	int ordinal;	/* the driver's; -1: hidden from CUDA */
	char label[24]; /* "GPU0"; PCI address if hidden from CUDA */
	char pci[24];	/* "0000:1b:00.0"; "": unknown */
	char path[PATH_SIZE];
	int64_t node; /* NUMA node; -1: unknown */
};

/* State of an adapter's ports. INACTIVE requires a reading of every port. */
enum ports { PORTS_UNKNOWN, PORTS_INACTIVE, PORTS_ACTIVE };

struct adapter {
	char name[64];
	char path[PATH_SIZE]; /* "": on no bus (software adapter), or unreadable */
	char pci[24];	      /* "": as `path` */
	int64_t node;
	bool software; /* Soft-RoCE, Soft-iWARP */
	enum ports ports;
};

struct machine {
	struct gpu gpus[GPUS_MAX];
	unsigned int gpu_count;
	struct adapter adapters[ADAPTERS_MAX];
	unsigned int adapter_count;
	unsigned int hidden_gpus; /* GPUs on the PCI bus that the driver does not list */
	bool driver_answers;	  /* cuInit succeeded */
	bool adapters_are_known;  /* folder of adapters is readable, or absent */
};

const struct machine *machine_of(struct host *host);

#define EACH_GPU(host, name)                                                                       \
	for (const struct gpu *name = machine_of(host)->gpus;                                      \
	     name < machine_of(host)->gpus + machine_of(host)->gpu_count; name++)
#define EACH_ADAPTER(host, name)                                                                   \
	for (const struct adapter *name = machine_of(host)->adapters;                              \
	     name < machine_of(host)->adapters + machine_of(host)->adapter_count; name++)

enum pci_path distance_between(const struct gpu *gpu, const struct adapter *adapter);
const char *distance_name(enum pci_path distance); /* "?": unknown */

/* "GPU0-mlx5_0" */
const char *pair_name(const struct gpu *gpu, const struct adapter *adapter);

/* Lists the bridges on the PCIe path between GPU and adapter, strictly below the common ancestor:
 * one address per line. The list never exceeds both paths. */
#define BRIDGES_SIZE (2 * PATH_SIZE)
void bridges_between(const struct gpu *gpu, const struct adapter *adapter, char list[BRIDGES_SIZE]);

/* ---- registration methods ---- */

/* Support of a method. PROVED: the probe registered memory; EXPECTED: driver and adapter report
 * support. */
enum level { SUPPORT_NO, SUPPORT_UNKNOWN, SUPPORT_EXPECTED, SUPPORT_PROVED };

struct support {
	enum level level;
	const char *reason; /* of NO and UNKNOWN */
};

/* Reading probe/GPU/ADAPTER/METHOD/NAME. */
const struct reading *probe_reading(struct host *host, const struct gpu *gpu,
				    const struct adapter *adapter, enum method method,
				    const char *name);

/* Text behind "ok " ("fail") of a probe's reading. NULL: it begins otherwise, or is an error. */
const char *probe_text(struct host *host, const struct gpu *gpu, const struct adapter *adapter,
		       enum method method, const char *name, const char *begin);

struct support support_between(struct host *host, const struct gpu *gpu,
			       const struct adapter *adapter, enum method method);

/* Error of the --deep transfer over registered memory. NULL: data arrived, or no transfer ran. */
const char *transfer_failure(struct host *host, const struct gpu *gpu,
			     const struct adapter *adapter, enum method method);

/* Words of a measurement that refutes what readings imply: the probe registered memory of this GPU
 * (NULL: of any), with this adapter (NULL: with any), by this method (METHODS: by any), and no
 * transfer lost data. NULL: no such measurement. */
const char *proof_of(struct host *host, const struct gpu *gpu, const struct adapter *adapter,
		     enum method method);

/* Adapter to use: best support by dma-buf or peer memory (peerpin does not use data direct), then
 * shortest distance. SUPPORT_NO for an adapter without an active port, even if it registered
 * memory: it cannot send. NULL: there is no adapter. */
const struct adapter *adapter_of_gpu(struct host *host, const struct gpu *gpu,
				     struct support *support);

/* True if each GPU has an adapter with this method proved or expected. Other methods are not
 * needed then. */
bool method_suffices(struct host *host, enum method method);

/* True if the probe registered memory of each GPU with an adapter that has an active port. */
bool every_gpu_works(struct host *host);

/* True unless some GPU has no support for this method with every adapter. */
bool method_is_open(struct host *host, enum method method);

/* ---- meanings of failed calls ---- */

/* The words fit a table cell; the fix is a command. report/errors.def has full sentences for the
 * library's log: change both together. */
struct meaning {
	const char *call;  /* part of the call's name; "": any */
	const char *error; /* part of the error's name; "": any */
	const char *words; /* "": print call and error only */
	const char *fix;   /* NULL: the value fix_peermem */
};

/* Meaning of "CALL ERROR", the probe's format. Never NULL. */
const struct meaning *meaning_of(const char *failure);

/* ---- facts shared by several checks ---- */

enum flavour { FLAVOUR_NONE, FLAVOUR_OPEN, FLAVOUR_PROPRIETARY, FLAVOUR_UNKNOWN };

/* Flavour of the driver's kernel module. */
enum flavour driver_flavour(struct host *host);

/* True from compute capability 10 on, where only dma-buf registrations are proved, unless the probe
 * registered this GPU's memory by peer memory. */
bool is_past_peer_memory(struct host *host, const struct gpu *gpu);

/* End of a probe process, from a reading `ended` (child.h): "was killed by signal 11 in cuInit". */
const char *end_words(const char *ended);

/* True if the errno's name means that a call is not supported. */
bool is_unsupported(const char *error);

/* True for a GPU of the processor: Jetson, DRIVE, DGX Spark. Adapters access its host memory
 * (cuMemHostAlloc), and no memory of cuMemAlloc. */
bool gpu_is_integrated(struct host *host, const struct gpu *gpu);
bool gpus_are_integrated(struct host *host);

/* True if the probe's failure is one of device memory of an integrated GPU, or may be one: it is no
 * failure of the host memory that adapters access. */
bool failed_as_integrated(struct host *host, const struct gpu *gpu, const char *failure);

/* Version of the peer-memory client that is registered with the RDMA stack; an error: none. */
const struct reading *peer_memory_client(struct host *host);

#endif
