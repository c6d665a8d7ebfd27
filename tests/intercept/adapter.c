/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter.c -- the simulated adapter: each of its faults and each of its assertions is seen
 *
 * Run with the preload and without it. Each test is a process of its own, which must end well, or
 * in the abort whose message is told. With the argument "environment" the settings come from there
 * (check_adapter.sh).
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memory/cuda_abi.h"
#include "sim/adapter_verbs.h"
#include "sim/sim_adapter.h"

#define SIZE   ((size_t)1 << 20)
#define UNIT   ((size_t)2 << 20)
#define ROUNDS 1000
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

#define require(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                    \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
#define require_cuda(call) require((call) == CUDA_SUCCESS)

static struct ibv_context *device;
static struct ibv_pd *pd;
static CUcontext context;

static bool is_preloaded(void)
{
	return dlsym(RTLD_DEFAULT, "peerpin_statistic") != NULL;
}

static uint64_t statistic(const char *name)
{
	uint64_t value;

	require(!sim_adapter_statistic(name, &value));
	return value;
}

static void set(const char *name, uint64_t value)
{
	require(!sim_adapter_set(name, value));
}

static struct ibv_context *open_device(int number)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *opened;

	require(list && number < count && !list[count]);
	opened = ibv_open_device(list[number]);
	ibv_free_device_list(list);
	require(opened);
	return opened;
}

static void set_up(void)
{
	CUdevice gpu;

	require_cuda(cuInit(0));
	require_cuda(cuDeviceGet(&gpu, 0));
	require_cuda(cuCtxCreate_v2(&context, 0, gpu));
	device = open_device(0);
	pd = ibv_alloc_pd(device);
	require(pd);
}

static CUdeviceptr allocate(size_t size)
{
	CUdeviceptr address;

	require_cuda(cuMemAlloc_v2(&address, size));
	return address;
}

static struct ibv_mr *registered(uint64_t address, size_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, (void *)address, length, RIGHTS);

	require(mr);
	return mr;
}

/* One that peerpin passes through, and does not end with its memory: the network's address is
 * another one. */
static struct ibv_mr *left_alone(uint64_t address, size_t length)
{
	struct ibv_mr *mr = ibv_reg_mr_iova(pd, (void *)address, length, address + SIZE, RIGHTS);

	require(mr);
	return mr;
}

static uint64_t host(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	require(memory != MAP_FAILED);
	return (uint64_t)memory;
}

static int failure(uint64_t address, size_t length)
{
	errno = 0;
	require(!ibv_reg_mr(pd, (void *)address, length, RIGHTS));
	return errno;
}

static int export_dmabuf(CUdeviceptr address, size_t size)
{
	int fd = -1;

	require_cuda(cuMemGetHandleForAddressRange(&fd, address, size,
						   CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	return fd;
}

static unsigned int open_files(void)
{
	unsigned int count = 0;
	DIR *folder = opendir("/proc/self/fd");

	require(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* ---- what works ---- */

static void keys_reach_what_they_are_for(void)
{
	char text[16] = "fifteen letters", read[16];
	uint64_t memory = host(SIZE);
	struct ibv_mr *mr = registered(memory, SIZE), *other;
	uint32_t key = mr->rkey;

	require(!sim_adapter_write(device, key, memory + SIZE - sizeof(text), text, sizeof(text)));
	require(!memcmp((void *)(memory + SIZE - sizeof(text)), text, sizeof(text)));
	require(!sim_adapter_read(device, key, memory + SIZE - sizeof(text), read, sizeof(read)));
	require(!memcmp(read, text, sizeof(text)));
	require(sim_adapter_read(device, key, memory + SIZE - 1, read, 2) == -ERANGE);
	require(sim_adapter_read(device, key, memory - 1, read, 2) == -ERANGE);
	require(sim_adapter_read(device, 0xffffff00, memory, read, 1) == -EINVAL);
	require(!ibv_dereg_mr(mr));
	set("strict", 0);
	require(sim_adapter_read(device, key, memory, read, 1) == -ESTALE);
	require(statistic("stale_keys") == 1);

	/* As of a real adapter: the same index, another variant. */
	mr = ibv_reg_mr(pd, (void *)memory, SIZE, IBV_ACCESS_REMOTE_READ);
	require(mr && mr->rkey >> 8 == key >> 8 && (mr->rkey & 0xff) == ((key + 1) & 0xff));
	require(sim_adapter_read(device, key, memory, read, 1) == -ESTALE);
	require(!sim_adapter_read(device, mr->rkey, memory, read, 1));
	require(sim_adapter_write(device, mr->rkey, memory, text, 1) == -EACCES);
	other = registered(memory, SIZE);
	require(other->rkey >> 8 != mr->rkey >> 8);
	require(!ibv_dereg_mr(mr) && !ibv_dereg_mr(other));
}

static void a_shifted_address_reaches_the_same_memory(void)
{
	CUdeviceptr memory = allocate(SIZE);
	struct ibv_mr *mr = left_alone(memory, SIZE);
	char byte = 7, read = 0;

	require(!sim_adapter_write(device, mr->rkey, memory + SIZE + 5, &byte, 1));
	require_cuda(cuMemcpyDtoH_v2(&read, memory + 5, 1));
	require(read == 7);
	require(!ibv_dereg_mr(mr));
}

static void what_cannot_be_registered_is_refused_as_by_a_kernel(void)
{
	CUdeviceptr memory = allocate(UNIT);
	uint64_t pages = host(SIZE);

	require(failure(pages, 0) == EINVAL);
	require(failure(pages, SIZE_MAX) == EINVAL);
	require(!ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND) && errno);
	require(!ibv_reg_mr(pd, (void *)pages, SIZE, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
	require(!ibv_reg_mr_iova(pd, (void *)pages, SIZE, pages + 1, RIGHTS) && errno == EINVAL);
	munmap((void *)pages, SIZE);
	require(failure(pages, SIZE) == EFAULT);
	require_cuda(cuMemFree_v2(memory));
	require(failure(memory, UNIT) == EFAULT);
	require(statistic("live") == 0);
}

static void registrations_change(void)
{
	uint64_t memory = host(2 * SIZE);
	struct ibv_mr *mr = registered(memory, SIZE);
	struct ibv_pd *other = ibv_alloc_pd(device);
	uint32_t key = mr->rkey;
	char byte = 1;

	require(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)(memory + SIZE),
			      SIZE, 0));
	require(mr->addr == (void *)(memory + SIZE) && mr->rkey != key);
	set("strict", 0);
	require(sim_adapter_write(device, key, memory, &byte, 1) == -ESTALE);
	require(sim_adapter_write(device, mr->rkey, memory, &byte, 1) == -ERANGE);
	require(!sim_adapter_write(device, mr->rkey, memory + SIZE, &byte, 1));
	require(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			      IBV_ACCESS_REMOTE_READ));
	require(sim_adapter_write(device, mr->rkey, memory + SIZE, &byte, 1) == -EACCES);
	require(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0) && mr->pd == other);
	set("busy", 1);
	require(ibv_dealloc_pd(other) == EBUSY && !ibv_dealloc_pd(pd));
	require(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
	require(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(other));
}

static void registrations_are_imported(void)
{
	uint64_t memory = host(SIZE);
	struct ibv_mr *mr = registered(memory, SIZE), *imported = ibv_import_mr(pd, mr->handle);

	require(imported && imported->rkey == mr->rkey && imported->length == SIZE);
	ibv_unimport_mr(imported);
	require(statistic("live") == 1 && statistic("query_mr") == 1);
	require(!ibv_import_mr(pd, mr->handle + 1) && errno == ENOENT);
	require(!ibv_dereg_mr(mr));
}

static void the_extended_form_registers_both_ways(void)
{
	CUdeviceptr memory = allocate(UNIT);
	int fd = export_dmabuf(memory, UNIT);
	struct ibv_mr_init_attr wanted = { .length = SIZE,
					   .access = RIGHTS,
					   .comp_mask = IBV_REG_MR_MASK_ADDR,
					   .addr = (void *)host(SIZE) };
	struct ibv_mr *mr = ibv_reg_mr_ex(pd, &wanted);

	require(mr && mr->addr == wanted.addr && !ibv_dereg_mr(mr));
	wanted.comp_mask = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_IOVA;
	wanted.fd = fd;
	wanted.fd_offset = SIZE;
	wanted.iova = memory + SIZE;
	mr = ibv_reg_mr_ex(pd, &wanted);
	require(mr && mr->addr == (void *)SIZE && !ibv_dereg_mr(mr));
	wanted.comp_mask |= IBV_REG_MR_MASK_ADDR;
	require(!ibv_reg_mr_ex(pd, &wanted) && errno == EINVAL);
	wanted.comp_mask = 1 << 9;
	require(!ibv_reg_mr_ex(pd, &wanted) && errno == EOPNOTSUPP);
	close(fd);
}

static void a_dmabuf_is_kept_until_its_registration_ends(void)
{
	CUdeviceptr memory = allocate(UNIT);
	unsigned int files = open_files();
	int fd = export_dmabuf(memory, UNIT), plain = open("/dev/zero", O_RDONLY);
	struct ibv_mr *mr;
	char byte = 9, read = 0;

	require(!ibv_reg_dmabuf_mr(pd, 0, 0, 0, -1, 0) && errno == EBADF);
	require(!ibv_reg_dmabuf_mr(pd, 0, SIZE, memory, plain, RIGHTS) && errno == EINVAL);
	require(!ibv_reg_dmabuf_mr(pd, SIZE, UNIT, memory, fd, RIGHTS) && errno == EINVAL);
	require(!ibv_reg_dmabuf_mr(pd, 0, SIZE, memory, fd, RIGHTS | IBV_ACCESS_MW_BIND) &&
		errno == EINVAL);
	close(plain);
	mr = ibv_reg_dmabuf_mr(pd, SIZE, SIZE, memory, fd, RIGHTS);
	require(mr && mr->addr == (void *)SIZE && mr->length == SIZE &&
		statistic("by_dmabuf") == 1);
	close(fd);
	require(open_files() == files + 1);
	require(!sim_adapter_write(device, mr->rkey, memory + 3, &byte, 1));
	require_cuda(cuMemcpyDtoH_v2(&read, memory + SIZE + 3, 1));
	require(read == 9);
	require(!ibv_dereg_mr(mr) && open_files() == files);
}

static void parent_domains_share_their_handle(void)
{
	struct ibv_pd *parent = sim_adapter_parent_domain(pd);
	struct ibv_mr *mr;

	require(parent && parent != pd && parent->handle == pd->handle &&
		parent->context == device);
	mr = ibv_reg_mr(parent, (void *)host(SIZE), SIZE, RIGHTS);
	require(mr && mr->pd == parent);
	set("busy", 1);
	require(ibv_dealloc_pd(pd) == EBUSY);
	require(!ibv_dealloc_pd(parent));
	require(ibv_dealloc_pd(pd) == EBUSY && statistic("pds_busy") == 1);
	require(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && statistic("pds") == 0);
}

static void bookkeeping_of_forks_is_paired(void)
{
	CUdeviceptr memory = allocate(SIZE);
	struct ibv_mr *mr[4];

	require(ibv_is_fork_initialized() == IBV_FORK_DISABLED && !ibv_fork_init());
	require(ibv_is_fork_initialized() == IBV_FORK_ENABLED);
	for (int i = 0; i < 4; i++)
		mr[i] = registered(memory, SIZE);
	require(statistic("dontfork") >= 4);
	for (int i = 0; i < 4; i++)
		require(!ibv_dereg_mr(mr[i]));
	failure(memory, SIZE_MAX);
	require_cuda(cuMemFree_v2(memory));
	require(statistic("dontfork") == 0);
}

static void devices_are_apart(void)
{
	struct ibv_context *second;
	struct ibv_mr *mr;
	uint64_t memory = host(SIZE);
	char byte = 1;

	set("devices", 2);
	set_up();
	second = open_device(1);
	require(!strcmp(ibv_get_device_name(device->device), "sim0"));
	require(!strcmp(ibv_get_device_name(second->device), "sim1"));
	mr = registered(memory, SIZE);
	require(!sim_adapter_write(device, mr->rkey, memory, &byte, 1));
	require(sim_adapter_write(second, mr->rkey, memory, &byte, 1) == -EINVAL);
	set("memory", SIZE);
	require(failure(memory, SIZE) == ENOMEM);
	require(!ibv_close_device(second));
	require(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(device));
}

/* ---- faults ---- */

static void memory_is_short(void)
{
	uint64_t memory = host(4 * SIZE);
	struct ibv_mr *mr;

	set("memory", 2 * SIZE);
	mr = registered(memory, SIZE);
	require(failure(memory, SIZE + 1) == ENOMEM);
	require(!ibv_dereg_mr(registered(memory, SIZE)));
	require(!ibv_dereg_mr(mr) && !ibv_dereg_mr(registered(memory, 2 * SIZE)));
	require(failure(memory, 2 * SIZE + 1) == ENOMEM && statistic("failed") == 2);
}

static void regions_are_short(void)
{
	struct ibv_device_attr attributes;
	uint64_t memory = host(SIZE);
	struct ibv_mr *mr[3];

	set("regions", 3);
	require(!ibv_query_device(device, &attributes) && attributes.max_mr == 3);
	for (int i = 0; i < 3; i++)
		mr[i] = registered(memory, SIZE);
	require(failure(memory, SIZE) == ENOMEM);
	require(!ibv_dereg_mr(mr[1]));
	mr[1] = registered(memory, SIZE);
	for (int i = 0; i < 3; i++)
		require(!ibv_dereg_mr(mr[i]));
}

static void one_call_fails(void)
{
	uint64_t memory = host(SIZE);

	set("fail_at", 3);
	for (int i = 1; i <= 5; i++) {
		if (i == 3)
			require(failure(memory, SIZE) == ENOMEM);
		else
			require(!ibv_dereg_mr(registered(memory, SIZE)));
	}
}

static uint64_t pattern_of(uint64_t seed)
{
	uint64_t memory = host(SIZE), pattern = 0;
	struct ibv_mr *mr;

	set("seed", seed);
	for (int i = 0; i < 64; i++) {
		mr = ibv_reg_mr(pd, (void *)memory, SIZE, RIGHTS);
		pattern = pattern << 1 | !mr;
		if (mr)
			require(!ibv_dereg_mr(mr));
	}
	return pattern;
}

static void some_calls_fail_by_a_seed(void)
{
	uint64_t pattern;

	set("fail_rate", 4);
	pattern = pattern_of(5);
	require(pattern && ~pattern && pattern == pattern_of(5) && pattern != pattern_of(6));
	set("fail_rate", 0);
	require(!pattern_of(5));
}

static void registrations_take_time(void)
{
	struct timespec from, to;

	set("delay", 20000);
	clock_gettime(CLOCK_MONOTONIC, &from);
	require(!ibv_dereg_mr(registered(host(SIZE), SIZE)));
	clock_gettime(CLOCK_MONOTONIC, &to);
	require((to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec >= 20000000);
}

static void *register_host(void *unused)
{
	require(!ibv_dereg_mr(registered(host(SIZE), SIZE)));
	return unused;
}

static void registrations_are_held_until_they_are_let_go(void)
{
	uint64_t begun = statistic("reg_mr"), made = statistic("registrations");
	pthread_t thread;

	set("hold", 1);
	require(!pthread_create(&thread, NULL, register_host, NULL));
	while (statistic("reg_mr") == begun)
		sched_yield();
	/* A chance for what must not happen. */
	for (int i = 0; i < 1000; i++)
		sched_yield();
	require(statistic("registrations") == made);
	set("hold", 0);
	require(!pthread_join(thread, NULL) && statistic("registrations") == made + 1);
}

static void ways_can_be_missing(void)
{
	CUdeviceptr memory = allocate(UNIT);
	int fd = export_dmabuf(memory, UNIT);
	struct ibv_mr *mr;

	set("dmabuf", 0);
	/* Under another name than its own address, so that the preload leaves it alone. */
	require(!ibv_reg_dmabuf_mr(pd, 0, UNIT, memory + SIZE, fd, RIGHTS) && errno == EOPNOTSUPP);
	require(!ibv_reg_dmabuf_mr(pd, 0, 0, 0, -1, 0) && errno == EOPNOTSUPP);
	set("dmabuf", 1);
	set("peer", 0);
	require(!ibv_reg_mr_iova(pd, (void *)memory, UNIT, memory + SIZE, RIGHTS) &&
		errno == EFAULT);
	mr = ibv_reg_dmabuf_mr(pd, 0, UNIT, memory, fd, RIGHTS);
	require(mr && !ibv_dereg_mr(mr));
	require(!ibv_dereg_mr(registered(host(SIZE), SIZE)));
	close(fd);
}

static void unknown_names_are_refused(void)
{
	uint64_t value;

	require(sim_adapter_set("nothing", 1) == -ENOENT);
	require(sim_adapter_statistic("nothing", &value) == -ENOENT);
}

/* ---- memory that ends ---- */

static void freed_with_its_registration(void)
{
	CUdeviceptr memory = allocate(UNIT);

	left_alone(memory, UNIT);
	require_cuda(cuMemFree_v2(memory));
}

static void freed_with_its_dmabuf_registered(void)
{
	CUdeviceptr memory = allocate(UNIT);
	int fd = export_dmabuf(memory, UNIT);

	require(ibv_reg_dmabuf_mr(pd, 0, UNIT, memory + SIZE, fd, RIGHTS));
	require_cuda(cuMemFree_v2(memory));
}

static void ended_with_its_context(void)
{
	left_alone(allocate(SIZE), SIZE);
	require_cuda(cuCtxDestroy_v2(context));
}

static void unmapped_with_its_registration(void)
{
	static const CUmemAllocationProp capable = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
						     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
						     .allocFlags = { .gpuDirectRDMACapable = 1 } };
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr memory;

	require_cuda(cuMemAddressReserve(&memory, 4 * UNIT, 0, 0, 0));
	for (int i = 0; i < 2; i++) {
		require_cuda(cuMemCreate(&handle, UNIT, &capable, 0));
		require_cuda(cuMemMap(memory + (size_t)i * UNIT, UNIT, 0, handle, 0));
		require_cuda(cuMemRelease(handle));
	}
	require_cuda(cuMemSetAccess(memory, 2 * UNIT, &access, 1));
	require(!ibv_reg_mr_iova(pd, (void *)memory, 3 * UNIT, memory + SIZE, RIGHTS) &&
		errno == EFAULT);
	left_alone(memory, 2 * UNIT);
	require_cuda(cuMemUnmap(memory + UNIT, UNIT)); /* a half of what is registered */
}

static void neighbours_keep_what_they_share(void)
{
	CUdeviceptr memory = allocate(1000), neighbour = allocate(1000);
	struct ibv_mr *mr = left_alone(memory & ~(uint64_t)0xffff, 0x10000);

	require(neighbour >> 16 == memory >> 16);
	require_cuda(cuMemFree_v2(memory));
	require(!ibv_dereg_mr(mr));
	left_alone(neighbour & ~(uint64_t)0xffff, 0x10000);
	require_cuda(cuMemFree_v2(neighbour));
}

static void what_outlives_can_be_counted_instead(void)
{
	CUdeviceptr memory = allocate(UNIT);
	struct ibv_mr *mr = left_alone(memory, UNIT);
	char byte;

	set("outlive", 1);
	set("strict", 0);
	require_cuda(cuMemFree_v2(memory));
	require(statistic("outlived") == 1 && statistic("live") == 0);
	require(sim_adapter_read(device, mr->rkey, memory + SIZE, &byte, 1) == -ESTALE);
	require(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(device));
}

static void host_memory_may_end_before_its_registration(void)
{
	void *memory;
	struct ibv_mr *mr;

	require_cuda(cuMemHostAlloc(&memory, SIZE, 0));
	mr = registered((uint64_t)memory, SIZE);
	require_cuda(cuMemFreeHost(memory));
	require(!ibv_dereg_mr(mr));
}

/* ---- keys, devices, forks ---- */

static void stale_key_is_used(void)
{
	uint64_t memory = host(SIZE);
	struct ibv_mr *mr = registered(memory, SIZE);
	uint32_t key = mr->rkey;
	char byte;

	require(!ibv_dereg_mr(mr));
	sim_adapter_read(device, key, memory, &byte, 1);
}

static void domain_is_closed_with_a_registration(void)
{
	registered(host(SIZE), SIZE);
	ibv_dealloc_pd(pd);
}

static void device_is_closed_with_a_registration(void)
{
	registered(host(SIZE), SIZE);
	ibv_close_device(device);
}

static void child_ends_what_is_its_parents(void)
{
	struct ibv_mr *mr = registered(host(SIZE), SIZE);
	int status;
	pid_t child;

	child = fork();
	require(child >= 0);
	if (!child) {
		ibv_dereg_mr(mr);
		_exit(0);
	}
	require(waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
		WTERMSIG(status) == SIGABRT);
	require(statistic("live") == 1 && !ibv_dereg_mr(mr));
}

/* ---- under the preload ---- */

static void preload_is_in_between(void)
{
	CUdeviceptr memory = allocate(UNIT);
	struct ibv_mr *mr[3];

	for (int i = 0; i < 3; i++)
		mr[i] = registered(memory, UNIT);
	require(statistic("registrations") == (is_preloaded() ? 1 : 3));
	require((mr[0]->rkey == mr[2]->rkey) == is_preloaded());
	for (int i = 0; i < 3; i++)
		require(!ibv_dereg_mr(mr[i]));
	require_cuda(cuMemFree_v2(memory));
	require(statistic("live") == 0);
}

static void rounds_leave_nothing(void)
{
	unsigned int files = open_files();
	CUdeviceptr memory, small;
	struct ibv_mr *mr, *late;

	for (int i = 0; i < ROUNDS; i++) {
		memory = allocate((size_t)(i % 7 + 1) * SIZE);
		small = allocate(1000);
		mr = registered(memory, SIZE);
		late = registered(small, 1000);
		require(!ibv_dereg_mr(mr));
		/* Under the preload a client may keep its handle for longer than its memory. */
		if (!is_preloaded())
			require(!ibv_dereg_mr(late));
		require_cuda(cuMemFree_v2(memory));
		require_cuda(cuMemFree_v2(small));
		require(statistic("live") == 0);
		if (is_preloaded())
			require(!ibv_dereg_mr(late));
	}
	require(statistic("registrations") == statistic("deregistrations") &&
		statistic("registrations") > 0);
	require(statistic("live_bytes") == 0 && open_files() == files);
	require(!ibv_dealloc_pd(pd) && !ibv_close_device(device) && statistic("pds") == 0);
}

static void settings_come_from_the_environment(void)
{
	uint64_t memory = host(SIZE);

	set_up();
	open_device(2);
	require(!ibv_dereg_mr(registered(memory, SIZE)));
	require(failure(memory, SIZE) == ENOMEM);
	require(failure(memory, SIZE + 1) == ENOMEM);
	require(!ibv_dereg_mr(registered(memory, SIZE)));
}

#define OUTLIVES "a registration outlives its memory"

static const struct test {
	void (*run)(void);
	const char *name;
	const char *message; /* of the abort it ends in; NULL: it ends well */
	bool bare;	     /* sets up itself */
} tests[] = {
#define GOOD(name)                                                                                 \
	{                                                                                          \
		name, #name, NULL, false                                                           \
	}
#define DIES(name, message)                                                                        \
	{                                                                                          \
		name, #name, message, false                                                        \
	}
	GOOD(keys_reach_what_they_are_for),
	GOOD(a_shifted_address_reaches_the_same_memory),
	GOOD(what_cannot_be_registered_is_refused_as_by_a_kernel),
	GOOD(registrations_change),
	GOOD(registrations_are_imported),
	GOOD(the_extended_form_registers_both_ways),
	GOOD(a_dmabuf_is_kept_until_its_registration_ends),
	GOOD(parent_domains_share_their_handle),
	GOOD(bookkeeping_of_forks_is_paired),
	{ devices_are_apart, "devices_are_apart", NULL, true },
	GOOD(memory_is_short),
	GOOD(regions_are_short),
	GOOD(one_call_fails),
	GOOD(some_calls_fail_by_a_seed),
	GOOD(registrations_take_time),
	GOOD(registrations_are_held_until_they_are_let_go),
	GOOD(ways_can_be_missing),
	GOOD(unknown_names_are_refused),
	DIES(freed_with_its_registration, OUTLIVES),
	DIES(freed_with_its_dmabuf_registered, OUTLIVES),
	DIES(ended_with_its_context, OUTLIVES),
	DIES(unmapped_with_its_registration, OUTLIVES),
	DIES(neighbours_keep_what_they_share, OUTLIVES),
	GOOD(what_outlives_can_be_counted_instead),
	GOOD(host_memory_may_end_before_its_registration),
	DIES(stale_key_is_used, "stale key"),
	DIES(domain_is_closed_with_a_registration, "is deallocated with 1 registrations left"),
	DIES(device_is_closed_with_a_registration, "is closed with 1 registrations on it"),
	GOOD(child_ends_what_is_its_parents),
	GOOD(preload_is_in_between),
	GOOD(rounds_leave_nothing),
};

static const struct test environment = { settings_come_from_the_environment,
					 "settings_come_from_the_environment", NULL, true };

/* Runs it in a process of its own, whose standard error is looked at. */
static bool passes(const struct test *test)
{
	char said[4096] = "";
	size_t used = 0;
	ssize_t got;
	int ends[2], status;
	pid_t child;

	require(!pipe(ends));
	fflush(stdout);
	child = fork();
	require(child >= 0);
	if (!child) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		if (!test->bare)
			set_up();
		test->run();
		_exit(0);
	}
	close(ends[1]);
	while (used < sizeof(said) - 1 &&
	       (got = read(ends[0], said + used, sizeof(said) - 1 - used)) > 0)
		used += (size_t)got;
	said[used] = '\0';
	close(ends[0]);
	require(waitpid(child, &status, 0) == child);
	if (test->message ? WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
				    strstr(said, test->message)
			  : !status)
		return true;
	printf("# %s: status 0x%x: %s\n", test->name, (unsigned int)status, said);
	return false;
}

int main(int count, char **arguments)
{
	bool by_environment = count > 1 && !strcmp(arguments[1], "environment");
	const struct test *chosen = by_environment ? &environment : tests;
	size_t wanted = by_environment ? 1 : sizeof(tests) / sizeof(tests[0]);
	int failed = 0;

	printf("1..%zu\n", wanted);
	for (size_t i = 0; i < wanted; i++) {
		bool good = passes(&chosen[i]);

		failed += !good;
		printf("%s %zu %s\n", good ? "ok" : "not ok", i + 1, chosen[i].name);
	}
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
