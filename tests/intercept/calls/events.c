/* SPDX-License-Identifier: BSD-3-Clause */
/* events.c -- the events, checks and readings of rows, beside the calls of driver and libibverbs */
#include "calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../../vmm.h"
#include "../../worker_thread.h"
#include "base/loaded.h"
#include "memory/cuda_abi.h"
#include "peerpin.h"
#include "sim/adapter_access.h"
#include "sim/adapter_verbs.h"
#include "sim/sim_adapter.h"

#define BLOCK  ((size_t)2 << 20)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

#define EVENT(name)                                                                                \
	static uint64_t name(const uint64_t *a __attribute__((unused)),                            \
			     unsigned int count __attribute__((unused)))
#define POINTER(at) ((void *)(uintptr_t)(at))
#define TEXT(at)    ((const char *)POINTER(at))

static struct ibv_context *device(void)
{
	return POINTER(*variable("device"));
}

static struct ibv_pd *pd(void)
{
	return POINTER(*variable("pd"));
}

/* ---- readings ---- */

static const char *const names[] = {
#define STATISTIC(name, ...) #name,
#define TALLY(name, ...)     #name,
#define REASON(name, ...)    #name,
#define HISTOGRAM(...)
#include "report/statistics.def"
#undef STATISTIC
#undef TALLY
#undef REASON
#undef HISTOGRAM
#define STATISTIC(name, meaning) "adapter." #name,
	SIM_ADAPTER_STATISTICS(STATISTIC)
#undef STATISTIC
		"begun",
	"elapsed",
};
#define NAMES (sizeof(names) / sizeof(*names))
static uint64_t marked[NAMES];

static bool read_now(const char *name, uint64_t *value)
{
	static int (*own)(const char *, uint64_t *);
	uint64_t more = 0;
	struct timespec now;

	if (!own)
		own = (__typeof__(own))dlsym(RTLD_DEFAULT, "peerpin_statistic");
	if (!strcmp(name, "elapsed")) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		*value = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
		return true;
	}
	if (!strcmp(name, "begun")) {
		require(!sim_adapter_statistic("reg_mr", value) &&
			!sim_adapter_statistic("reg_dmabuf_mr", &more));
		*value += more;
		return true;
	}
	if (!strncmp(name, "adapter.", 8))
		return !sim_adapter_statistic(name + 8, value);
	return (own && !own(name, value)) || !sim_adapter_statistic(name, value);
}

bool reading(const char *name, bool since_mark, uint64_t *value)
{
	unsigned int i = 0;

	if (!read_now(name, value))
		return false;
	if (!since_mark && strcmp(name, "elapsed") != 0)
		return true;
	while (i < NAMES && strcmp(names[i], name) != 0 &&
	       (strncmp(names[i], "adapter.", 8) != 0 || strcmp(names[i] + 8, name) != 0))
		i++;
	require(i < NAMES);
	*value -= marked[i];
	return true;
}

/* What a hook of libc's function has seen since mark(). */
static uintptr_t advised_from, advised_to;

int madvise(void *address, size_t length, int advice)
{
	if (advice == MADV_REMOVE || advice == MADV_DONTNEED) {
		if ((uintptr_t)address < advised_from)
			advised_from = (uintptr_t)address;
		if ((uintptr_t)address + length > advised_to)
			advised_to = (uintptr_t)address + length;
	}
	return (int)syscall(SYS_madvise, address, length, advice);
}

EVENT(is_advised)
{
	return advised_from <= a[0] && a[0] + a[1] <= advised_to;
}

void mark(void)
{
	advised_from = UINTPTR_MAX;
	advised_to = 0;
	for (unsigned int i = 0; i < NAMES; i++) {
		marked[i] = 0;
		read_now(names[i], &marked[i]);
	}
}

/* A child counts nothing: the counters are its parent's. */
void same_counts(void)
{
	static const char *const counted[] = { "allocations",
					       "frees",
					       "untracked_frees",
					       "requests",
					       "hits",
					       "forwarded",
					       "host_requests",
					       "registrations",
					       "protection_domains",
					       "deregistrations",
					       "queries_forwarded",
					       "late_deregistrations",
					       "internal_errors",
					       "kept",
					       "reused",
					       "kept_released" };
	uint64_t value;

	for (size_t i = 0; i < sizeof(counted) / sizeof(*counted); i++) {
		require(reading(counted[i], true, &value));
		if (value)
			fprintf(stderr, "a child has counted %s\n", counted[i]);
		require(!value);
	}
}

bool constant(const char *name, uint64_t *value)
{
	static const struct {
		const char *name;
		uint64_t value;
	} constants[] = {
#define RESULT(name, value, text)	    { &(#name)[sizeof("CUDA_ERROR")], value },
#define POINTER_ATTRIBUTE(name, value, ...) { &(#name)[sizeof("CU_POINTER_ATTRIBUTE")], value },
#define CAPTURE_MODE(name, value)	    { &(#name)[sizeof("CU_STREAM_CAPTURE_MODE")], value },
#include "memory/cuda_abi.def"
#undef RESULT
#undef POINTER_ATTRIBUTE
#undef CAPTURE_MODE
		{ "MAX", UINT64_MAX },
		{ "DMA_BUF", CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD },
		{ "THRESHOLD", CU_MEMPOOL_ATTR_RELEASE_THRESHOLD },
		{ "RESERVED", CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT },
		{ "ALL", ACCESS },
		{ "WRITE", IBV_ACCESS_LOCAL_WRITE },
		{ "REMOTE_WRITE", IBV_ACCESS_REMOTE_WRITE },
		{ "READ", IBV_ACCESS_REMOTE_READ },
		{ "ATOMIC", IBV_ACCESS_REMOTE_ATOMIC },
		{ "WINDOW", IBV_ACCESS_MW_BIND },
		{ "ON_DEMAND", IBV_ACCESS_ON_DEMAND },
		{ "CHANGE_RANGE", IBV_REREG_MR_CHANGE_TRANSLATION },
		{ "CHANGE_PD", IBV_REREG_MR_CHANGE_PD },
		{ "CHANGE_ACCESS", IBV_REREG_MR_CHANGE_ACCESS },
		{ "RELAXED_ORDER", IBV_ACCESS_RELAXED_ORDERING },
		{ "REFUSED", (uint32_t)IBV_REREG_MR_ERR_CMD },
		{ "ANY_DOMAIN", ADAPTER_ANY_DOMAIN },
		{ "UNTOUCHED", UNTOUCHED },
		{ "EBUSY", EBUSY },
		{ "ENOSPC", ENOSPC },
		{ "E2BIG", E2BIG },
		{ "EINPROGRESS", EINPROGRESS },
		{ "EINVAL", EINVAL },
		{ "ENOMEM", ENOMEM },
		{ "EFAULT", EFAULT },
		{ "EBADF", EBADF },
		{ "ENOENT", ENOENT },
		{ "EOPNOTSUPP", EOPNOTSUPP },
		{ "EACCES", EACCES },
		{ "ERANGE", ERANGE },
		{ "ESTALE", ESTALE },
	};

	for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++) {
		if (!strcmp(constants[i].name, name)) {
			*value = constants[i].value;
			return true;
		}
	}
	return false;
}

/* ---- the driver's own functions ---- */

static struct object_tables raw_tables;

static int read_raw(struct dl_phdr_info *object, size_t size, void *driver)
{
	(void)size;
	return object->dlpi_addr == ((struct link_map *)driver)->l_addr &&
	       object_read(object, &raw_tables);
}

static void find_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	require(driver && dl_iterate_phdr(read_raw, driver));
}

/* Without dlsym, which peerpin intercepts. Threads of a row call it at once. */
void *raw_function(const char *name)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_driver);
	return object_find(&raw_tables, name);
}

#define RAW(symbol) ((__typeof__(symbol) *)raw_function(#symbol))

/* 0: there is no memory. `list`: of that form of the function. */
static uint64_t tag_by(__typeof__(cuPointerGetAttributes) *list, CUdeviceptr address)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
	uint64_t id = 0;
	void *value = &id;

	require_cuda(list(1, &attribute, &value, address));
	return id;
}

static uint64_t raw_tag(CUdeviceptr address)
{
	return tag_by(RAW(cuPointerGetAttributes), address);
}

/* ---- state of the process ---- */

static bool task_line(pid_t thread, const char *key, char *value, size_t size)
{
	size_t length = strlen(key);
	char name[64], line[512];
	bool found = false;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/self/task/%d/status", (int)thread);
	file = fopen(name, "r");
	while (file && !found && fgets(line, sizeof(line), file))
		found = !strncmp(line, key, length) && line[length] == ':';
	if (file)
		fclose(file);
	if (!found)
		return false;
	line[strcspn(line, "\n")] = '\0';
	snprintf(value, size, "%s", line + length + 1 + strspn(line + length + 1, "\t "));
	return true;
}

bool thread_sleeps(pid_t thread)
{
	char state[64];

	return task_line(thread, "State", state, sizeof(state)) && *state == 'S';
}

static struct ibv_context *open_adapter(unsigned int number)
{
	int most = 0;
	struct ibv_device **list = ibv_get_device_list(&most);
	struct ibv_context *opened;

	require(list && (int)number < most && !list[most]);
	opened = ibv_open_device(list[number]);
	ibv_free_device_list(list);
	require(opened);
	return opened;
}

void set_up(void)
{
	CUcontext context;
	CUdevice gpu;

	require_cuda(cuInit(0));
	require_cuda(cuDeviceGet(&gpu, 0));
	require_cuda(cuCtxCreate_v2(&context, 0, gpu));
	*variable("context") = (uintptr_t)context;
	*variable("device") = (uintptr_t)open_adapter(0);
	*variable("pd") = (uintptr_t)ibv_alloc_pd(device());
	require(pd());
}

void enter_context(void)
{
	if (*variable("context"))
		require_cuda(cuCtxSetCurrent(POINTER(*variable("context"))));
}

EVENT(begin)
{
	set_up();
	return 0;
}

EVENT(nothing)
{
	return 0;
}

EVENT(mark_readings)
{
	mark();
	return 0;
}

/* count NAME READING */
EVENT(count_now)
{
	return !read_now(TEXT(a[1]), POINTER(a[0]));
}

EVENT(let)
{
	require(count == 2);
	*(uint64_t *)POINTER(a[0]) = a[1];
	return 0;
}

/* 8 bytes of memory of the process */
EVENT(store)
{
	memcpy(POINTER(a[0]), &a[1], sizeof(a[1]));
	return 0;
}

EVENT(equal)
{
	require(count == 2);
	return a[0] == a[1];
}

/* errno of the call before */
EVENT(error)
{
	return (uint64_t)call_errno == a[0];
}

EVENT(set)
{
	return (uint64_t)sim_adapter_set(TEXT(a[0]), count > 1 ? a[1] : 1);
}

/* ---- memory ---- */

EVENT(allocate)
{
	require(count == 2);
	return cuMemAlloc_v2(POINTER(a[0]), a[1]);
}

EVENT(give_back)
{
	require(count == 1);
	return cuMemFree_v2(a[0]);
}

EVENT(host)
{
	return cuMemHostAlloc(POINTER(a[0]), a[1], (unsigned int)a[2]);
}

EVENT(free_host)
{
	return cuMemFreeHost(POINTER(a[0]));
}

/* Allocate and free: the memory is kept. */
EVENT(keep)
{
	CUdeviceptr *at = POINTER(a[0]);
	uint64_t id;

	require_cuda(cuMemAlloc_v2(at, a[1]));
	id = raw_tag(*at);
	require_cuda(cuMemFree_v2(*at));
	return !id || raw_tag(*at) != id;
}

EVENT(keep_host)
{
	CUdeviceptr *at = POINTER(a[0]);
	uint64_t id;

	require_cuda(cuMemHostAlloc(POINTER(a[0]), a[1], 0));
	id = raw_tag(*at);
	require_cuda(cuMemFreeHost(POINTER(*at)));
	return !id || raw_tag(*at) != id;
}

/* The driver refuses more than any machine has. For an allocation from a pool peerpin cannot say
 * which GPU has too little. */
EVENT(release_all)
{
	CUmemoryPool pool = NULL;
	CUdeviceptr address;
	void *more;

	cuDeviceGetDefaultMemPool(&pool, 0);
	cuMemAllocFromPoolAsync(&address, (size_t)1 << 46, pool, NULL);
	cuMemHostAlloc(&more, (size_t)1 << 60, 0);
	return 0;
}

EVENT(reserve)
{
	return cuMemAddressReserve(POINTER(a[0]), (count > 1 ? a[1] : 1) * BLOCK, 0, 0, 0);
}

/* Until the driver reserves addresses of that range again. */
EVENT(reserve_in)
{
	CUdeviceptr other;

	for (int i = 0; i < 200; i++) {
		require_cuda(cuMemAddressReserve(&other, BLOCK, 0, 0, 0));
		if (other - a[0] < a[1])
			return 0;
	}
	return 1;
}

/* map ADDRESS [BLOCKS [plain]] */
EVENT(map)
{
	size_t size = (count > 1 ? a[1] : 1) * BLOCK;
	CUmemGenericAllocationHandle handle;

	require_cuda(cuMemCreate(&handle, size, count > 2 ? &vmm_plain : &vmm_shared, 0));
	require_cuda(cuMemMap(a[0], size, 0, handle, 0));
	return cuMemRelease(handle);
}

EVENT(create)
{
	CUmemAllocationProp properties = vmm_plain;

	properties.location.id = (int)a[2];
	return cuMemCreate(POINTER(a[0]), a[1], &properties, 0);
}

/* access ADDRESS SIZE none|r|rw [LOCATION [TYPE]] */
EVENT(give_access)
{
	CUmemAccessDesc access = { .location = { count > 4 ? (CUmemLocationType)a[4]
							   : CU_MEM_LOCATION_TYPE_DEVICE,
						 (int)a[3] } };

	access.flags = *TEXT(a[2]) == 'n'	  ? CU_MEM_ACCESS_FLAGS_PROT_NONE
		       : !strcmp(TEXT(a[2]), "r") ? CU_MEM_ACCESS_FLAGS_PROT_READ
						  : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return cuMemSetAccess(a[0], a[1], &access, 1);
}

EVENT(export_range)
{
	*(uint64_t *)POINTER(a[0]) = (uint64_t)-1;
	return cuMemGetHandleForAddressRange(POINTER(a[0]), a[1], a[2],
					     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, a[3]);
}

EVENT(is_exported)
{
	int file = -1;

	require(count >= 2);
	return cuMemGetHandleForAddressRange(&file, a[0], a[1], CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					     a[2]) == CUDA_SUCCESS &&
	       !close(file);
}

EVENT(is_dma_buf)
{
	char path[32], name[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", (int)a[0]);
	return readlink(path, name, sizeof(name) - 1) > 0 && strstr(name, "peerpin-sim-dmabuf") &&
	       fcntl((int)a[0], F_GETFD) == FD_CLOEXEC &&
	       (fcntl((int)a[0], F_GETFL) & O_ACCMODE) == O_RDWR;
}

/* Each export of the simulated driver is a file of its own. */
EVENT(is_one_file)
{
	struct stat one, other;

	return !fstat((int)a[0], &one) && !fstat((int)a[1], &other) && one.st_ino == other.st_ino;
}

/* Without those of the adapter's registrations, which are the kernel's on hardware. */
EVENT(dma_bufs)
{
	char path[32], name[64];
	uint64_t live, open = 0;
	ssize_t length;

	for (int fd = 0; fd < FD_SETSIZE + 256; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		length = readlink(path, name, sizeof(name) - 1);
		name[length < 0 ? 0 : length] = '\0';
		open += strstr(name, "peerpin-sim-dmabuf") != NULL;
	}
	require(read_now("live", &live));
	return open - live == a[0];
}

/* gpu-bytes LEAST MOST: that the kernel keeps for device memory */
EVENT(gpu_bytes)
{
	char path[32], name[64];
	uint64_t bytes = 0;
	struct stat file;
	ssize_t length;

	for (int fd = 0; fd < 256; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		length = readlink(path, name, sizeof(name) - 1);
		name[length < 0 ? 0 : length] = '\0';
		if (strstr(name, "peerpin-sim-gpu") && !fstat(fd, &file))
			bytes += (uint64_t)file.st_blocks * 512;
	}
	return bytes >= a[0] && bytes <= a[1];
}

EVENT(open_files)
{
	uint64_t *files = POINTER(a[0]);
	DIR *folder = opendir("/proc/self/fd");

	require(folder);
	*files = 0;
	while (readdir(folder))
		++*files;
	return (uint64_t)closedir(folder);
}

/* Memory of the process: zeroes. */
EVENT(pages)
{
	void *memory = mmap(NULL, a[1], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*(uint64_t *)POINTER(a[0]) = (uintptr_t)memory;
	return memory == MAP_FAILED;
}

EVENT(poke)
{
	char byte = (char)a[1];

	return cuMemcpyHtoD_v2(a[0], &byte, 1);
}

EVENT(has_byte)
{
	char byte = 0;

	return cuMemcpyDtoH_v2(&byte, a[0], 1) == CUDA_SUCCESS && byte == (char)a[1];
}

EVENT(read_tag)
{
	*(uint64_t *)POINTER(a[0]) = raw_tag(a[1]);
	return 0;
}

/* Memory of the driver, and memory of the program. */
EVENT(exists)
{
	return count > 1 ? raw_tag(a[0]) == a[1] : raw_tag(a[0]) != 0;
}

EVENT(is_seen)
{
	return tag_by(cuPointerGetAttributes, a[0]) != 0;
}

/* From the record: a counter says so. */
EVENT(is_answered)
{
	uint64_t before, after, id = 0;

	require(read_now("queries_answered", &before));
	if (cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, a[0]) != CUDA_SUCCESS || !id)
		return 0;
	return read_now("queries_answered", &after) && after == before + 1;
}

/* Base and length of the memory at an address inside, in each way that the driver answers. */
EVENT(has_range)
{
	enum { ENTRIES = 30 }; /* more than peerpin answers */
	CUpointer_attribute attributes[ENTRIES];
	size_t length, lengths[ENTRIES];
	void *data[ENTRIES];
	CUdeviceptr base;

	if (cuMemGetAddressRange_v2(&base, &length, a[0] + a[1] - 1) || base != a[0] ||
	    length != a[1] ||
	    cuPointerGetAttribute(&length, CU_POINTER_ATTRIBUTE_RANGE_SIZE, a[0]) || length != a[1])
		return 0;
	for (unsigned int i = 0; i < ENTRIES; i++) {
		attributes[i] = CU_POINTER_ATTRIBUTE_RANGE_SIZE;
		data[i] = &lengths[i];
	}
	if (cuPointerGetAttributes(ENTRIES, attributes, data, a[0]) || lengths[0] != a[1] ||
	    lengths[ENTRIES - 1] != a[1])
		return 0;
	attributes[1] = (CUpointer_attribute)999;
	return cuPointerGetAttributes(2, attributes, data, a[0]) != CUDA_SUCCESS &&
	       lengths[0] == a[1];
}

EVENT(sync_memops)
{
	const unsigned int on = 1;

	return cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a[0]);
}

EVENT(is_free)
{
	size_t bytes, total;

	require_cuda((count > 1 ? cuMemGetInfo_v2 : RAW(cuMemGetInfo_v2))(&bytes, &total));
	return bytes == a[0];
}

/* ---- other processes and contexts ---- */

EVENT(open_ipc)
{
	static CUipcMemHandle handle;
	static FILE *exporter;

	if (!exporter) {
		exporter = popen(getenv("MATRIX_EXPORTER"), "r");
		require(exporter && fread(&handle, sizeof(handle), 1, exporter) == 1);
	}
	return cuIpcOpenMemHandle_v2(POINTER(a[0]), handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

/* The driver retains the primary context of GPU 0 for it: peerpin does not count that. */
EVENT(green)
{
	CUdevResourceDesc description;
	_Alignas(16) char space[256]; /* of a CUdevResource, whose layout nothing here needs */
	CUdevResource *resource = (CUdevResource *)space;

	require_cuda(cuDeviceGetDevResource(0, resource, CU_DEV_RESOURCE_TYPE_SM));
	require_cuda(cuDevResourceGenerateDesc(&description, resource, 1));
	return cuGreenCtxCreate(POINTER(a[0]), description, 0, CU_GREEN_CTX_DEFAULT_STREAM);
}

EVENT(is_active)
{
	unsigned int flags;
	int active;

	require_cuda(cuDevicePrimaryCtxGetState((CUdevice)a[0], &flags, &active));
	return (uint64_t)active;
}

EVENT(pool)
{
	CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };

	return cuMemPoolCreate(POINTER(a[0]), &properties);
}

EVENT(pool_use)
{
	CUdeviceptr address;

	require_cuda(cuMemAllocFromPoolAsync(&address, a[1], POINTER(a[0]), NULL));
	require_cuda(cuMemFreeAsync(address, NULL));
	return cuStreamSynchronize(NULL);
}

/* pool-has POOL ATTRIBUTE VALUE: for the driver; pool-shows: for the program */
static bool pool_is(__typeof__(cuMemPoolGetAttribute) *get, const uint64_t *a)
{
	uint64_t value = 7;

	require_cuda(get(POINTER(a[0]), (CUmemPool_attribute)a[1], &value));
	return value == a[2];
}

EVENT(pool_has)
{
	return pool_is(RAW(cuMemPoolGetAttribute), a);
}

EVENT(pool_shows)
{
	return pool_is(cuMemPoolGetAttribute, a);
}

EVENT(pool_set)
{
	uint64_t value = a[2];

	return cuMemPoolSetAttribute(POINTER(a[0]), (CUmemPool_attribute)a[1], &value);
}

EVENT(found_in)
{
	Dl_info object;
	void *found = dlsym(dlopen("libcuda.so.1", RTLD_NOW), TEXT(a[0]));

	return found && dladdr(found, &object) && strstr(object.dli_fname, TEXT(a[1]));
}

/* ---- registrations ---- */

static struct ibv_mr *registered(uint64_t address, uint64_t length, const uint64_t *a,
				 unsigned int count)
{
	struct ibv_pd *where = count > 1 ? POINTER(a[1]) : pd();

	return ibv_reg_mr(where, POINTER(address), length, count ? (int)a[0] : ACCESS);
}

/* register MR ADDRESS LENGTH [ACCESS [PD]] */
EVENT(register_mr)
{
	struct ibv_mr *mr = registered(a[1], a[2], a + 3, count > 3 ? count - 3 : 0);

	*(uint64_t *)POINTER(a[0]) = (uintptr_t)mr;
	return !mr;
}

EVENT(use)
{
	struct ibv_mr *mr = registered(a[0], a[1], a + 2, count > 2 ? count - 2 : 0);

	return !mr || ibv_dereg_mr(mr);
}

/* The errno of a registration; 0: it succeeded, and is deregistered. */
EVENT(try_register)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = registered(a[0], a[1], a + 2, count > 2 ? count - 2 : 0);
	return mr ? (uint64_t)ibv_dereg_mr(mr) : (uint64_t)errno;
}

/* extend MR LENGTH MASK ADDRESS IOVA [FILE OFFSET] */
EVENT(extend)
{
	struct ibv_mr_init_attr attributes = { .length = a[1],
					       .access = ACCESS,
					       .comp_mask = a[2],
					       .addr = POINTER(a[3]),
					       .iova = a[4],
					       .fd = count > 5 ? (int)a[5] : -1,
					       .fd_offset = a[6] };
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr_ex(pd(), &attributes);
	*(uint64_t *)POINTER(a[0]) = (uintptr_t)mr;
	return mr ? 0 : (uint64_t)errno;
}

EVENT(drop)
{
	return (uint64_t)ibv_dereg_mr(POINTER(a[0]));
}

EVENT(key)
{
	*(uint64_t *)POINTER(a[0]) = ((struct ibv_mr *)POINTER(a[1]))->rkey;
	return 0;
}

EVENT(same_key)
{
	return ((struct ibv_mr *)POINTER(a[0]))->rkey == ((struct ibv_mr *)POINTER(a[1]))->rkey;
}

EVENT(is_of_pd)
{
	return ((struct ibv_mr *)POINTER(a[0]))->pd == POINTER(a[1]);
}

EVENT(starts_at)
{
	const struct ibv_mr *mr = POINTER(a[0]);

	return mr->addr == POINTER(a[1]) && (count < 3 || mr->length == a[2]);
}

/* filled MR LENGTH ADDRESS PD KIND ACCESS: fields that a provider's call fills, and leaves */
EVENT(filled)
{
	const struct verbs_mr *vmr = POINTER(a[0]);
	const struct ibv_mr *mr = &vmr->ibv_mr;

	return mr->context == device() && mr->lkey == mr->rkey && mr->length == a[1] &&
	       mr->addr == POINTER(a[2]) && mr->pd == POINTER(a[3]) && vmr->mr_type == a[4] &&
	       vmr->access == (int)a[5];
}

EVENT(import)
{
	struct ibv_mr *of = POINTER(a[1]);

	*(uint64_t *)POINTER(a[0]) = (uintptr_t)ibv_import_mr(pd(), of->handle + (uint32_t)a[2]);
	return count < 3 && !*(uint64_t *)POINTER(a[0]);
}

/* Its key is that of a live region, without which the adapter aborts. */
EVENT(reads)
{
	char byte;

	return !sim_adapter_read(count > 2 ? POINTER(a[2]) : device(), (uint32_t)a[0], a[1], &byte,
				 1);
}

/* read KEY ADDRESS BYTES, write KEY ADDRESS BYTES: the error */
EVENT(read_by)
{
	char bytes[64];

	require(count == 3 && a[2] <= sizeof(bytes));
	return (uint64_t)-sim_adapter_read(device(), (uint32_t)a[0], a[1], bytes, a[2]);
}

EVENT(write_by)
{
	char bytes[64];

	require(count == 3 && a[2] <= sizeof(bytes));
	memset(bytes, 7, sizeof(bytes));
	return (uint64_t)-sim_adapter_write(device(), (uint32_t)a[0], a[1], bytes, a[2]);
}

EVENT(is_stale)
{
	bool read;

	require(!sim_adapter_set("strict", 0));
	read = reads(a, count);
	require(!sim_adapter_set("strict", 1));
	return !read;
}

EVENT(is_over_pcie)
{
	return sim_adapter_mapping(device(), ((struct ibv_mr *)POINTER(a[0]))->lkey) == 1;
}

EVENT(parent)
{
	*(uint64_t *)POINTER(a[0]) = (uintptr_t)sim_adapter_parent_domain(pd());
	return !*(uint64_t *)POINTER(a[0]);
}

EVENT(open_device)
{
	*(uint64_t *)POINTER(a[0]) = (uintptr_t)open_adapter((unsigned int)a[1]);
	return 0;
}

EVENT(is_named)
{
	struct ibv_context *context = POINTER(a[0]);

	return !strcmp(ibv_get_device_name(context->device), TEXT(a[1]));
}

EVENT(transport)
{
	device()->device->transport_type = (int)a[0];
	return 0;
}

EVENT(max_mr)
{
	struct ibv_device_attr attributes;

	return !ibv_query_device(device(), &attributes) && attributes.max_mr == (int)a[0];
}

/* client PD LIBRARY [local|global|deep]: a protection domain of ../fabric/fabric.c by that name, or
 * of this program */
EVENT(client)
{
	const char *mode = count > 2 ? TEXT(a[2]) : "local";
	struct ibv_pd *(*alloc)(struct ibv_context *) = ibv_alloc_pd;
	char path[96];
	void *handle;

	if (strcmp(TEXT(a[1]), "program") != 0) {
		snprintf(path, sizeof(path), "tests/intercept/fabric/lib%s.so.1", TEXT(a[1]));
		handle = dlopen(path, RTLD_LAZY | (*mode == 'g' ? RTLD_GLOBAL : RTLD_LOCAL) |
					      (*mode == 'd' ? RTLD_DEEPBIND : 0));
		require(handle);
		alloc = (struct ibv_pd * (*)(struct ibv_context *))
			dlsym(handle, "client_alloc_pd");
	}
	*(uint64_t *)POINTER(a[0]) = (uintptr_t)alloc(device());
	return 0;
}

/* two-parts PD ADDRESS ALONE: parts of a registered allocation of a block have equal keys, unless
 * the client has each key once */
EVENT(two_parts)
{
	const size_t part = BLOCK / 2;
	struct ibv_pd *where = POINTER(a[0]);
	struct ibv_mr *first, *second;
	uint64_t made, hits;
	char byte;

	require(!ibv_dereg_mr(ibv_reg_mr(where, POINTER(a[1]), BLOCK, ACCESS)));
	mark();
	for (int round = 0; round < 3; round++) {
		first = ibv_reg_mr(where, POINTER(a[1]), part, ACCESS);
		second = ibv_reg_mr(where, POINTER(a[1] + part), part, ACCESS);
		require(first && second && (first->rkey != second->rkey) == a[2]);
		require(!sim_adapter_read(device(), first->rkey, a[1], &byte, 1) &&
			!sim_adapter_read(device(), second->rkey, a[1] + part, &byte, 1));
		require(!ibv_dereg_mr(first) && !ibv_dereg_mr(second));
	}
	/* Alone: the first time registers the second part, beside the whole. */
	require(reading("adapter.registrations", true, &made) && reading("hits", true, &hits));
	return made > a[2] || hits != 6 - made;
}

/* Look-ups of ibv_alloc_pd, with a version and without. */
EVENT(look_up_alloc_pd)
{
	void *verbs = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD), *found;

	require(verbs && !dlsym(verbs, "no such symbol"));
	found = count > 1 ? dlvsym(verbs, "ibv_alloc_pd", "IBVERBS_1.1")
			  : dlsym(verbs, "ibv_alloc_pd");
	/* No error of another look-up is left, and the wrapper is found. */
	require(found && !dlerror() && found == (void *)ibv_alloc_pd);
	require(!dlvsym(verbs, "ibv_alloc_pd", "IBVERBS_1.0") && dlerror());
	*(uint64_t *)POINTER(a[0]) =
		(uintptr_t)((struct ibv_pd * (*)(struct ibv_context *)) found)(device());
	return 0;
}

/* ---- accesses of the adapter ---- */

static struct adapter_use uses[4];

/* access-begin SLOT DOMAIN KEY ADDRESS BYTES [ACCESS]: the error */
EVENT(access_begin)
{
	return (uint64_t)-adapter_use_begin(device(), (uint32_t)a[1], (uint32_t)a[2], a[3], a[4],
					    (int)a[5], &uses[a[0]]);
}

EVENT(access_end)
{
	adapter_use_end(&uses[a[0]]);
	return 0;
}

EVENT(access_copy)
{
	char from[512], to[512] = "";

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (char)(i % 127 + 1);
	adapter_copy_to(&uses[a[0]], a[1], from, a[2], a[2] % 2);
	adapter_copy_from(&uses[a[0]], a[1], to, a[2]);
	return memcmp(from, to, a[2]) || to[a[2]];
}

/* ---- subscribers ---- */

#define EVENTS_MAX (1u << 16)

static struct logged {
	void *place; /* of the subscription */
	bool allocated;
	struct peerpin_allocation of;
	bool exists, seen;
	unsigned long long access;
} log_of_events[EVENTS_MAX];
static _Atomic unsigned int events_logged;

static void record(const struct peerpin_allocation *allocation, void *place, bool allocated)
{
	CUmemLocation location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	unsigned int i = events_logged++;

	require(i < EVENTS_MAX);
	log_of_events[i].allocated = allocated;
	log_of_events[i].of = *allocation;
	log_of_events[i].place = place;
	log_of_events[i].exists = raw_tag(allocation->base) != 0;
	log_of_events[i].seen = tag_by(cuPointerGetAttributes, allocation->base) != 0;
	if (allocation->kind == PEERPIN_MAPPED)
		cuMemGetAccess(&log_of_events[i].access, &location, allocation->base);
	language_at(allocated ? AT_ALLOCATED : AT_FREEING);
}

static void on_allocated(const struct peerpin_allocation *allocation, void *place)
{
	record(allocation, place, true);
}

static void on_freeing(const struct peerpin_allocation *allocation, void *place)
{
	record(allocation, place, false);
}

#define PUBLIC(name) ((__typeof__(name) *)dlsym(RTLD_DEFAULT, #name))

EVENT(subscribe)
{
	const struct peerpin_subscriber subscriber = { .struct_size = sizeof(subscriber),
						       .context = POINTER(a[0]),
						       .allocated = on_allocated,
						       .freeing = on_freeing };
	int number = 0, error;

	for (unsigned int i = 0; i < events_logged; i++) {
		if (log_of_events[i].place == POINTER(a[0]))
			log_of_events[i].place = NULL;
	}
	error = PUBLIC(peerpin_subscribe)(&subscriber, &number);
	*(uint64_t *)POINTER(a[0]) = (uint64_t)number;
	return (uint64_t)error;
}

/* The event of the subscription that reported the memory as allocated before; NULL: none. */
static const struct logged *allocation_of(const struct logged *event)
{
	for (const struct logged *each = log_of_events; each < event; each++) {
		if (each->place == event->place && each->allocated && each->of.id == event->of.id)
			return each;
	}
	return NULL;
}

static bool is_as_for_driver(const struct peerpin_allocation *allocation)
{
	CUdeviceptr base;
	size_t size;

	return allocation->struct_size == sizeof(*allocation) && allocation->id &&
	       allocation->device == 0 && allocation->kind == PEERPIN_DEVICE &&
	       !cuMemGetAddressRange_v2(&base, &size, allocation->base) &&
	       base == allocation->base && size == allocation->size;
}

/* delivered &SUBSCRIPTION [LIVE]: its events are of each allocation once, and once of its free, the
 * same; so many were not freed, and are as for the driver. A free before the report is reported
 * alone. */
EVENT(delivered)
{
	uint64_t live = 0;

	for (unsigned int i = 0; i < events_logged; i++) {
		const struct logged *event = &log_of_events[i], *freed = NULL, *before;

		if (event->place != POINTER(a[0]))
			continue;
		before = allocation_of(event);
		if (!event->allocated) {
			require(!before || !memcmp(&before->of, &event->of, sizeof(event->of)));
			continue;
		}
		require(!before);
		for (unsigned int j = 0; j < events_logged; j++) {
			const struct logged *other = &log_of_events[j];

			if (other->place != event->place || other->allocated ||
			    other->of.id != event->of.id)
				continue;
			require(!freed && j > i);
			freed = other;
		}
		require(freed || count < 2 || is_as_for_driver(&event->of));
		live += !freed;
	}
	return count < 2 || live == a[1];
}

/* Of no consequence: a thread holds the list's lock meanwhile. A look-up takes the linker's lock,
 * which only fork() frees in a child. */
EVENT(subscribe_once)
{
	static __typeof__(peerpin_subscribe) *begins;
	static __typeof__(peerpin_unsubscribe) *ends;
	const struct peerpin_subscriber subscriber = { .struct_size = sizeof(subscriber) };
	int number;

	begins = begins ? begins : PUBLIC(peerpin_subscribe);
	ends = ends ? ends : PUBLIC(peerpin_unsubscribe);
	return (uint64_t)(begins(&subscriber, &number) || ends(number));
}

EVENT(unsubscribe)
{
	return (uint64_t)PUBLIC(peerpin_unsubscribe)((int)a[0]);
}

/* Of subscriptions that have ended: a row with many of them fills the log. */
EVENT(forget_events)
{
	events_logged = 0;
	return 0;
}

EVENT(events)
{
	return events_logged == a[0];
}

/* event N allocated|freeing ADDRESS SIZE */
EVENT(event_is)
{
	return a[0] < events_logged && log_of_events[a[0]].allocated == (*TEXT(a[1]) == 'a') &&
	       log_of_events[a[0]].of.base == a[2] && log_of_events[a[0]].of.size == a[3] &&
	       log_of_events[a[0]].exists;
}

EVENT(event_accessible)
{
	return log_of_events[a[0]].access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

EVENT(event_visible)
{
	return log_of_events[a[0]].seen;
}

EVENT(event_id_of)
{
	return log_of_events[a[0]].of.id == log_of_events[a[1]].of.id;
}

/* ---- threads and processes ---- */

EVENT(join)
{
	struct job *job = job_of(a[0]);
	void *result;

	require(!pthread_join(job->thread, &result));
	job->cancelled = result == PTHREAD_CANCELED;
	return 0;
}

EVENT(await_rank)
{
	int status;

	until(waitpid(job_of(a[0])->id, &status, WNOHANG) == job_of(a[0])->id);
	return (uint64_t)status;
}

EVENT(is_done)
{
	return job_of(a[0])->done;
}

EVENT(sleeps)
{
	return job_of(a[0])->id && thread_sleeps(job_of(a[0])->id);
}

EVENT(cancel)
{
	return (uint64_t)pthread_cancel(job_of(a[0])->thread);
}

static _Atomic int handled;
static _Atomic pid_t receiver;

static void handle(int signal)
{
	(void)signal;
	receiver = gettid();
	handled++;
}

/* signal N FLAGS: to the thread, which runs a handler */
EVENT(signal_thread)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = a[1] ? SA_RESTART : 0 };
	int before = handled;

	require(!sigaction(SIGUSR1, &action, NULL) && !pthread_kill(job_of(a[0])->thread, SIGUSR1));
	until(handled > before);
	return 0;
}

static void *let_go(void *waiting)
{
	until(thread_sleeps((pid_t)(intptr_t)waiting));
	require(!sim_adapter_set("hold", 0));
	return NULL;
}

/* Release held registrations once this thread waits. */
EVENT(let_go_when_waiting)
{
	pthread_t thread;

	return (uint64_t)(pthread_create(&thread, NULL, let_go, POINTER(gettid())) ||
			  pthread_detach(thread));
}

EVENT(has_worker)
{
	return worker_thread() != 0;
}

EVENT(worker_sleeps)
{
	return thread_sleeps(worker_thread());
}

static void at_exit(void)
{
	language_at(AT_EXIT);
}

static void at_fork(void)
{
	language_at(AT_FORK);
}

static _Atomic uint64_t calloc_after; /* requests until the statements run; 0: never */

static uint64_t calloc_fails; /* number of the call from now on that fails; 0: none */

void *__libc_calloc(size_t size, size_t times);

void *calloc(size_t times, size_t size)
{
	uint64_t requests;

	if (calloc_after && read_now("requests", &requests) && requests >= calloc_after) {
		calloc_after = 0;
		language_at(AT_CALLOC);
	}
	return calloc_fails && !--calloc_fails ? NULL : __libc_calloc(times, size);
}

EVENT(fail_calloc)
{
	calloc_fails = a[0];
	return 0;
}

EVENT(at_occasion)
{
	void (**hook)(enum occasion);
	uint64_t requests;

	if (a[0] == AT_EXIT)
		return (uint64_t)atexit(at_exit);
	if (a[0] == AT_FORK)
		return (uint64_t)pthread_atfork(at_fork, NULL, NULL);
	if (a[0] >= AT_EXPORTED) {
		hook = (void (**)(enum occasion))dlsym(RTLD_DEFAULT, "driver_hook");
		*hook = language_at;
		return 0;
	}
	require(read_now("requests", &requests));
	calloc_after = requests + 1;
	return 0;
}

static void *exit_on_thread(void *status)
{
	exit((int)(intptr_t)status);
}

/* end WAY [STATUS] */
EVENT(end)
{
	const char *way = TEXT(a[0]);
	int status = count > 1 ? (int)a[1] : 7;
	pthread_t thread;
	char text[32];

	if (!strcmp(way, "exit"))
		exit(status);
	if (!strcmp(way, "_exit"))
		_exit(status);
	if (!strcmp(way, "quick_exit"))
		quick_exit(status);
	if (!strcmp(way, "abort"))
		abort();
	if (!strcmp(way, "kill"))
		raise(SIGKILL);
	if (!strcmp(way, "exec")) {
		snprintf(text, sizeof(text), "exit %d", status);
		execl("/bin/sh", "sh", "-c", text, (char *)NULL);
	}
	if (!strcmp(way, "thread") || !strcmp(way, "last-thread"))
		require(!pthread_create(&thread, NULL, exit_on_thread, POINTER(status)));
	if (!strcmp(way, "last-thread") || !strcmp(way, "main-thread"))
		pthread_exit(NULL);
	if (!strcmp(way, "thread"))
		pthread_join(thread, NULL);
	require(!"it ended");
	return 1;
}

/* As posix_spawn() and system(): the parent's memory is the child's until exec. */
EVENT(vfork_exec)
{
	pid_t child = vfork();
	int status;

	if (!child) {
		execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
		_exit(1);
	}
	until(waitpid(child, &status, WNOHANG) == child);
	return status != 3 << 8;
}

EVENT(close_files)
{
	return (uint64_t)syscall(SYS_close_range, 3, ~0u, 0);
}

static void *do_everything(void *unused)
{
	struct ibv_mr *mr;
	CUdeviceptr memory;

	enter_context();
	require_cuda(cuMemAlloc_v2(&memory, BLOCK));
	mr = ibv_reg_mr(pd(), POINTER(memory), BLOCK, ACCESS);
	require(mr && !ibv_dereg_mr(mr));
	require_cuda(cuMemFree_v2(memory));
	return unused;
}

/* Runtimes with many threads use stacks of this size. Below it lies other memory. */
EVENT(all_on_a_small_stack)
{
	enum { STACK = 16 << 10 };
	char *stack = mmap(NULL, 64 * STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;

	require(stack != MAP_FAILED);
	stack += 63 * STACK;
	require(!mprotect(stack, STACK, PROT_READ | PROT_WRITE));
	require(!pthread_attr_init(&attributes) &&
		!pthread_attr_setstack(&attributes, stack, STACK));
	for (int i = 0; i < 2; i++)
		require(!pthread_create(&thread, &attributes, do_everything, NULL) &&
			!pthread_join(thread, NULL));
	return 0;
}

/* ---- the worker ---- */

static cpu_set_t cpus_of(pid_t thread)
{
	cpu_set_t cpus;

	require(!sched_getaffinity(thread, sizeof(cpus), &cpus));
	return cpus;
}

/* The kernel cuts a full mask to the cpuset. */
static cpu_set_t cpus_of_process(void)
{
	cpu_set_t own = cpus_of(0), all;

	memset(&all, 255, sizeof(all));
	require(!sched_setaffinity(0, sizeof(all), &all));
	all = cpus_of(0);
	require(!sched_setaffinity(0, sizeof(own), &own));
	return all;
}

/* Ranks on this host: 0 without a launcher. */
static int ranks(void)
{
	const char *size = getenv("OMPI_COMM_WORLD_SIZE");

	size = size ? size : getenv("SLURM_NTASKS");
	return size ? atoi(size) : 0;
}

/* Nothing is to be seen on one. */
EVENT(leave_on_one_cpu)
{
	cpu_set_t all = cpus_of_process();

	if (CPU_COUNT(&all) == 1)
		_exit(0);
	return 0;
}

/* The worker of the rank that begins first may run until it chooses again. */
static void await_no_worker(void)
{
	uint64_t before, after;
	CUdeviceptr memory;

	do {
		until(!worker_thread());
		require(read_now("background_delays", &before));
		require_cuda(cuMemAlloc_v2(&memory, BLOCK));
		require_cuda(cuMemFree_v2(memory));
		require(read_now("background_delays", &after));
	} while (worker_thread() || before == after);
}

/* The CPU of a rank that has ended is free for the workers of others. The ranks have one parent. */
static void await_all_ranks(void)
{
	struct stat status;
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "/tmp/peerpin-calls.%d", (int)getppid());
	fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
	require(write(fd, "", 1) == 1);
	until(!fstat(fd, &status) && status.st_size >= ranks());
	unlink(name);
	close(fd);
}

/* After a request. check_calls.sh has launchers run this. The worker may use all CPUs. */
EVENT(worker_where_ranks_leave_cpus)
{
	cpu_set_t its, all = cpus_of_process();
	CUdeviceptr memory;

	if (CPU_COUNT(&all) <= (ranks() ? ranks() : 1)) {
		await_no_worker();
		await_all_ranks();
		fprintf(stderr, "%d CPUs, %d ranks: no worker\n", CPU_COUNT(&all), ranks());
		return 0;
	}
	/* An idle worker ends. */
	require(!sim_adapter_set("hold", 1));
	require_cuda(cuMemAlloc_v2(&memory, BLOCK));
	until(worker_thread());
	its = cpus_of(worker_thread());
	require(CPU_EQUAL(&its, &all) && sched_getscheduler(worker_thread()) == SCHED_BATCH);
	fprintf(stderr, "%d CPUs, %d ranks: the worker has %d\n", CPU_COUNT(&all), ranks(),
		CPU_COUNT(&its));
	return 0;
}

/* If every thread blocks a signal, it must stay pending instead of reaching the worker. */
EVENT(worker_receives_no_signals)
{
	struct sigaction action = { .sa_handler = handle };
	char text[64];
	uint64_t blocked;
	sigset_t mine;

	require(!sigaction(SIGUSR1, &action, NULL));
	require(task_line(worker_thread(), "SigBlk", text, sizeof(text)));
	blocked = strtoull(text, NULL, 16);
	/* 32 and 33 are libc's own (setuid() and others); SIGKILL and SIGSTOP cannot be blocked. */
	require((blocked | 1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1) | 3ull << 31) ==
		UINT64_MAX);
	sigemptyset(&mine);
	sigaddset(&mine, SIGUSR1);
	require(!pthread_sigmask(SIG_BLOCK, &mine, NULL) && !kill(getpid(), SIGUSR1));
	require(!sigpending(&mine) && sigismember(&mine, SIGUSR1) && !handled);
	require(!pthread_sigmask(SIG_UNBLOCK, &mine, NULL));
	until(handled == 1);
	require(receiver == gettid());
	require(!pthread_sigmask(SIG_BLOCK, NULL, &mine) && !sigismember(&mine, SIGTERM));
	return (uint64_t)setuid(getuid());
}

/* Signals of the thread that runs exit handlers: those of the program (SIGUSR1 is blocked). */
EVENT(block_signal)
{
	sigset_t mine;

	sigemptyset(&mine);
	sigaddset(&mine, SIGUSR1);
	return (uint64_t)pthread_sigmask(SIG_SETMASK, &mine, NULL);
}

EVENT(has_signals_of_program)
{
	sigset_t blocked;

	require(!pthread_sigmask(SIG_BLOCK, NULL, &blocked));
	return !sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGUSR1);
}

/* ---- files ("files") ---- */

static bool file_contains(const char *text)
{
	static char content[1 << 16];
	FILE *file = fopen(getenv("PEERPIN_STATS_FILE"), "r");

	if (!file)
		return false;
	content[fread(content, 1, sizeof(content) - 1, file)] = '\0';
	fclose(file);
	return strstr(content, text);
}

/* results [KEY VALUE]: the file of statistics exists, with that text */
EVENT(results)
{
	char text[128] = "";

	if (count)
		snprintf(text, sizeof(text), "\"%s\": \"%s\"", TEXT(a[0]), TEXT(a[1]));
	return file_contains(text);
}

EVENT(counters_file)
{
	char pattern[256];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s/peerpin/%d-*.stats", getenv("XDG_RUNTIME_DIR"),
		 (int)getpid());
	return !glob(pattern, 0, NULL, &found) && found.gl_pathc == 1;
}

EVENT(printed)
{
	struct stat status;

	require(!fstat(STDERR_FILENO, &status));
	*(uint64_t *)POINTER(a[0]) = (uint64_t)status.st_size;
	return 0;
}

/* As setproctitle, which also moves the environment: here nothing of it is left. */
EVENT(overwrite_start_block)
{
	char *begins = program_invocation_name, *ends = begins, *name = strrchr(begins, '/');

	program_invocation_short_name = name ? name + 1 : begins;
	for (unsigned int i = 0; environ[i]; i++) {
		if (environ[i] > begins && environ[i] < begins + (1 << 20))
			ends = environ[i] + strlen(environ[i]) > ends
				       ? environ[i] + strlen(environ[i])
				       : ends;
	}
	require(ends > begins);
	memset(begins, 'x', (size_t)(ends - begins));
	environ[0] = NULL;
	return 0;
}

EVENT(load_deep)
{
	return !dlopen(getenv("CALLS_DEEPBIND"), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
}

static const struct event list[] = {
	{ "set-up", CALL, begin },
	{ "bare", CALL, nothing },
	{ "ends", CALL, nothing },
	{ "as", CALL, nothing },
	{ "bound", CALL, nothing },
	{ "files", CALL, nothing },
	{ "behind", CALL, nothing },
	{ "mark", CALL, mark_readings },
	{ "count", PLACE, count_now },
	{ "let", PLACE, let },
	{ "store", CALL, store },
	{ "is", CHECK, equal },
	{ "error", CHECK, error },
	{ "set", CALL, set },
	{ "at-", CALL, at_occasion },
	{ "allocate", PLACE, allocate },
	{ "free", CALL, give_back },
	{ "host", PLACE, host },
	{ "free-host", CALL, free_host },
	{ "keep", PLACE, keep },
	{ "keep-host", PLACE, keep_host },
	{ "release-all", CALL, release_all },
	{ "reserve", PLACE, reserve },
	{ "reserve-in", CALL, reserve_in },
	{ "map", CALL, map },
	{ "create", PLACE, create },
	{ "access", CALL, give_access },
	{ "export", PLACE, export_range },
	{ "exported", CHECK, is_exported },
	{ "dma-buf", CHECK, is_dma_buf },
	{ "one-file", CHECK, is_one_file },
	{ "dma-bufs", CHECK, dma_bufs },
	{ "gpu-bytes", CHECK, gpu_bytes },
	{ "advised", CHECK, is_advised },
	{ "open-files", PLACE, open_files },
	{ "pages", PLACE, pages },
	{ "poke", CALL, poke },
	{ "byte", CHECK, has_byte },
	{ "tag", PLACE, read_tag },
	{ "exists", CHECK, exists },
	{ "seen", CHECK, is_seen },
	{ "answered", CHECK, is_answered },
	{ "range", CHECK, has_range },
	{ "sync-memops", CALL, sync_memops },
	{ "bytes-free", CHECK, is_free },
	{ "open-ipc", PLACE, open_ipc },
	{ "green", PLACE, green },
	{ "active", CHECK, is_active },
	{ "pool", PLACE, pool },
	{ "pool-use", CALL, pool_use },
	{ "pool-has", CHECK, pool_has },
	{ "pool-shows", CHECK, pool_shows },
	{ "pool-set", CALL, pool_set },
	{ "found-in", CHECK, found_in },
	{ "register", PLACE, register_mr },
	{ "use", CALL, use },
	{ "try", CALL, try_register },
	{ "extend", PLACE, extend },
	{ "drop", CALL, drop },
	{ "key", PLACE, key },
	{ "same-key", CHECK, same_key },
	{ "of-pd", CHECK, is_of_pd },
	{ "starts-at", CHECK, starts_at },
	{ "filled", CHECK, filled },
	{ "import", PLACE, import },
	{ "reads", CHECK, reads },
	{ "read", CALL, read_by },
	{ "write", CALL, write_by },
	{ "stale", CHECK, is_stale },
	{ "over-pcie", CHECK, is_over_pcie },
	{ "parent", PLACE, parent },
	{ "open", PLACE, open_device },
	{ "named", CHECK, is_named },
	{ "transport", CALL, transport },
	{ "max-mr", CHECK, max_mr },
	{ "client", PLACE, client },
	{ "two-parts", CALL, two_parts },
	{ "look-up-alloc-pd", PLACE, look_up_alloc_pd },
	{ "access-begin", CALL, access_begin },
	{ "access-end", CALL, access_end },
	{ "access-copy", CALL, access_copy },
	{ "subscribe", PLACE, subscribe },
	{ "subscribe-once", CALL, subscribe_once },
	{ "unsubscribe", CALL, unsubscribe },
	{ "forget-events", CALL, forget_events },
	{ "events", CHECK, events },
	{ "delivered", CHECK, delivered },
	{ "event", CHECK, event_is },
	{ "event-accessible", CHECK, event_accessible },
	{ "event-visible", CHECK, event_visible },
	{ "event-id-of", CHECK, event_id_of },
	{ "join", CALL, join },
	{ "await", CALL, await_rank },
	{ "done", CHECK, is_done },
	{ "asleep", CHECK, sleeps },
	{ "cancel", CALL, cancel },
	{ "signal", CALL, signal_thread },
	{ "let-go-when-waiting", CALL, let_go_when_waiting },
	{ "fail-calloc", CALL, fail_calloc },
	{ "worker", CHECK, has_worker },
	{ "worker-asleep", CHECK, worker_sleeps },
	{ "end", CALL, end },
	{ "vfork-exec", CALL, vfork_exec },
	{ "close-files", CALL, close_files },
	{ "all-on-a-small-stack", CALL, all_on_a_small_stack },
	{ "leave-on-one-cpu", CALL, leave_on_one_cpu },
	{ "worker-where-ranks-leave-cpus", CALL, worker_where_ranks_leave_cpus },
	{ "worker-receives-no-signals", CALL, worker_receives_no_signals },
	{ "block-signal", CALL, block_signal },
	{ "program-signals", CHECK, has_signals_of_program },
	{ "results", CHECK, results },
	{ "counters-file", CHECK, counters_file },
	{ "printed", PLACE, printed },
	{ "overwrite-start-block", CALL, overwrite_start_block },
	{ "load-deep", CALL, load_deep },
};

const struct event *event_find(const char *name)
{
	for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++) {
		if (!strcmp(list[i].name, name))
			return &list[i];
	}
	return NULL;
}
