/* SPDX-License-Identifier: BSD-3-Clause */
/* loopback.c -- a device, a protection domain and two connected queue pairs in one process */
#include "loopback.h"

#include <dirent.h>
#include <dlfcn.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void refuse(const char *what)
{
	fprintf(stderr, "loopback: %s failed\n", what);
	exit(99);
}

#define must(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			refuse(#condition);                                                        \
	} while (0)

/* A function of sim/sim_adapter.h; NULL: the adapter is not the simulated one. */
static void *find_simulated(const char *function)
{
	const char *kind = getenv("RDMA_TEST_KIND");
	void *found = dlsym(RTLD_DEFAULT, function);

	must(!found == !(kind && !strcmp(kind, "sim")));
	return found;
}

/* As a kernel: every region counts, and a domain with regions is busy. */
static void set_simulated(const char *setting, uint64_t value)
{
	int (*set)(const char *, uint64_t) = (__typeof__(set))find_simulated("sim_adapter_set");

	must(!set || !set(setting, value));
}

struct ibv_context *loopback_open_device(void)
{
	const char *name = getenv("RDMA_TEST_DEVICE");
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	must(devices);
	set_simulated("uncounted", 0);
	set_simulated("busy", 1);
	for (int i = 0; devices[i] && !context; i++) {
		if (!name || !strcmp(ibv_get_device_name(devices[i]), name))
			context = ibv_open_device(devices[i]);
	}
	must(context);
	ibv_free_device_list(devices);
	return context;
}

void loopback_open(struct loopback *loopback)
{
	loopback->context = loopback_open_device();
	loopback->pd = ibv_alloc_pd(loopback->context);
	must(loopback->pd);
	loopback->queue = ibv_create_cq(loopback->context, 16, NULL, NULL, 0);
	must(loopback->queue);
	loopback->near = loopback->far = NULL;
}

static struct ibv_qp *make_queue_pair(struct loopback *loopback)
{
	struct ibv_qp_init_attr attributes = {
		.send_cq = loopback->queue,
		.recv_cq = loopback->queue,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *pair = ibv_create_qp(loopback->pd, &attributes);

	must(pair);
	return pair;
}

static void connect_to(struct loopback *loopback, struct ibv_qp *pair, uint32_t number)
{
	const char *index = getenv("RDMA_TEST_GID_INDEX");
	int gid_index = index ? atoi(index) : 0;
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_INIT,
					  .port_num = 1,
					  .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
							     IBV_ACCESS_REMOTE_READ };

	must(!ibv_query_port(loopback->context, 1, &port));
	must(!ibv_query_gid(loopback->context, 1, gid_index, &gid));
	must(!ibv_modify_qp(pair, &attributes,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attributes = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = port.active_mtu,
		.dest_qp_num = number,
		.min_rnr_timer = 12,
		.max_dest_rd_atomic = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .dlid = port.lid,
			     .grh = { .dgid = gid,
				      .sgid_index = (uint8_t)gid_index,
				      .hop_limit = 1 } },
	};
	must(!ibv_modify_qp(pair, &attributes,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER));
	/* 1 s, 7 times: the other side may be software on a stalled processor. */
	attributes = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
					   .timeout = 18,
					   .retry_cnt = 7,
					   .rnr_retry = 7,
					   .max_rd_atomic = 1 };
	must(!ibv_modify_qp(pair, &attributes,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

void loopback_connect(struct loopback *loopback)
{
	loopback_disconnect(loopback);
	loopback->near = make_queue_pair(loopback);
	loopback->far = make_queue_pair(loopback);
	connect_to(loopback, loopback->near, loopback->far->qp_num);
	connect_to(loopback, loopback->far, loopback->near->qp_num);
}

static enum ibv_wc_status perform(struct loopback *loopback, enum ibv_wr_opcode opcode,
				  const void *local, uint32_t lkey, uint64_t remote, uint32_t rkey,
				  uint32_t length)
{
	struct ibv_sge piece = { .addr = (uintptr_t)local, .length = length, .lkey = lkey };
	struct ibv_send_wr *bad, request = { .sg_list = &piece,
					     .num_sge = 1,
					     .opcode = opcode,
					     .send_flags = IBV_SEND_SIGNALED,
					     .wr.rdma = { .remote_addr = remote, .rkey = rkey } };
	struct ibv_wc completion;
	int count;

	must(!ibv_post_send(loopback->near, &request, &bad));
	/* The adapter may be software, and need the processor. */
	while (!(count = ibv_poll_cq(loopback->queue, 1, &completion)))
		sched_yield();
	must(count == 1);
	return completion.status;
}

enum ibv_wc_status loopback_write(struct loopback *loopback, const void *from, uint32_t lkey,
				  uint64_t to, uint32_t rkey, uint32_t length)
{
	return perform(loopback, IBV_WR_RDMA_WRITE, from, lkey, to, rkey, length);
}

enum ibv_wc_status loopback_read(struct loopback *loopback, void *to, uint32_t lkey, uint64_t from,
				 uint32_t rkey, uint32_t length)
{
	return perform(loopback, IBV_WR_RDMA_READ, to, lkey, from, rkey, length);
}

void loopback_disconnect(struct loopback *loopback)
{
	if (loopback->near)
		must(!ibv_destroy_qp(loopback->near));
	if (loopback->far)
		must(!ibv_destroy_qp(loopback->far));
	loopback->near = loopback->far = NULL;
}

void loopback_close(struct loopback *loopback)
{
	loopback_disconnect(loopback);
	must(!ibv_destroy_cq(loopback->queue));
	must(!ibv_dealloc_pd(loopback->pd));
	must(!ibv_close_device(loopback->context));
}

/* The kernel records the registering thread; the worker registers in the background. */
static void list_threads(char *to, size_t size)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	size_t used = 0;

	must(tasks);
	while ((task = readdir(tasks))) {
		if (task->d_name[0] == '.')
			continue;
		used += (size_t)snprintf(to + used, size - used, "%s%s", used ? "|" : "",
					 task->d_name);
		must(used < size);
	}
	closedir(tasks);
}

int loopback_kernel_regions(void)
{
	int (*simulated)(const char *, uint64_t *) =
		(__typeof__(simulated))find_simulated("sim_adapter_statistic");
	char line[512], threads[1024], command[1200];
	FILE *listing;
	uint64_t live;
	int count = 0;

	if (simulated) {
		must(!simulated("live", &live));
		return (int)live;
	}
	list_threads(threads, sizeof(threads));
	/* The kernel's own list, by iproute2; the child must not run under the preload. */
	snprintf(command, sizeof(command),
		 "env -u LD_PRELOAD rdma resource show mr | grep -cE 'pid (%s) '", threads);
	listing = popen(command, "r");
	must(listing);
	must(fgets(line, sizeof(line), listing));
	count = atoi(line);
	pclose(listing);
	return count;
}

void loopback_limit_pinned(size_t bytes)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	struct rlimit limit = { .rlim_cur = bytes, .rlim_max = bytes };

	/* The simulated adapter pins nothing. */
	set_simulated("memory", bytes);
	must(!syscall(SYS_capget, &header, data));
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	must(!syscall(SYS_capset, &header, data));
	must(!setrlimit(RLIMIT_MEMLOCK, &limit));
}
