/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_settings.c -- variables of MPI, UCX, NCCL, libfabric and PyTorch that bear on GPUDirect
 * RDMA
 *
 * Sources of names and values: ucx_info -fc (UCX 1.13), cuda_copy's DMABUF (newer UCX); NCCL's user
 * guide, src/misc/param.cc, src/graph/paths.cc; fi_info -e (libfabric 1.17), src/var.c; ompi_info
 * (Open MPI 4.1); MPICH 4.0's mpir_gpu.h; NVSHMEM's list of variables; PyTorch's
 * c10/core/AllocatorConfig.cpp.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/doctor/checks.h"

/* ---- values ---- */

static bool checks_settings_is_one_of(const char *value, const char *const *words)
{
	for (; *words; words++) {
		if (!strcasecmp(value, *words))
			return true;
	}
	return false;
}

/* Each library has some of these words, and refuses the others. */
static bool checks_settings_is_no(struct host *host, const char *value)
{
	static const char *const words[] = { "0",     "n",	 "no",	     "off", "f",
					     "false", "disable", "disabled", NULL };

	(void)host;
	return checks_settings_is_one_of(value, words);
}

static bool checks_settings_is_yes(struct host *host, const char *value)
{
	static const char *const words[] = { "1", "y", "yes", "on", "t", "true", NULL };

	(void)host;
	return checks_settings_is_one_of(value, words);
}

static bool checks_settings_is_none(struct host *host, const char *value)
{
	(void)host;
	return !strcasecmp(value, "none");
}

/* NCCL reads a number as strtoll does with base 0: any other word is 0. */
static bool checks_settings_is_zero(struct host *host, const char *value)
{
	(void)host;
	return *value && !strtoll(value, NULL, 0);
}

static bool checks_settings_is_number(struct host *host, const char *value)
{
	(void)host;
	return strtoll(value, NULL, 0);
}

/* ---- lists ---- */

#define ITEM_SIZE 128

/* Copies the next item of *list, without blanks at its beginning. False: no item is left. */
static bool checks_settings_item(const char **list, char item[ITEM_SIZE])
{
	size_t length;

	*list += strspn(*list, ",; ");
	length = strcspn(*list, ",;");
	snprintf(item, ITEM_SIZE, "%.*s", (int)length, *list);
	*list += length;
	return *item;
}

/* True if an item of the list begins with one of the words. */
static bool checks_settings_lists(const char *list, const char *const *words)
{
	char item[ITEM_SIZE];

	while (checks_settings_item(&list, item)) {
		const char *name = item + (*item == '\\' || *item == '^');

		for (const char *const *word = words; *word; word++) {
			if (!strncmp(name, *word, strlen(*word)))
				return true;
		}
	}
	return false;
}

/* UCX_TLS lists the transports to use, or behind "^" those not to use. */
static bool checks_settings_has_no_cuda(struct host *host, const char *value)
{
	static const char *const cuda[] = { "all", "cuda", NULL };
	char item[ITEM_SIZE];

	(void)host;
	if (*value != '^')
		return *value && !checks_settings_lists(value, cuda);
	for (value++; checks_settings_item(&value, item);) {
		if (!strcmp(item, "cuda") || !strcmp(item, "cuda_copy"))
			return true;
	}
	return false;
}

static bool checks_settings_has_no_rdma(struct host *host, const char *value)
{
	static const char *const rdma[] = { "all", "ib", "rc", "dc", "ud", "srd", "gga", NULL };
	char item[ITEM_SIZE];

	(void)host;
	if (*value != '^')
		return *value && !checks_settings_lists(value, rdma);
	for (value++; checks_settings_item(&value, item);) {
		if (!strcmp(item, "ib"))
			return true;
	}
	return false;
}

/* True if the list has nothing but libfabric's providers for sockets and shared memory, and those
 * that are layered over another one (ofi_rxm). */
static bool checks_settings_has_no_fabric(struct host *host, const char *value)
{
	static const char *const words[] = { "tcp", "sockets", "udp",	  "net", "shm",
					     "sm2", "ofi_rxm", "ofi_rxd", NULL };
	char item[ITEM_SIZE];

	(void)host;
	if (!*value || *value == '^')
		return false;
	while (checks_settings_item(&value, item)) {
		if (!checks_settings_is_one_of(item, words))
			return false;
	}
	return true;
}

/* True if the list names devices ("mlx5_0:1"), and none of them is an adapter of this host. NCCL
 * accepts the begin of a name, and "=" before a whole one. Lists that exclude devices, or have
 * ranges, are not judged. */
static bool checks_settings_names_no_adapter(struct host *host, const char *value)
{
	const struct machine *machine = machine_of(host);
	char item[ITEM_SIZE];

	if (!*value || strpbrk(value, "^[*") || !strcmp(value, "all") || !machine->adapter_count ||
	    !machine->adapters_are_known)
		return false;
	value += *value == '=';
	while (checks_settings_item(&value, item)) {
		EACH_ADAPTER(host, adapter) {
			if (!strncmp(adapter->name, item, strcspn(item, ":")))
				return false;
		}
	}
	return true;
}

/* True if the value has the part, with or without blanks around the colon. */
static bool checks_settings_has_part(const char *value, const char *part)
{
	char bare[1024];
	size_t length = 0;

	for (; *value && length < sizeof(bare) - 1; value++) {
		if (*value != ' ')
			bare[length++] = *value;
	}
	bare[length] = '\0';
	return strstr(bare, part);
}

#define EXPANDABLE "expandable_segments:True"
#define POOLS	   "backend:cudaMallocAsync"
#define NO_EXPANDABLE                                                                              \
	"peer memory registers expandable segments only if PyTorch makes them "                    \
	"gpuDirectRDMACapable"
#define NO_POOLS "peer memory cannot register pool memory"

static bool checks_settings_is_expandable(struct host *host, const char *value)
{
	(void)host;
	return checks_settings_has_part(value, EXPANDABLE);
}

static bool checks_settings_uses_pools(struct host *host, const char *value)
{
	(void)host;
	return checks_settings_has_part(value, POOLS);
}

/* ---- distances ---- */

/* Distance up to which NCCL uses GPUDirect RDMA, as a pci_path; -1: never; PCI_PATH_UNKNOWN: NCCL
 * ignores the value. Names are its own, of which PHB includes NODE; numbers are the older form. */
static int checks_settings_level(const char *value)
{
	static const struct {
		const char *name;
		int level;
	} names[] = { { "LOC", -1 },	       { "NVL", -1 },		{ "NVB", -1 },
		      { "C2C", -1 },	       { "PIX", PCI_PATH_PIX }, { "PXB", PCI_PATH_PXB },
		      { "P2C", PCI_PATH_PXB }, { "PXN", PCI_PATH_PXB }, { "PHB", PCI_PATH_NODE },
		      { "SYS", PCI_PATH_SYS } };
	static const int numbers[] = { -1, PCI_PATH_PIX, PCI_PATH_PXB, PCI_PATH_NODE };
	long number = strtol(value, NULL, 0);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(value, names[i].name))
			return names[i].level;
	}
	if (*value < '0' || *value > '9')
		return PCI_PATH_UNKNOWN;
	return number >= 0 && number < 4 ? numbers[number] : PCI_PATH_SYS;
}

/* True if the level is below the distance of a GPU and its adapter. */
static bool checks_settings_is_too_near(struct host *host, const char *value)
{
	int level = checks_settings_level(value);
	struct support support;

	if (level == -1)
		return true;
	EACH_GPU(host, gpu) {
		const struct adapter *adapter = adapter_of_gpu(host, gpu, &support);
		enum pci_path distance =
			adapter ? distance_between(gpu, adapter) : PCI_PATH_UNKNOWN;

		if (distance != PCI_PATH_UNKNOWN && (int)distance > level)
			return true;
	}
	return false;
}

static bool checks_settings_is_socket(struct host *host, const char *value)
{
	(void)host;
	return !strcasecmp(value, "Socket");
}

/* Open MPI sends GPU memory without support of its own over a UCX that has it. */
static bool checks_settings_is_no_without_ucx(struct host *host, const char *value)
{
	return checks_settings_is_no(host, value) && !ucx_has_cuda(host);
}

/* ---- the table ---- */

/* Rows of one variable are adjacent. */
static const struct setting {
	const char *variable;
	bool (*turns_off)(struct host *host, const char *value); /* NULL: shown only */
	enum method harmless; /* nothing is lost if it reaches every GPU; METHODS: always lost */
	const char *words;
	const char *fix; /* NULL: unset the variable */
} settings[] = {
/* clang-format off */
#define ROW(variable, test, harmless, words, fix)                                                  \
	{ variable, checks_settings_##test, harmless, words, fix },
#define SHOWN(variable)	{ variable, NULL, METHODS, NULL, NULL },
#define OFF(variable, test, words) ROW(variable, test, METHODS, words, NULL)
#define OFF_FIX(variable, test, words, fix) ROW(variable, test, METHODS, words, fix)
#define LEAVES_PEER_MEMORY(variable, test, library)                                                \
	ROW(variable, test, METHOD_PEER_MEMORY, library " then needs nvidia-peermem", NULL)
#define NEEDS_DMA_BUF(variable, test, words, part)                                                 \
	ROW(variable, test, METHOD_DMA_BUF, words, "take " part " out of " variable)
	OFF("UCX_IB_GPU_DIRECT_RDMA", is_no, "UCX then copies through the host")
	LEAVES_PEER_MEMORY("UCX_CUDA_COPY_DMABUF", is_no, "UCX")
	OFF("UCX_MEM_CUDA_HOOK_MODE", is_none, "UCX then intercepts no free of GPU memory")
	SHOWN("UCX_MEM_EVENTS")
	SHOWN("UCX_MEMTYPE_CACHE")
	SHOWN("UCX_RCACHE_ENABLE")
	SHOWN("UCX_IB_REG_METHODS")
	OFF_FIX("UCX_TLS", has_no_cuda, "UCX then takes no GPU memory",
		"add cuda to UCX_TLS, or unset it")
	OFF_FIX("UCX_TLS", has_no_rdma, "UCX then uses no adapter",
		"add rc to UCX_TLS, or unset it")
	OFF("UCX_NET_DEVICES", names_no_adapter, "no adapter of this host, UCX then uses none")
	OFF_FIX("NCCL_NET_GDR_LEVEL", is_too_near, "NCCL then copies through the host",
		"unset NCCL_NET_GDR_LEVEL, or set it to the distance in the doctor's matrix (PHB for "
		"NODE)")
	OFF("NCCL_IB_GDR_LEVEL", is_too_near, "NCCL before 2.4 then copies through the host")
	OFF("NCCL_IB_CUDA_SUPPORT", is_zero, "NCCL before 2.4 then copies through the host")
	OFF("NCCL_NET_GDR_READ", is_zero, "NCCL then copies through the host before it sends")
	SHOWN("NCCL_NET_GDR_C2C")
	OFF("NCCL_NET", is_socket, "NCCL then uses no adapter")
	SHOWN("NCCL_NET_PLUGIN")
	OFF("NCCL_IB_DISABLE", is_number, "NCCL then uses no adapter")
	OFF("NCCL_IB_HCA", names_no_adapter, "no adapter of this host, NCCL then uses none")
	LEAVES_PEER_MEMORY("NCCL_DMABUF_ENABLE", is_zero, "NCCL")
	SHOWN("NCCL_IB_DATA_DIRECT")
	OFF("NVSHMEM_REMOTE_TRANSPORT", is_none, "NVSHMEM then uses no adapter")
	LEAVES_PEER_MEMORY("NVSHMEM_IB_DISABLE_DMABUF", is_yes, "NVSHMEM")
	OFF("FI_PROVIDER", has_no_fabric, "libfabric then uses no adapter")
	SHOWN("FI_HMEM")
	OFF("FI_HMEM_DISABLE_P2P", is_yes, "libfabric then copies through the host")
	LEAVES_PEER_MEMORY("FI_HMEM_CUDA_USE_DMABUF", is_no, "libfabric")
	SHOWN("FI_HMEM_CUDA_USE_GDRCOPY")
	OFF("OMPI_MCA_opal_cuda_support", is_no_without_ucx, "Open MPI then takes no GPU memory")
	OFF("OMPI_MCA_mpi_cuda_support", is_no_without_ucx, "Open MPI then takes no GPU memory")
	SHOWN("OMPI_MCA_pml")
	SHOWN("OMPI_MCA_btl")
	OFF("MPIR_CVAR_ENABLE_GPU", is_zero, "MPICH then takes no GPU memory")
	OFF_FIX("MPICH_GPU_SUPPORT_ENABLED", is_zero, "Cray MPICH then takes no GPU memory",
		"export MPICH_GPU_SUPPORT_ENABLED=1")
	OFF_FIX("MV2_USE_CUDA", is_zero, "MVAPICH2 then takes no GPU memory",
		"export MV2_USE_CUDA=1")
	OFF("MV2_USE_GPUDIRECT_RDMA", is_zero, "MVAPICH2 then copies through the host")
	OFF("MV2_USE_GPUDIRECT", is_zero, "MVAPICH2 then copies through the host")
	NEEDS_DMA_BUF("PYTORCH_ALLOC_CONF", is_expandable, NO_EXPANDABLE, EXPANDABLE)
	NEEDS_DMA_BUF("PYTORCH_ALLOC_CONF", uses_pools, NO_POOLS, POOLS)
	NEEDS_DMA_BUF("PYTORCH_CUDA_ALLOC_CONF", is_expandable, NO_EXPANDABLE, EXPANDABLE)
	NEEDS_DMA_BUF("PYTORCH_CUDA_ALLOC_CONF", uses_pools, NO_POOLS, POOLS)
	SHOWN("CUDA_VISIBLE_DEVICES")
	SHOWN("RDMAV_FORK_SAFE")
	SHOWN("IBV_FORK_SAFE")
	OFF("PEERPIN_DISABLE", is_yes, "peerpin then does nothing")
	/* clang-format on */
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static bool checks_settings_warn(struct host *host, const struct setting *setting,
				 const char *value, struct finding *finding)
{
	if (!setting->turns_off || !setting->turns_off(host, value) ||
	    (setting->harmless != METHODS && method_suffices(host, setting->harmless)))
		return false;
	finding_add(finding, WARN, "%s=%s: %s", setting->variable, value, setting->words);
	if (setting->fix)
		finding_fix(finding, "%s", setting->fix);
	else
		finding_fix(finding, "unset %s", setting->variable);
	return true;
}

void check_settings(struct host *host, struct finding *finding)
{
	bool warned = false;

	for (size_t i = 0; i < SETTINGS; i++) {
		const char *variable = settings[i].variable;
		const char *value = host_text(host, "environment/%s", variable);

		if (!value)
			continue;
		warned |= checks_settings_warn(host, &settings[i], value, finding);
		if (i + 1 < SETTINGS && !strcmp(variable, settings[i + 1].variable))
			continue;
		if (!warned)
			finding_add(finding, OK, "%s=%s", variable, value);
		warned = false;
	}
}
