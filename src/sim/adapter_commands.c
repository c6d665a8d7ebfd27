/* SPDX-License-Identifier: BSD-3-Clause */
/* adapter_commands.c -- ibv_cmd_*: the kernel's commands, its checks and errors
 *
 * Errors and the order of checks are those of the kernel's uverbs. A region enters the kernel's
 * table before its memory is checked: a free meanwhile is detected.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sim/adapter.h"

#define PAGE		    ((uint64_t)4096)
#define OPTIONAL_FLAGS	    (0x3ff << 20) /* flags that a kernel may ignore silently */
#define ACCESS_FLAGS	    (0xff | OPTIONAL_FLAGS)
#define DMABUF_ACCESS_FLAGS (0xf | OPTIONAL_FLAGS)

/* ---- protection domains ---- */

int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, struct ibv_alloc_pd *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size)
{
	uint32_t handle;

	(void)cmd;
	(void)cmd_size;
	handle = domain_make(context);
	if (!handle)
		return ENOMEM;
	pd->context = context;
	pd->handle = handle;
	if (resp_size >= sizeof(*resp))
		resp->pd_handle = handle;
	return 0;
}

int ibv_cmd_dealloc_pd(struct ibv_pd *pd)
{
	return domain_end(pd);
}

/* ---- registrations ---- */

static int commands_check_access(int access, int allowed)
{
	if (access & IBV_ACCESS_ON_DEMAND)
		return EOPNOTSUPP;
	if (access & ~allowed)
		return EINVAL;
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	return 0;
}

static int commands_check_range(uint64_t start, uint64_t length, uint64_t iova)
{
	uint64_t end;

	if (!length || __builtin_add_overflow(start, length, &end) ||
	    __builtin_add_overflow(iova, length, &end) || start % PAGE != iova % PAGE)
		return EINVAL;
	return 0;
}

/* Nanoseconds of the calling thread. */
static uint64_t commands_cpu_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#define SLEEPS 1000 /* microseconds of a delay from which on it sleeps: tests have longer ones */

/* A registration takes a CPU's time, as pinning in the kernel does. */
static void commands_take(uint64_t microseconds)
{
	struct timespec time = { .tv_sec = (time_t)(microseconds / 1000000),
				 .tv_nsec = (long)(microseconds % 1000000) * 1000 };
	uint64_t until;

	if (microseconds < SLEEPS) {
		until = commands_cpu_time() + microseconds * 1000;
		while (commands_cpu_time() < until)
			;
		return;
	}
	while (nanosleep(&time, &time) && errno == EINTR)
		;
}

/* Pass a cancellation point, as drivers may, also after a hold: an earlier cancellation always
 * takes effect. */
static void commands_delay(uint64_t length)
{
	bool held = adapter_setting(hold);
	uint64_t delay = adapter_setting(delay) + (adapter_setting(delay_mib) * length >> 20);

	while (held) {
		held = adapter_setting(hold);
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	}
	pthread_testcancel();
	if (delay)
		commands_take(delay);
}

static bool commands_is_counted(uint64_t start, uint64_t length)
{
	return length > adapter_setting(uncounted) || !checks_is_host(start, length);
}

static int commands_count_failure(int error)
{
	if (error)
		adapter_count(failed);
	return error;
}

static int commands_reg_address(struct ibv_pd *pd, uint64_t start, uint64_t length, uint64_t iova,
				int access, struct verbs_mr *vmr)
{
	struct adapter_region wanted = {
		.start = start, .length = length, .iova = iova, .access = access, .dmabuf = -1
	};
	uint32_t slot;
	int error;

	checks_begin();
	wanted.uncounted = !commands_is_counted(start, length);
	error = commands_check_range(start, length, iova);
	if (!error)
		error = commands_check_access(access, ACCESS_FLAGS);
	if (!error)
		error = kernel_enter(pd, &wanted, &slot);
	if (error)
		return error;
	if (!wanted.uncounted)
		commands_delay(length);
	error = checks_range(start, length, &wanted.memory);
	if (!error && !wanted.uncounted)
		checks_take_pages(start, length);
	if (error)
		kernel_give_up(slot);
	else
		kernel_complete(slot, &wanted, pd, IBV_MR_TYPE_MR, vmr);
	return error;
}

static uint64_t commands_inode(int fd)
{
	struct stat status;

	return fstat(fd, &status) ? 0 : status.st_ino;
}

static int commands_reg_dmabuf(struct ibv_pd *pd, uint64_t offset, uint64_t length, uint64_t iova,
			       int fd, int access, struct verbs_mr *vmr)
{
	struct adapter_region wanted = { .length = length, .iova = iova, .access = access };
	uint64_t address, size;
	uint32_t slot;
	int error;

	if (!adapter_setting(dmabuf))
		return EOPNOTSUPP;
	error = commands_check_access(access, DMABUF_ACCESS_FLAGS);
	if (error || offset % PAGE != iova % PAGE)
		return error ? error : EINVAL;
	if (fcntl(fd, F_GETFD) < 0)
		return EBADF;
	if (!checks_dmabuf(fd, &address, &size, &wanted.pcie) ||
	    commands_check_range(offset, length, iova) || offset > size || length > size - offset)
		return EINVAL;
	if (address && checks_begin())
		wanted.start = address + offset;
	wanted.dmabuf = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	wanted.inode = commands_inode(wanted.dmabuf);
	if (wanted.dmabuf < 0)
		return errno;
	error = kernel_enter(pd, &wanted, &slot);
	if (error) {
		close(wanted.dmabuf);
		return error;
	}
	commands_delay(length);
	/* Clients pass the device address as iova; a real driver's dma-buf does not say it. */
	if (!address && memory_is_device(iova, length, true)) {
		wanted.start = iova;
		error = memory_read(iova, length, &wanted.memory);
	}
	if (!error) {
		kernel_complete(slot, &wanted, pd, IBV_MR_TYPE_DMABUF_MR, vmr);
		return 0;
	}
	kernel_give_up(slot);
	close(wanted.dmabuf);
	return error;
}

int ibv_cmd_reg_mr(struct ibv_pd *pd, void *address, size_t length, uint64_t hca_va, int access,
		   struct verbs_mr *vmr, struct ibv_reg_mr *cmd, size_t cmd_size,
		   struct ib_uverbs_reg_mr_resp *resp, size_t resp_size)
{
	bool counted = commands_is_counted((uintptr_t)address, length);
	int error;

	if (counted)
		adapter_count(reg_mr);
	error = commands_reg_address(pd, (uintptr_t)address, length, hca_va, access, vmr);
	if (error)
		return counted ? commands_count_failure(error) : error;
	if (cmd_size >= sizeof(*cmd))
		*cmd = (struct ibv_reg_mr){ .start = (uintptr_t)address,
					    .length = length,
					    .hca_va = hca_va,
					    .pd_handle = pd->handle,
					    .access_flags = (uint32_t)access };
	if (resp_size >= sizeof(*resp))
		*resp = (struct ib_uverbs_reg_mr_resp){ .mr_handle = vmr->ibv_mr.handle,
							.lkey = vmr->ibv_mr.lkey,
							.rkey = vmr->ibv_mr.rkey };
	return 0;
}

int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			  int access, struct verbs_mr *vmr, struct ibv_command_buffer *driver)
{
	int error;

	(void)driver;
	adapter_count(reg_dmabuf_mr);
	error = commands_count_failure(
		commands_reg_dmabuf(pd, offset, length, iova, fd, access, vmr));
	/* Set these here: ibv_cmd_reg_dmabuf_mr fills fields that the library fills for the other
	 * forms. */
	if (!error) {
		vmr->ibv_mr.pd = pd;
		vmr->ibv_mr.addr = (void *)(uintptr_t)offset;
		vmr->ibv_mr.length = length;
	}
	return error;
}

int ibv_cmd_reg_mr_ex(struct ibv_pd *pd, struct verbs_mr *vmr, struct ibv_mr_init_attr *wanted)
{
	bool has_iova = wanted->comp_mask & IBV_REG_MR_MASK_IOVA;
	uint64_t start = (uintptr_t)wanted->addr, iova = has_iova ? wanted->iova : start;

	if (!(wanted->comp_mask & (IBV_REG_MR_MASK_DMAH | IBV_REG_MR_MASK_FD)) &&
	    !commands_is_counted(start, wanted->length))
		return commands_reg_address(pd, start, wanted->length, iova, wanted->access, vmr);
	adapter_count(reg_mr_ex);
	if (wanted->comp_mask & IBV_REG_MR_MASK_DMAH)
		return commands_count_failure(EOPNOTSUPP);
	if (wanted->comp_mask & IBV_REG_MR_MASK_FD)
		return commands_count_failure(commands_reg_dmabuf(pd, wanted->fd_offset,
								  wanted->length, wanted->iova,
								  wanted->fd, wanted->access, vmr));
	return commands_count_failure(
		commands_reg_address(pd, start, wanted->length, iova, wanted->access, vmr));
}

int ibv_cmd_dereg_mr(struct verbs_mr *vmr)
{
	struct adapter_region removed;
	int error = kernel_remove(vmr, &removed);

	if (error)
		return error;
	if (removed.dmabuf >= 0 && commands_inode(removed.dmabuf) == removed.inode)
		close(removed.dmabuf);
	memory_forget(&removed.memory);
	return 0;
}

int ibv_cmd_rereg_mr(struct verbs_mr *vmr, uint32_t flags, void *address, size_t length,
		     uint64_t hca_va, int access, struct ibv_pd *pd, struct ibv_rereg_mr *cmd,
		     size_t cmd_size, struct ib_uverbs_rereg_mr_resp *resp, size_t resp_size)
{
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	struct adapter_region wanted = {
		.start = (uintptr_t)address, .length = length, .iova = hca_va, .access = access
	};
	int error = flags ? 0 : EINVAL;

	(void)cmd;
	(void)cmd_size;
	if (!flags && !commands_is_counted((uintptr_t)address, length))
		return error;
	adapter_count(rereg_mr);
	checks_begin();
	if (!error && moves)
		error = commands_check_range((uintptr_t)address, length, hca_va);
	if (!error && flags & IBV_REREG_MR_CHANGE_ACCESS)
		error = commands_check_access(access, ACCESS_FLAGS);
	if (!error && moves)
		error = checks_range((uintptr_t)address, length, &wanted.memory);
	if (error)
		return commands_count_failure(error);
	commands_delay(length);
	error = kernel_change(vmr, flags, &wanted, pd);
	memory_forget(&wanted.memory);
	if (!error && resp_size >= sizeof(*resp))
		*resp = (struct ib_uverbs_rereg_mr_resp){ vmr->ibv_mr.lkey, vmr->ibv_mr.rkey };
	return commands_count_failure(error);
}

int ibv_cmd_query_mr(struct ibv_pd *pd, struct verbs_mr *vmr, uint32_t handle)
{
	struct adapter_region region;
	int error;

	adapter_count(query_mr);
	error = kernel_query(pd, handle, &region);
	if (error)
		return error;
	vmr->ibv_mr = (struct ibv_mr){ .context = pd->context,
				       .pd = pd,
				       .addr = (void *)(uintptr_t)region.iova,
				       .length = region.length,
				       .handle = handle,
				       .lkey = region.key,
				       .rkey = region.key };
	vmr->mr_type = IBV_MR_TYPE_IMPORTED_MR;
	return 0;
}

/* ---- devices ---- */

void verbs_uninit_context(struct verbs_context *verbs)
{
	uint32_t key = 0, count = kernel_end_context(&verbs->context, &key);

	if (count)
		adapter_die("%s is closed with %u registrations on it, among them that of key 0x%x",
			    verbs->context.device->name, count, key);
}
