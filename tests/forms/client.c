/* SPDX-License-Identifier: BSD-3-Clause */
/* client.c -- a client's calls, their record, and the bytes behind its keys */
#include "forms.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "requests.h"

struct ibv_context *device;
struct ibv_pd *pd;
CUcontext context;
struct form_result *result;

/* Access flags of the last request. */
static int client_access = ACCESS;

/* ---- record ---- */

bool record(bool succeeded, bool registers)
{
	require(result->calls < CALLS_MAX);
	result->call[result->calls].error = (uint16_t)(succeeded ? 0 : errno ? errno : 0xffff);
	result->call[result->calls++].registers = registers;
	return succeeded;
}

void report_wrong(const char *what)
{
	if (!result->wrong++)
		snprintf(result->first_wrong, sizeof(result->first_wrong), "%s", what);
}

/* ---- calls ---- */

static void client_begin(int access)
{
	client_access = access;
	errno = 0;
}

/* The struct shows the client's request, whatever region is behind its keys. */
static struct ibv_mr *client_registered(struct ibv_mr *mr, uint64_t address, size_t length)
{
	if (record(mr, true) && ((uint64_t)mr->addr != address || mr->length != length))
		report_wrong("address or length of the struct");
	return mr;
}

struct ibv_mr *by_address(struct ibv_pd *in, CUdeviceptr address, size_t length, int access)
{
	client_begin(access);
	return client_registered(ibv_reg_mr(in, (void *)address, length, access), address, length);
}

struct ibv_mr *by_iova(CUdeviceptr address, size_t length, uint64_t iova, int access)
{
	errno = 0;
	return client_registered(
		ibv_reg_mr_iova2(pd, (void *)address, length, iova, (unsigned int)access), address,
		length);
}

struct ibv_mr *by_attributes(const struct ibv_mr_init_attr *attributes)
{
	struct ibv_mr_init_attr copy = *attributes;
	struct ibv_mr *mr;

	client_begin(copy.access);
	mr = ibv_reg_mr_ex(pd, &copy);
	record(mr, true);
	return mr;
}

int export_range(CUdeviceptr from, CUdeviceptr to, unsigned long long flags)
{
	int fd = -1;
	CUresult error = cuMemGetHandleForAddressRange(&fd, from, to - from,
						       CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);

	errno = (int)error;
	return record(!error, false) ? fd : -1;
}

struct ibv_mr *by_dma_buf(struct ibv_pd *in, int fd, uint64_t offset, size_t length, uint64_t iova,
			  int access)
{
	client_begin(access);
	return client_registered(ibv_reg_dmabuf_mr(in, offset, length, iova, fd, access), offset,
				 length);
}

struct ibv_mr *by_own_dma_buf(struct ibv_pd *in, CUdeviceptr address, size_t length, int access)
{
	CUdeviceptr from = round_down(address, PAGE);
	int fd = export_range(from, round_up(address + length, PAGE), 0);
	struct ibv_mr *mr = by_dma_buf(in, fd, address - from, length, address, access);

	if (fd >= 0)
		close(fd);
	return mr;
}

void drop(struct ibv_mr *mr)
{
	if (!mr)
		return;
	errno = ibv_dereg_mr(mr);
	record(!errno, false);
}

/* ---- bytes ---- */

static void client_check_at(const struct ibv_mr *mr, uint64_t label, CUdeviceptr memory)
{
	int access = client_access;
	uint64_t sent = random_below(UINT64_MAX), received = 0;
	int error = sim_adapter_write(mr->context, mr->rkey, label, &sent, sizeof(sent));

	if (error == -EOPNOTSUPP)
		return;
	if (error != (access & IBV_ACCESS_REMOTE_WRITE ? 0 : -EACCES))
		report_wrong("a remote write by the key");
	if (!error && (cuMemcpyDtoH_v2(&received, memory, sizeof(received)) || received != sent))
		report_wrong("bytes written by the key");
	sent = random_below(UINT64_MAX);
	require_cuda(cuMemcpyHtoD_v2(memory, &sent, sizeof(sent)));
	error = sim_adapter_read(mr->context, mr->rkey, label, &received, sizeof(received));
	if (error != (access & IBV_ACCESS_REMOTE_READ ? 0 : -EACCES))
		report_wrong("a remote read by the key");
	if (!error && received != sent)
		report_wrong("bytes read by the key");
}

void check_bytes(const struct ibv_mr *mr, uint64_t label, CUdeviceptr memory, size_t length)
{
	size_t last = length - sizeof(uint64_t), middle;

	if (!mr)
		return;
	middle = random_below(last + 1);
	client_check_at(mr, label, memory);
	client_check_at(mr, label + last, memory + last);
	client_check_at(mr, label + middle, memory + middle);
}

void check_and_drop(struct ibv_mr *mr, CUdeviceptr memory, size_t length)
{
	check_bytes(mr, memory, memory, length);
	drop(mr);
}

void rounds(CUdeviceptr from, CUdeviceptr to, CUdeviceptr buffer, size_t size, int access)
{
	for (int i = 0; i < ROUNDS; i++)
		check_and_drop(by_address(pd, from, to - from, access), buffer, size);
}

void exact_rounds(CUdeviceptr buffer, size_t size, int access)
{
	rounds(buffer, buffer + size, buffer, size, access);
}

void buf_rounds(CUdeviceptr buffer, size_t size)
{
	for (int i = 0; i < ROUNDS; i++)
		buf_message(buffer, size);
}

void fd_rounds(int fd, CUdeviceptr buffer, size_t size)
{
	for (int i = 0; i < ROUNDS; i++)
		check_and_drop(by_dma_buf(pd, fd, 0, size, buffer, ACCESS), buffer, size);
	close(fd);
}

/* ---- the preload ---- */

bool is_preloaded(void)
{
	return dlsym(RTLD_DEFAULT, "peerpin_statistic") != NULL;
}

uint64_t own(const char *name)
{
	static int (*statistic)(const char *, uint64_t *);
	uint64_t value = 0;

	if (!statistic)
		statistic = (__typeof__(statistic))dlsym(RTLD_DEFAULT, "peerpin_statistic");
	if (statistic)
		require(!statistic(name, &value));
	return value;
}

/* A worker on busy CPUs may need seconds: the run's own time limit ends a wait in vain. */
void await_registrations(uint64_t wanted)
{
	while (is_preloaded() && own("registrations_background") < wanted)
		nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
}
