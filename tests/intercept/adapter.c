/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter.c -- the simulated adapter: each of its faults and each of its assertions
 *
 * Run with the preload and without it.
 */
#include "adapter.h"
#include "../vmm.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define ROUNDS 1000

bool is_preloaded(void)
{
	return dlsym(RTLD_DEFAULT, "peerpin_statistic") != NULL;
}

static struct ibv_mr *register_range(uint64_t address, size_t length)
{
	return registered_in(pd, address, length, ACCESS);
}

/* Another iova: peerpin forwards the request, and does not end the registration. */
static struct ibv_mr *forwarded(uint64_t address, size_t length)
{
	struct ibv_mr *mr = ibv_reg_mr_iova(pd, (void *)address, length, address + SIZE, ACCESS);

	require(mr);
	return mr;
}

uint64_t host(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	require(memory != MAP_FAILED);
	return (uint64_t)memory;
}

static int failure(uint64_t address, size_t length)
{
	errno = 0;
	require(!ibv_reg_mr(pd, (void *)address, length, ACCESS));
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

const char *expected_abort;

static void check_message(int signal)
{
	char text[4096] = "";

	(void)signal;
	_exit(pread(STDERR_FILENO, text, sizeof(text) - 1, 0) < 0 || !strstr(text, expected_abort));
}

void expect_abort(const char *message)
{
	expected_abort = message;
	signal(SIGABRT, check_message);
}

#define OUTLIVES "a registration outlives its memory"

/* ---- supported calls ---- */

ADAPTER_TEST(keys_reach_their_range)
{
	char text[16] = "fifteen letters", read[16];
	uint64_t memory = host(SIZE);
	struct ibv_mr *mr = register_range(memory, SIZE), *other;
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
	require(sim("stale_keys") == 1);

	/* As on a real adapter: equal index, different variant. */
	mr = ibv_reg_mr(pd, (void *)memory, SIZE, IBV_ACCESS_REMOTE_READ);
	require(mr && mr->rkey >> 8 == key >> 8 && (mr->rkey & 0xff) == ((key + 1) & 0xff));
	require(sim_adapter_read(device, key, memory, read, 1) == -ESTALE);
	require(!sim_adapter_read(device, mr->rkey, memory, read, 1));
	require(sim_adapter_write(device, mr->rkey, memory, text, 1) == -EACCES);
	other = register_range(memory, SIZE);
	require(other->rkey >> 8 != mr->rkey >> 8);
	require(!ibv_dereg_mr(mr) && !ibv_dereg_mr(other));
}

ADAPTER_TEST(a_shifted_address_reaches_the_same_memory)
{
	CUdeviceptr memory = allocate(SIZE);
	struct ibv_mr *mr = forwarded(memory, SIZE);
	char byte = 7, read = 0;

	require(!sim_adapter_write(device, mr->rkey, memory + SIZE + 5, &byte, 1));
	require_cuda(cuMemcpyDtoH_v2(&read, memory + 5, 1));
	require(read == 7);
	require(!ibv_dereg_mr(mr));
}

ADAPTER_TEST(invalid_registrations_are_refused_as_by_a_kernel)
{
	CUdeviceptr memory = allocate(UNIT);
	uint64_t pages = host(SIZE);

	require(failure(pages, 0) == EINVAL);
	require(failure(pages, SIZE_MAX) == EINVAL);
	require(!ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND) && errno);
	require(!ibv_reg_mr(pd, (void *)pages, SIZE, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
	require(!ibv_reg_mr_iova(pd, (void *)pages, SIZE, pages + 1, ACCESS) && errno == EINVAL);
	munmap((void *)pages, SIZE);
	require(failure(pages, SIZE) == EFAULT);
	require_cuda(cuMemFree_v2(memory));
	require(failure(memory, UNIT) == EFAULT);
	require(sim("live") == 0);
}

ADAPTER_TEST(registrations_change)
{
	uint64_t memory = host(2 * SIZE);
	struct ibv_mr *mr = register_range(memory, SIZE);
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
	require(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_CMD && errno == EINVAL);
	require(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(other));
}

ADAPTER_TEST(registrations_are_imported)
{
	uint64_t memory = host(SIZE);
	struct ibv_mr *mr = register_range(memory, SIZE), *imported = ibv_import_mr(pd, mr->handle);

	require(imported && imported->rkey == mr->rkey && imported->length == SIZE);
	ibv_unimport_mr(imported);
	require(sim("live") == 1 && sim("query_mr") == 1);
	require(!ibv_import_mr(pd, mr->handle + 1) && errno == ENOENT);
	require(!ibv_dereg_mr(mr));
}

ADAPTER_TEST(the_extended_form_registers_both_ways)
{
	CUdeviceptr memory = allocate(UNIT);
	int fd = export_dmabuf(memory, UNIT);
	struct ibv_mr_init_attr wanted = { .length = SIZE,
					   .access = ACCESS,
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

ADAPTER_TEST(a_dmabuf_is_kept_until_its_registration_ends)
{
	CUdeviceptr memory = allocate(UNIT);
	unsigned int files = open_files();
	int fd = export_dmabuf(memory, UNIT), plain = open("/dev/zero", O_RDONLY);
	struct ibv_mr *mr;
	char byte = 9, read = 0;

	require(!ibv_reg_dmabuf_mr(pd, 0, 0, 0, -1, 0) && errno == EBADF);
	require(!ibv_reg_dmabuf_mr(pd, 0, SIZE, memory, plain, ACCESS) && errno == EINVAL);
	require(!ibv_reg_dmabuf_mr(pd, SIZE, UNIT, memory, fd, ACCESS) && errno == EINVAL);
	require(!ibv_reg_dmabuf_mr(pd, 0, SIZE, memory, fd, ACCESS | IBV_ACCESS_MW_BIND) &&
		errno == EINVAL);
	close(plain);
	mr = ibv_reg_dmabuf_mr(pd, SIZE, SIZE, memory, fd, ACCESS);
	require(mr && mr->addr == (void *)SIZE && mr->length == SIZE && sim("by_dmabuf") == 1);
	close(fd);
	require(open_files() == files + 1);
	require(!sim_adapter_write(device, mr->rkey, memory + 3, &byte, 1));
	require_cuda(cuMemcpyDtoH_v2(&read, memory + SIZE + 3, 1));
	require(read == 9);
	require(!ibv_dereg_mr(mr) && open_files() == files);
}

ADAPTER_TEST(parent_domains_share_their_handle)
{
	struct ibv_pd *parent = sim_adapter_parent_domain(pd);
	struct ibv_mr *mr;

	require(parent && parent != pd && parent->handle == pd->handle &&
		parent->context == device);
	mr = ibv_reg_mr(parent, (void *)host(SIZE), SIZE, ACCESS);
	require(mr && mr->pd == parent);
	set("busy", 1);
	require(ibv_dealloc_pd(pd) == EBUSY);
	require(!ibv_dealloc_pd(parent));
	require(ibv_dealloc_pd(pd) == EBUSY && sim("pds_busy") == 1);
	require(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && sim("pds") == 0);
}

ADAPTER_TEST(bookkeeping_of_forks_is_paired)
{
	CUdeviceptr memory = allocate(SIZE);
	struct ibv_mr *mr[4];

	require(ibv_is_fork_initialized() == IBV_FORK_DISABLED && !ibv_fork_init());
	require(ibv_is_fork_initialized() == IBV_FORK_ENABLED);
	for (int i = 0; i < 4; i++)
		mr[i] = register_range(memory, SIZE);
	require(sim("dontfork") >= 4);
	for (int i = 0; i < 4; i++)
		require(!ibv_dereg_mr(mr[i]));
	failure(memory, SIZE_MAX);
	require_cuda(cuMemFree_v2(memory));
	require(sim("dontfork") == 0);
}

ADAPTER_TEST(devices_are_apart)
{
	struct ibv_context *second;
	struct ibv_mr *mr;
	uint64_t memory = host(SIZE);
	char byte = 1;

	second = open_device(1);
	require(!strcmp(ibv_get_device_name(device->device), "sim0"));
	require(!strcmp(ibv_get_device_name(second->device), "sim1"));
	mr = register_range(memory, SIZE);
	require(!sim_adapter_write(device, mr->rkey, memory, &byte, 1));
	require(sim_adapter_write(second, mr->rkey, memory, &byte, 1) == -EINVAL);
	set("memory", SIZE);
	require(failure(memory, SIZE) == ENOMEM);
	require(!ibv_close_device(second));
	require(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(device));
}

/* ---- faults ---- */

ADAPTER_TEST(memory_is_short)
{
	uint64_t memory = host(4 * SIZE);
	struct ibv_mr *mr;

	set("memory", 2 * SIZE);
	mr = register_range(memory, SIZE);
	require(failure(memory, SIZE + 1) == ENOMEM);
	require(!ibv_dereg_mr(register_range(memory, SIZE)));
	require(!ibv_dereg_mr(mr) && !ibv_dereg_mr(register_range(memory, 2 * SIZE)));
	require(failure(memory, 2 * SIZE + 1) == ENOMEM && sim("failed") == 2);
}

ADAPTER_TEST(regions_are_short)
{
	struct ibv_device_attr attributes;
	uint64_t memory = host(SIZE);
	struct ibv_mr *mr[3];

	set("regions", 3);
	require(!ibv_query_device(device, &attributes) && attributes.max_mr == 3);
	for (int i = 0; i < 3; i++)
		mr[i] = register_range(memory, SIZE);
	require(failure(memory, SIZE) == ENOMEM);
	require(!ibv_dereg_mr(mr[1]));
	mr[1] = register_range(memory, SIZE);
	for (int i = 0; i < 3; i++)
		require(!ibv_dereg_mr(mr[i]));
}

ADAPTER_TEST(one_call_fails)
{
	uint64_t memory = host(SIZE);

	set("fail_at", 3);
	for (int i = 1; i <= 5; i++) {
		if (i == 3)
			require(failure(memory, SIZE) == ENOMEM);
		else
			require(!ibv_dereg_mr(register_range(memory, SIZE)));
	}
}

static uint64_t pattern_of(uint64_t seed)
{
	uint64_t memory = host(SIZE), pattern = 0;
	struct ibv_mr *mr;

	set("seed", seed);
	for (int i = 0; i < 64; i++) {
		mr = ibv_reg_mr(pd, (void *)memory, SIZE, ACCESS);
		pattern = pattern << 1 | !mr;
		if (mr)
			require(!ibv_dereg_mr(mr));
	}
	return pattern;
}

ADAPTER_TEST(some_calls_fail_by_a_seed)
{
	uint64_t pattern;

	set("fail_rate", 4);
	pattern = pattern_of(5);
	require(pattern && ~pattern && pattern == pattern_of(5) && pattern != pattern_of(6));
	set("fail_rate", 0);
	require(!pattern_of(5));
}

static long time_of_registration(clockid_t clock)
{
	struct timespec from, to;

	clock_gettime(clock, &from);
	require(!ibv_dereg_mr(register_range(host(SIZE), SIZE)));
	clock_gettime(clock, &to);
	return (to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec;
}

ADAPTER_TEST(registrations_take_time)
{
	set("delay", 20000);
	require(time_of_registration(CLOCK_MONOTONIC) >= 20000000);
	set("delay", 900);
	require(time_of_registration(CLOCK_THREAD_CPUTIME_ID) >= 900000);
}

static void *register_host(void *unused)
{
	require(!ibv_dereg_mr(register_range(host(SIZE), SIZE)));
	return unused;
}

ADAPTER_TEST(registrations_are_held_until_they_are_let_go)
{
	uint64_t begun = sim("reg_mr"), made = sim("registrations");
	pthread_t thread;

	set("hold", 1);
	require(!pthread_create(&thread, NULL, register_host, NULL));
	while (sim("reg_mr") == begun)
		sched_yield();
	/* Time in which a wrong registration would appear. */
	for (int i = 0; i < 1000; i++)
		sched_yield();
	require(sim("registrations") == made);
	set("hold", 0);
	require(!pthread_join(thread, NULL) && sim("registrations") == made + 1);
}

ADAPTER_TEST(ways_can_be_missing)
{
	CUdeviceptr memory = allocate(UNIT);
	int fd = export_dmabuf(memory, UNIT);
	struct ibv_mr *mr;

	set("dmabuf", 0);
	/* With another iova, so that peerpin forwards it. */
	require(!ibv_reg_dmabuf_mr(pd, 0, UNIT, memory + SIZE, fd, ACCESS) && errno == EOPNOTSUPP);
	require(!ibv_reg_dmabuf_mr(pd, 0, 0, 0, -1, 0) && errno == EOPNOTSUPP);
	set("dmabuf", 1);
	set("peer", 0);
	require(!ibv_reg_mr_iova(pd, (void *)memory, UNIT, memory + SIZE, ACCESS) &&
		errno == EFAULT);
	mr = ibv_reg_dmabuf_mr(pd, 0, UNIT, memory, fd, ACCESS);
	require(mr && !ibv_dereg_mr(mr));
	require(!ibv_dereg_mr(register_range(host(SIZE), SIZE)));
	close(fd);
}

/* As nvidia-peermem does, under the driver's lock. */
ADAPTER_TEST(a_registration_by_address_asks_the_driver_for_pages)
{
	CUdeviceptr memory = allocate(UNIT);
	uint64_t before = sim("page_requests");
	unsigned int files = open_files();
	int fd;

	forwarded(memory, UNIT);
	require(sim("page_requests") == before + 1 && open_files() == files);
	forwarded(memory + 1000, 5000);
	require(sim("page_requests") == before + 2);
	fd = export_dmabuf(memory, UNIT);
	require(ibv_reg_dmabuf_mr(pd, 0, UNIT, memory + SIZE, fd, ACCESS) && !close(fd));
	register_range(host(SIZE), SIZE);
	require(sim("page_requests") == before + 2);
}

ADAPTER_TEST(unknown_names_are_refused)
{
	uint64_t value;

	require(sim_adapter_set("nothing", 1) == -ENOENT);
	require(sim_adapter_statistic("nothing", &value) == -ENOENT);
}

/* ---- freed memory ---- */

ADAPTER_TEST(freed_with_its_registration)
{
	CUdeviceptr memory = allocate(UNIT);

	expect_abort(OUTLIVES);
	forwarded(memory, UNIT);
	require_cuda(cuMemFree_v2(memory));
}

ADAPTER_TEST(freed_with_its_dmabuf_registered)
{
	CUdeviceptr memory = allocate(UNIT);
	int fd = export_dmabuf(memory, UNIT);

	expect_abort(OUTLIVES);
	require(ibv_reg_dmabuf_mr(pd, 0, UNIT, memory + SIZE, fd, ACCESS));
	require_cuda(cuMemFree_v2(memory));
}

ADAPTER_TEST(ended_with_its_context)
{
	expect_abort(OUTLIVES);
	forwarded(allocate(SIZE), SIZE);
	require_cuda(cuCtxDestroy_v2(context));
}

ADAPTER_TEST(unmapped_with_its_registration)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr memory;

	expect_abort(OUTLIVES);
	require_cuda(cuMemAddressReserve(&memory, 4 * UNIT, 0, 0, 0));
	for (int i = 0; i < 2; i++) {
		require_cuda(cuMemCreate(&handle, UNIT, &vmm_rdma, 0));
		require_cuda(cuMemMap(memory + (size_t)i * UNIT, UNIT, 0, handle, 0));
		require_cuda(cuMemRelease(handle));
	}
	require_cuda(cuMemSetAccess(memory, 2 * UNIT, &vmm_access, 1));
	require(!ibv_reg_mr_iova(pd, (void *)memory, 3 * UNIT, memory + SIZE, ACCESS) &&
		errno == EFAULT);
	forwarded(memory, 2 * UNIT);
	require_cuda(cuMemUnmap(memory + UNIT, UNIT)); /* half of the registered range */
}

ADAPTER_TEST(neighbours_keep_shared_blocks)
{
	CUdeviceptr memory = allocate(1000), neighbour = allocate(1000);
	struct ibv_mr *mr = forwarded(memory & ~(uint64_t)0xffff, 0x10000);

	expect_abort(OUTLIVES);
	require(neighbour >> 16 == memory >> 16);
	require_cuda(cuMemFree_v2(memory));
	require(!ibv_dereg_mr(mr));
	forwarded(neighbour & ~(uint64_t)0xffff, 0x10000);
	require_cuda(cuMemFree_v2(neighbour));
}

ADAPTER_TEST(outliving_regions_can_be_counted_instead)
{
	CUdeviceptr memory = allocate(UNIT);
	struct ibv_mr *mr = forwarded(memory, UNIT);
	char byte;

	set("outlive", 1);
	set("strict", 0);
	require_cuda(cuMemFree_v2(memory));
	require(sim("outlived") == 1 && sim("live") == 0);
	require(sim_adapter_read(device, mr->rkey, memory + SIZE, &byte, 1) == -ESTALE);
	require(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(device));
}

ADAPTER_TEST(host_memory_may_end_before_its_registration)
{
	void *memory;
	struct ibv_mr *mr;

	require_cuda(cuMemHostAlloc(&memory, SIZE, 0));
	mr = register_range((uint64_t)memory, SIZE);
	require_cuda(cuMemFreeHost(memory));
	require(!ibv_dereg_mr(mr));
}

/* ---- keys, devices, forks ---- */

ADAPTER_TEST(stale_key_is_used)
{
	uint64_t memory = host(SIZE);
	struct ibv_mr *mr = register_range(memory, SIZE);
	uint32_t key = mr->rkey;
	char byte;

	expect_abort("stale key");
	require(!ibv_dereg_mr(mr));
	sim_adapter_read(device, key, memory, &byte, 1);
}

ADAPTER_TEST(domain_is_closed_with_a_registration)
{
	expect_abort("is deallocated with 1 registrations left");
	register_range(host(SIZE), SIZE);
	ibv_dealloc_pd(pd);
}

ADAPTER_TEST(device_is_closed_with_a_registration)
{
	expect_abort("is closed with 1 registrations on it");
	register_range(host(SIZE), SIZE);
	ibv_close_device(device);
}

ADAPTER_TEST(child_ends_a_registration_of_its_parent)
{
	struct ibv_mr *mr = register_range(host(SIZE), SIZE);
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
	require(sim("live") == 1 && !ibv_dereg_mr(mr));
}

/* ---- under the preload ---- */

ADAPTER_TEST(preload_is_in_between)
{
	CUdeviceptr memory = allocate(UNIT);
	struct ibv_mr *mr[3];

	for (int i = 0; i < 3; i++)
		mr[i] = register_range(memory, UNIT);
	require(sim("registrations") == (is_preloaded() ? 1 : 3));
	require((mr[0]->rkey == mr[2]->rkey) == is_preloaded());
	for (int i = 0; i < 3; i++)
		require(!ibv_dereg_mr(mr[i]));
	require_cuda(cuMemFree_v2(memory));
	require(sim("live") == 0);
}

ADAPTER_TEST(rounds_leave_nothing)
{
	unsigned int files = open_files();
	CUdeviceptr memory, small;
	struct ibv_mr *mr, *late;

	for (int i = 0; i < ROUNDS; i++) {
		memory = allocate((size_t)(i % 7 + 1) * SIZE);
		small = allocate(1000);
		mr = register_range(memory, SIZE);
		late = register_range(small, 1000);
		require(!ibv_dereg_mr(mr));
		/* Under the preload a client may keep its MR longer than its memory. */
		if (!is_preloaded())
			require(!ibv_dereg_mr(late));
		require_cuda(cuMemFree_v2(memory));
		require_cuda(cuMemFree_v2(small));
		require(sim("live") == 0);
		if (is_preloaded())
			require(!ibv_dereg_mr(late));
	}
	require(sim("registrations") == sim("deregistrations") && sim("registrations") > 0);
	require(sim("live_bytes") == 0 && open_files() == files);
	require(!ibv_dealloc_pd(pd) && !ibv_close_device(device) && sim("pds") == 0);
}

ADAPTER_TEST(settings_come_from_the_environment)
{
	uint64_t memory = host(SIZE);

	open_device(2);
	require(!ibv_dereg_mr(register_range(memory, SIZE)));
	require(failure(memory, SIZE) == ENOMEM);
	require(failure(memory, SIZE + 1) == ENOMEM);
	require(!ibv_dereg_mr(register_range(memory, SIZE)));
}

static const struct test tests[] = {
	TEST(keys_reach_their_range, 0, NULL),
	TEST(a_shifted_address_reaches_the_same_memory, 0, NULL),
	TEST(invalid_registrations_are_refused_as_by_a_kernel, 0, NULL),
	TEST(registrations_change, 0, NULL),
	TEST(registrations_are_imported, 0, NULL),
	TEST(the_extended_form_registers_both_ways, 0, NULL),
	TEST(a_dmabuf_is_kept_until_its_registration_ends, 0, NULL),
	TEST(parent_domains_share_their_handle, 0, NULL),
	TEST(bookkeeping_of_forks_is_paired, 0, NULL),
	TEST(devices_are_apart, 0, "PEERPIN_SIM_ADAPTER_DEVICES=2"),
	TEST(memory_is_short, 0, NULL),
	TEST(regions_are_short, 0, NULL),
	TEST(one_call_fails, 0, NULL),
	TEST(some_calls_fail_by_a_seed, 0, NULL),
	TEST(registrations_take_time, 0, NULL),
	TEST(registrations_are_held_until_they_are_let_go, 0, NULL),
	TEST(ways_can_be_missing, 0, NULL),
	TEST(a_registration_by_address_asks_the_driver_for_pages, 0, NULL),
	TEST(unknown_names_are_refused, 0, NULL),
	TEST(freed_with_its_registration, 0, NULL),
	TEST(freed_with_its_dmabuf_registered, 0, NULL),
	TEST(ended_with_its_context, 0, NULL),
	TEST(unmapped_with_its_registration, 0, NULL),
	TEST(neighbours_keep_shared_blocks, 0, NULL),
	TEST(outliving_regions_can_be_counted_instead, 0, NULL),
	TEST(host_memory_may_end_before_its_registration, 0, NULL),
	TEST(stale_key_is_used, 0, NULL),
	TEST(domain_is_closed_with_a_registration, 0, NULL),
	TEST(device_is_closed_with_a_registration, 0, NULL),
	TEST(child_ends_a_registration_of_its_parent, 0, NULL),
	TEST(preload_is_in_between, 0, NULL),
	TEST(rounds_leave_nothing, 0, NULL),
	TEST(settings_come_from_the_environment, 0,
	     "PEERPIN_SIM_ADAPTER_DEVICES=3 PEERPIN_SIM_ADAPTER_MEMORY=1M "
	     "PEERPIN_SIM_ADAPTER_FAIL_AT=2"),
	{ .name = NULL },
};

const struct test *const test_files[] = { tests, use_tests, NULL };
