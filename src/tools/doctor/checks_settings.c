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

#include "tools/doctor/rules.h"
#include "tools/units.h"

/* The value of a variable, and the words that its test compares. */
struct value {
	struct host *host;
	const char *text, *words;
};

/* ---- values ---- */

#define ITEM_SIZE 128

/* Copies the next item of *list. False: no item is left. */
static bool checks_settings_item(const char **list, char item[ITEM_SIZE])
{
	size_t length;

	*list += strspn(*list, ",; ");
	length = strcspn(*list, ",; ");
	snprintf(item, ITEM_SIZE, "%.*s", (int)length, *list);
	*list += length;
	return *item;
}

static bool checks_settings_lists(const char *words, const char *text)
{
	char word[ITEM_SIZE];

	while (checks_settings_item(&words, word)) {
		if (!strcasecmp(word, text))
			return true;
	}
	return false;
}

static bool checks_settings_is(const struct value *value)
{
	return checks_settings_lists(value->words, value->text);
}

/* Each library has some of these words, and refuses the others. */
#define NO  "0 n no off f false disable disabled"
#define YES "1 y yes on t true"

/* Open MPI sends GPU memory without support of its own over a UCX that has it. */
static bool checks_settings_is_without_ucx(const struct value *value)
{
	return checks_settings_is(value) && strcmp(host_value(value->host, "ucx"), "with");
}

/* NCCL reads a number as strtoll does with base 0: any other word is 0. */
static bool checks_settings_is_zero(const struct value *value)
{
	return *value->text && !strtoll(value->text, NULL, 0);
}

static bool checks_settings_is_number(const struct value *value)
{
	return strtoll(value->text, NULL, 0);
}

/* True if the value has the words, with or without blanks around the colon. */
static bool checks_settings_has(const struct value *value)
{
	char bare[1024];
	size_t length = 0;

	for (const char *at = value->text; *at && length < sizeof(bare) - 1; at++) {
		if (*at != ' ')
			bare[length++] = *at;
	}
	bare[length] = '\0';
	return strstr(bare, value->words);
}

/* ---- lists ---- */

/* UCX_TLS lists the transports to use, or behind "^" those not to use. */
static bool checks_settings_begins_none(const struct value *value)
{
	const char *list = value->text, *words;
	char item[ITEM_SIZE], word[ITEM_SIZE];

	if (!*list || *list == '^')
		return false;
	while (checks_settings_item(&list, item)) {
		const char *name = item + (*item == '\\' || *item == '^');

		for (words = value->words; checks_settings_item(&words, word);) {
			if (!strncmp(name, word, strlen(word)))
				return false;
		}
	}
	return true;
}

static bool checks_settings_excludes(const struct value *value)
{
	const char *list = value->text + 1;
	char item[ITEM_SIZE];

	while (*value->text == '^' && checks_settings_item(&list, item)) {
		if (checks_settings_lists(value->words, item))
			return true;
	}
	return false;
}

static bool checks_settings_has_no_other(const struct value *value)
{
	const char *list = value->text;
	char item[ITEM_SIZE];

	if (!*list || *list == '^')
		return false;
	while (checks_settings_item(&list, item)) {
		if (!checks_settings_lists(value->words, item))
			return false;
	}
	return true;
}

/* libfabric's providers for sockets and shared memory, and those that are layered over another one.
 */
#define NO_FABRIC "tcp sockets udp net shm sm2 ofi_rxm ofi_rxd"

/* True if the list names devices ("mlx5_0:1"), and none of them is an adapter of this host. NCCL
 * accepts the begin of a name, and "=" before a whole one. Lists that exclude devices, or have
 * ranges, are not judged. */
static bool checks_settings_names_no_adapter(const struct value *value)
{
	const struct machine *machine = machine_of(value->host);
	const char *list = value->text;
	char item[ITEM_SIZE];

	if (!*list || strpbrk(list, "^[*") || !strcmp(list, "all") || !machine->adapter_count ||
	    !machine->adapters_are_known)
		return false;
	list += *list == '=';
	while (checks_settings_item(&list, item)) {
		EACH_ADAPTER(value->host, adapter) {
			if (!strncmp(adapter->name, item, strcspn(item, ":")))
				return false;
		}
	}
	return true;
}

#define EXPANDABLE "expandable_segments:True"
#define POOLS	   "backend:cudaMallocAsync"
#define NO_EXPANDABLE                                                                              \
	"peer memory registers expandable segments only if PyTorch makes them "                    \
	"gpuDirectRDMACapable"
#define NO_POOLS "peer memory cannot register pool memory"

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
static bool checks_settings_is_too_near(const struct value *value)
{
	int level = checks_settings_level(value->text);
	struct support support;

	if (level == -1)
		return true;
	EACH_GPU(value->host, gpu) {
		const struct adapter *adapter = adapter_of_gpu(value->host, gpu, &support);
		enum pci_path distance =
			adapter ? distance_between(gpu, adapter) : PCI_PATH_UNKNOWN;

		if (distance != PCI_PATH_UNKNOWN && (int)distance > level)
			return true;
	}
	return false;
}

/* ---- the table ---- */

/* Rows of one variable are adjacent. */
static const struct setting {
	const char *variable;
	bool (*turns_off)(const struct value *value); /* NULL: shown only */
	const char *values;
	enum method harmless; /* nothing is lost if it reaches every GPU; METHODS: always lost */
	const char *words;
	const char *fix; /* NULL: unset the variable */
} settings[] = {
/* clang-format off */
#define ROW(variable, test, values, harmless, words, fix)                                          \
	{ variable, checks_settings_##test, values, harmless, words, fix },
#define SHOWN(variable)	{ variable, NULL, NULL, METHODS, NULL, NULL },
#define OFF(variable, test, values, words) ROW(variable, test, values, METHODS, words, NULL)
#define OFF_FIX(variable, test, values, words, fix) ROW(variable, test, values, METHODS, words, fix)
#define LACKS(variable, test, values, words, part)                                                 \
	OFF_FIX(variable, test, values, words, "add " part " to " variable ", or unset it")
#define LEAVES_PEER_MEMORY(variable, test, values, library)                                        \
	ROW(variable, test, values, METHOD_PEER_MEMORY, library " then needs nvidia-peermem", NULL)
#define NEEDS_DMA_BUF(variable, part, words)                                                       \
	ROW(variable, has, part, METHOD_DMA_BUF, words, "take " part " out of " variable)
	OFF("UCX_IB_GPU_DIRECT_RDMA", is, NO, "UCX then copies through the host")
	LEAVES_PEER_MEMORY("UCX_CUDA_COPY_DMABUF", is, NO, "UCX")
	OFF("UCX_MEM_CUDA_HOOK_MODE", is, "none", "UCX then intercepts no free of GPU memory")
	SHOWN("UCX_MEM_EVENTS")
	SHOWN("UCX_MEMTYPE_CACHE")
	SHOWN("UCX_RCACHE_ENABLE")
	SHOWN("UCX_IB_REG_METHODS")
	LACKS("UCX_TLS", begins_none, "all cuda", "UCX then takes no GPU memory", "cuda")
	LACKS("UCX_TLS", excludes, "cuda cuda_copy", "UCX then takes no GPU memory", "cuda")
	LACKS("UCX_TLS", begins_none, "all ib rc dc ud srd gga", "UCX then uses no adapter", "rc")
	LACKS("UCX_TLS", excludes, "ib", "UCX then uses no adapter", "rc")
	OFF("UCX_NET_DEVICES", names_no_adapter, NULL,
		"no adapter of this host, UCX then uses none")
	OFF_FIX("NCCL_NET_GDR_LEVEL", is_too_near, NULL, "NCCL then copies through the host",
		"unset NCCL_NET_GDR_LEVEL, or set it to the distance in the doctor's matrix (PHB for "
		"NODE)")
	OFF("NCCL_IB_GDR_LEVEL", is_too_near, NULL, "NCCL before 2.4 then copies through the host")
	OFF("NCCL_IB_CUDA_SUPPORT", is_zero, NULL, "NCCL before 2.4 then copies through the host")
	OFF("NCCL_NET_GDR_READ", is_zero, NULL, "NCCL then copies through the host before it sends")
	SHOWN("NCCL_NET_GDR_C2C")
	OFF("NCCL_NET", is, "Socket", "NCCL then uses no adapter")
	SHOWN("NCCL_NET_PLUGIN")
	OFF("NCCL_IB_DISABLE", is_number, NULL, "NCCL then uses no adapter")
	OFF("NCCL_IB_HCA", names_no_adapter, NULL, "no adapter of this host, NCCL then uses none")
	LEAVES_PEER_MEMORY("NCCL_DMABUF_ENABLE", is_zero, NULL, "NCCL")
	SHOWN("NCCL_IB_DATA_DIRECT")
	OFF("NVSHMEM_REMOTE_TRANSPORT", is, "none", "NVSHMEM then uses no adapter")
	LEAVES_PEER_MEMORY("NVSHMEM_IB_DISABLE_DMABUF", is, YES, "NVSHMEM")
	OFF("FI_PROVIDER", has_no_other, NO_FABRIC, "libfabric then uses no adapter")
	SHOWN("FI_HMEM")
	OFF("FI_HMEM_DISABLE_P2P", is, YES, "libfabric then copies through the host")
	LEAVES_PEER_MEMORY("FI_HMEM_CUDA_USE_DMABUF", is, NO, "libfabric")
	SHOWN("FI_HMEM_CUDA_USE_GDRCOPY")
	OFF("OMPI_MCA_opal_cuda_support", is_without_ucx, NO, "Open MPI then takes no GPU memory")
	OFF("OMPI_MCA_mpi_cuda_support", is_without_ucx, NO, "Open MPI then takes no GPU memory")
	SHOWN("OMPI_MCA_pml")
	SHOWN("OMPI_MCA_btl")
	OFF("MPIR_CVAR_ENABLE_GPU", is_zero, NULL, "MPICH then takes no GPU memory")
	OFF_FIX("MPICH_GPU_SUPPORT_ENABLED", is_zero, NULL, "Cray MPICH then takes no GPU memory",
		"export MPICH_GPU_SUPPORT_ENABLED=1")
	OFF_FIX("MV2_USE_CUDA", is_zero, NULL, "MVAPICH2 then takes no GPU memory",
		"export MV2_USE_CUDA=1")
	OFF("MV2_USE_GPUDIRECT_RDMA", is_zero, NULL, "MVAPICH2 then copies through the host")
	OFF("MV2_USE_GPUDIRECT", is_zero, NULL, "MVAPICH2 then copies through the host")
	NEEDS_DMA_BUF("PYTORCH_ALLOC_CONF", EXPANDABLE, NO_EXPANDABLE)
	NEEDS_DMA_BUF("PYTORCH_ALLOC_CONF", POOLS, NO_POOLS)
	NEEDS_DMA_BUF("PYTORCH_CUDA_ALLOC_CONF", EXPANDABLE, NO_EXPANDABLE)
	NEEDS_DMA_BUF("PYTORCH_CUDA_ALLOC_CONF", POOLS, NO_POOLS)
	SHOWN("CUDA_VISIBLE_DEVICES")
	SHOWN("RDMAV_FORK_SAFE")
	SHOWN("IBV_FORK_SAFE")
	OFF("PEERPIN_DISABLE", is, YES, "peerpin then does nothing")
	/* clang-format on */
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static bool checks_settings_warn(struct host *host, const struct setting *setting, const char *text,
				 struct finding *finding)
{
	const struct value value = { host, text, setting->values };

	if (!setting->turns_off || !setting->turns_off(&value) ||
	    (setting->harmless != METHODS && method_suffices(host, setting->harmless)))
		return false;
	finding_add(finding, WARN, text_of("%s=%s: %s", setting->variable, text, setting->words));
	finding_fix(finding, setting->fix ? setting->fix : text_of("unset %s", setting->variable));
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
			finding_add(finding, OK, text_of("%s=%s", variable, value));
		warned = false;
	}
}
