/* SPDX-License-Identifier: BSD-3-Clause */
/* check_pinning.c -- registration methods, in rows: choice, fallbacks, contexts of exports;
 * messages */
#include "suite.h"

#include <pthread.h>

#include "base/config.h"
#include "pinning_fixture.h"

CASE(methods, .set_up = set_up, .tear_down = tear_down);

/* ---- rows: a state of GPU, adapter and context, the registrations, their results ----
 *
 * NAME=VALUE sets, NAME:VALUE requires. pin:ERROR registers memory of the context "own" by any
 * method, pin-null memory without a context, pin-other of another one; pin-dma-buf and pin-peer by
 * one method. "N*" repeats. "@" stands for each text of `each`. */

#define VARIABLE(name, of)                                                                         \
	{                                                                                          \
		name, &(of), sizeof(of)                                                            \
	}

static const struct variable {
	const char *name;
	void *at;
	size_t size;
} variables[] = {
	VARIABLE("gpu-dma-buf", gpu.dma_buf),
	VARIABLE("gpu-peer", gpu.peer),
	VARIABLE("gpu-peer-mapped", gpu.peer_mapped),
	VARIABLE("export-result", gpu.result),
	VARIABLE("exports", gpu.exports),
	VARIABLE("exports-over-pcie", gpu.exports_over_pcie),
	VARIABLE("pushes", pushes),
	VARIABLE("pop-fails-once-dead", pop_fails_once_dead),
	VARIABLE("own-alive", own.alive),
	VARIABLE("other-alive", other.alive),
	VARIABLE("primary-alive", primary.alive),
	VARIABLE("retains", retains),
	VARIABLE("probe", nic.probe),
	VARIABLE("probes", nic.probes),
	VARIABLE("dma-buf", nic.dma_buf),
	VARIABLE("dma-bufs", nic.dma_bufs),
	VARIABLE("sources", nic.sources),
	VARIABLE("peer", nic.peer),
	VARIABLE("peers", nic.peers),
	VARIABLE("peer-access", nic.access),
	VARIABLE("ended", nic.ended),
	VARIABLE("base", request.base),
	VARIABLE("length", request.length),
	VARIABLE("access", request.access),
	VARIABLE("device", request.device),
	VARIABLE("own-blocks", request.own_blocks),
	VARIABLE("by-address", request.by_address),
	VARIABLE("dma-buf-only", request.dma_buf_only),
	VARIABLE("pcie", request.pcie),
	VARIABLE("failed-call", pinned.failure.call),
	VARIABLE("failure", pinned.failure.number),
	VARIABLE("by-dma-buf", statistics.counters.registrations_dma_buf),
	VARIABLE("by-peer-memory", statistics.counters.registrations_peer_memory),
};

static const struct {
	const char *name;
	long value;
} values[] = {
	{ "ENOMEM", ENOMEM },
	{ "EAGAIN", EAGAIN },
	{ "EINTR", EINTR },
	{ "EFAULT", EFAULT },
	{ "EINVAL", EINVAL },
	{ "EIO", EIO },
	{ "ENOSYS", ENOSYS },
	{ "EOPNOTSUPP", EOPNOTSUPP },
	{ "NO_CONTEXT", PINNING_NO_CONTEXT },
	{ "NOT_SUPPORTED", CUDA_ERROR_NOT_SUPPORTED },
	{ "INVALID_VALUE", CUDA_ERROR_INVALID_VALUE },
	{ "OUT_OF_MEMORY", CUDA_ERROR_OUT_OF_MEMORY },
	{ "WINDOWS", RIGHTS | IBV_ACCESS_MW_BIND },
	{ "EXPORT", ERRORS_EXPORT },
	{ "HALF_PAGE", (long)HOME + 512 },
};

static long value_of(const char *text)
{
	long sign = *text == '-' ? -1 : 1;

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		if (!strcmp(values[i].name, text + (sign < 0)))
			return sign * values[i].value;
	}
	return strtol(text, NULL, 0);
}

static void leave_out(const char *function)
{
	const struct {
		const char *name;
		void *at;
	} functions[] = {
#define FUNCTION(of, name) { #name, &standin_##of.name }
		FUNCTION(driver, cuMemGetHandleForAddressRange),
		FUNCTION(driver, cuDeviceGetAttribute),
		FUNCTION(driver, cuCtxPushCurrent_v2),
		FUNCTION(driver, cuDevicePrimaryCtxRetain),
		FUNCTION(driver, cuThreadExchangeStreamCaptureMode),
		FUNCTION(verbs, ibv_reg_dmabuf_mr),
		FUNCTION(verbs, ibv_reg_mr_iova2),
#undef FUNCTION
	};
	size_t i = 0;

	while (strcmp(functions[i].name, function))
		require(++i < sizeof(functions) / sizeof(*functions));
	memset(functions[i].at, 0, sizeof(void *));
}

static void destroy_own(void)
{
	own.alive = false;
}

/* The client's own dma-buf of the range, and of bytes before and behind it. */
static void set_source(const char *around)
{
	long before = strtol(around, NULL, 0), behind = strtol(strchr(around, ',') + 1, NULL, 0);

	source_fd = memfd_create("client", MFD_CLOEXEC);
	request.source = (struct dma_buf){ { .fd = source_fd },
					   HOME - (uint64_t)before,
					   BLOCK + (uint64_t)(before + behind) };
}

static bool set_state(const char *name, const char *value)
{
	if (!strcmp(name, "pd"))
		request.pd = *value == '1' ? &pd : &second_pd;
	else if (!strcmp(name, "current"))
		stack[depth++] = !strcmp(value, "own")	   ? &own
				 : !strcmp(value, "other") ? &other
							   : &of_other_device;
	else if (!strcmp(name, "without"))
		leave_out(value);
	else if (!strcmp(name, "source"))
		set_source(value);
	else if (!strcmp(name, "none-current"))
		depth = 0;
	else if (!strcmp(name, "no-module"))
		sysfs_remove("module");
	else if (!strcmp(name, "closed"))
		pinning_device_closed(&adapter);
	else if (!strcmp(name, "destroyed-meanwhile"))
		gpu.during = destroy_own;
	else if (!strcmp(name, "mended"))
		gpu.result = CUDA_SUCCESS, nic.dma_buf = 0;
	else
		return false;
	return true;
}

static bool register_once(const char *name, long *error)
{
	bool by_dma_buf = !strncmp(name, "pin-dma-buf", 11);
	const char *of = name + (by_dma_buf ? 11 : 3);

	if (strncmp(name, "pin", 3))
		return false;
	request.context = !strcmp(of, "-null") ? NULL : !strcmp(of, "-other") ? &other : &own;
	*error = pin_by(by_dma_buf	       ? dma_buf_pin
			: !strcmp(of, "-peer") ? peer_memory_pin
					       : pinning_pin,
			&request);
	return true;
}

static long read_variable(const struct variable *variable)
{
	return variable->size == 1   ? *(const bool *)variable->at
	       : variable->size == 8 ? (long)*(const uint64_t *)variable->at
				     : *(const int *)variable->at;
}

static void write_variable(const struct variable *variable, long value)
{
	if (variable->size == 1)
		*(bool *)variable->at = value;
	else if (variable->size == 8)
		*(uint64_t *)variable->at = (uint64_t)value;
	else
		*(int *)variable->at = (int)value;
}

/* False: the row fails there. */
static bool run_word(char *word)
{
	char *sign = strpbrk(word, "=:"), *value = sign ? sign + 1 : NULL;
	bool sets = !sign || *sign == '=';
	size_t i = 0;
	long found;

	if (sign)
		*sign = '\0';
	if (register_once(word, &found))
		return !strcmp(value, "-any") ? found < 0 : found == value_of(value);
	if (sets && set_state(word, value))
		return true;
	while (strcmp(variables[i].name, word))
		require(++i < sizeof(variables) / sizeof(*variables));
	if (sets)
		write_variable(&variables[i], value_of(value));
	return read_variable(&variables[i]) == value_of(value);
}

static void run_row(const char *promise, const char *text)
{
	char word[64], copy[64];
	int length = 0;

	for (; sscanf(text, "%63s%n", word, &length) == 1; text += length) {
		char *at = strchr(word, '*');
		int times = at ? atoi(word) : 1;

		for (int i = 0; i < times; i++) {
			strcpy(copy, at ? at + 1 : word);
			if (!run_word(copy))
				ck_abort_msg("%s: not so: %s, before \"%s\"", promise, word,
					     text + length);
		}
	}
}

/* Each alone rules dma-buf out; an export or a registration from it fails. */
#define WITHOUT_DMA_BUF                                                                            \
	{                                                                                          \
		"gpu-dma-buf=0", "probe=EOPNOTSUPP", "without=cuMemGetHandleForAddressRange",      \
			"without=ibv_reg_dmabuf_mr", "without=cuDeviceGetAttribute", "probe=0"     \
	}
#define BROKEN_DMA_BUF                                                                             \
	{                                                                                          \
		"export-result=NOT_SUPPORTED", "export-result=INVALID_VALUE", "dma-buf=EFAULT"     \
	}

static const struct {
	const char *promise, *text, *each[6];
} rows[] = {
	/* ---- capability probe ---- */
	{ "dma-buf is used where GPU and adapter have it",
	  .text = "3*pin:0 probes:1 dma-bufs:3 peers:0 by-dma-buf:3 by-peer-memory:0" },
	{ "peer memory is used where one of them has no dma-buf",
	  .text = "@ 2*pin:0 peers:2 exports:0 dma-bufs:0 by-peer-memory:2", WITHOUT_DMA_BUF },
	{ "where there is no dma-buf the error is peer memory's",
	  .text = "@ peer=EFAULT pin:-EFAULT exports:0", WITHOUT_DMA_BUF },
	{ "the adapter is probed where the GPU has dma-buf",
	  .text = "@",
	  { "gpu-dma-buf=0 2*pin:0 probes:0", "probe=EOPNOTSUPP 2*pin:0 probes:1 ended:0",
	    "probe=0 2*pin:0 probes:1 ended:1" } },
	{ "each pair of GPU and adapter is probed for itself",
	  .text = "pin:0 probe=EOPNOTSUPP pd=2 pin:0 peers:1 pd=1 pin:0 dma-bufs:2 probes:2 "
		  "gpu-dma-buf=0 device=1 pin:0 peers:2" },
	{ "a closed device is forgotten, and no other one",
	  .text = "pin:0 pd=2 pin:0 closed probe=EOPNOTSUPP pin:0 dma-bufs:3 pd=1 pin:0 dma-bufs:3 "
		  "peers:1" },
	/* ---- the other method ---- */
	{ "what fails by dma-buf is done by peer memory from then on",
	  .text = "@ pin:0 peers:1 exports:1 mended pin:0 peers:2 exports:1 by-peer-memory:2",
	  BROKEN_DMA_BUF },
	{ "and by dma-buf once that has worked",
	  .text = "dma-buf=EFAULT pin:0 dma-buf=0 peer=EFAULT pin:0 peers:2 dma-bufs:2 peer=0 "
		  "pin:0 "
		  "peers:2 dma-bufs:3" },
	{ "a method that has worked stays however often it fails",
	  .text = "pin:0 @ 20*pin:0 peers:20 exports:21 mended pin:0 by-dma-buf:2",
	  BROKEN_DMA_BUF },
	/* A range in blocks of others, or memory of another kind, may have a cause of its own. */
	{ "failures of a range leave the pair as it was",
	  .text = "own-blocks=0 @ 20*pin:0 peers:20 exports:20 mended pin:0 by-dma-buf:1",
	  BROKEN_DMA_BUF },
	{ "failures of a range leave the pair as it was, also for a client by address",
	  .text = "own-blocks=0 by-address=1 peer=EFAULT pin:0 by-dma-buf:1 peer=0 pin:0 peers:2" },
	{ "what passes is returned as it is",
	  .text = "dma-buf=@ pin:-@ peers:0 dma-buf=0 pin:0 dma-bufs:2 probe=EOPNOTSUPP peer=@ "
		  "pd=2 "
		  "pin:-@ exports:2",
	  { "ENOMEM", "EAGAIN", "EINTR" } },
	{ "no room for an export is no memory",
	  .text = "export-result=OUT_OF_MEMORY pin:-ENOMEM peers:0" },
	{ "no memory by the other method is returned too",
	  .text = "dma-buf=EFAULT peer=ENOMEM no-module pin:-ENOMEM peer=0 pin:0 dma-bufs:2" },
	{ "where both fail the error is that of the last that was meant to work, and both stay",
	  .text = "dma-buf=EIO peer=EFAULT @ dma-bufs:2 peers:2",
	  { "2*pin:-EFAULT", "no-module 2*pin:-EIO", "gpu-peer=0 2*pin:-EIO",
	    "gpu-peer-mapped=0 2*pin-null:-EIO", "gpu-peer-mapped=0 2*pin:-EFAULT" } },
	{ "a failure without a reason is one",
	  .text = "dma-buf=-1 peer=-1 pin:-any without=ibv_reg_mr_iova2 pin-peer:-ENOSYS "
		  "without=ibv_reg_dmabuf_mr pin-dma-buf:-EOPNOTSUPP "
		  "without=cuMemGetHandleForAddressRange pin-dma-buf:-EOPNOTSUPP" },
	/* ---- requests that restrict the method ---- */
	{ "memory without GPUDirect RDMA goes by dma-buf alone",
	  .text = "dma-buf-only=1 pin:0 dma-buf=EFAULT pin:-EFAULT peers:0" },
	{ "memory without GPUDirect RDMA goes by dma-buf where peer memory is the pair's method",
	  .text = "dma-buf=EFAULT pin:0 peers:1 dma-buf=0 pin:0 peers:2 dma-buf-only=1 pin:0 "
		  "peers:2" },
	{ "memory without GPUDirect RDMA is not registered where there is no dma-buf",
	  .text = "@ dma-buf-only=1 pin:-EOPNOTSUPP peers:0 exports:0", WITHOUT_DMA_BUF },
	{ "access flags that a dma-buf cannot have go by peer memory",
	  .text = "access=WINDOWS pin:0 peer-access:WINDOWS exports:0 peer=EFAULT pin:-EFAULT "
		  "exports:0 "
		  "dma-buf-only=1 pin:-EOPNOTSUPP dma-buf-only=0 access=15 pin:0 dma-bufs:1" },
	/* The adapter reaches the memory over PCIe, and not the other path. */
	{ "a mapping has a method of its own",
	  .text = "dma-buf=EFAULT pin:0 peers:1 exports-over-pcie:0 dma-buf=0 pcie=1 pin:0 peers:1 "
		  "exports-over-pcie:1 pcie=0 pin:0 peers:2 exports-over-pcie:1" },
	{ "peer memory is not over PCIe", .text = "dma-buf=EFAULT pcie=1 pin:-EFAULT peers:0" },
	{ "there is no export for a client by address where peer memory is expected",
	  .text = "pin:0 exports:1 by-address=1 pin:0 peers:1 exports:1 by-address=0 pin:0 "
		  "exports:2" },
	{ "there is an export for a client by address once peer memory has failed",
	  .text = "by-address=1 peer=EFAULT pin:0 peers:1 exports:1 peer=0 pin:0 peers:1 "
		  "exports:2" },
	{ "no memory for a client by address is returned",
	  .text = "by-address=1 peer=ENOMEM pin:-ENOMEM exports:0 peer=0 pin:0 peers:2" },
	/* No module; the GPU's peer memory without VMM memory; memory that is incapable. */
	{ "there is an export for a client by address where peer memory is not expected",
	  .text = "by-address=1 current=own @ peers:0 exports:1",
	  { "no-module pin:0", "gpu-peer-mapped=0 pin-null:0", "dma-buf-only=1 pin:0" } },
	/* ---- the context of an export ---- */
	{ "the allocation's context is current during the export alone",
	  .text = "@ pin:0 dma-bufs:1 pushes:1 retains:1",
	  { "none-current", "current=other", "current=other-device" } },
	{ "a context that is current already is not pushed", .text = "current=own pin:0 pushes:0" },
	{ "a destroyed context stays current",
	  .text = "current=other other-alive=0 pin:0 pin-null:0 dma-bufs:2" },
	{ "a context that is destroyed meanwhile does not stay current",
	  .text = "current=other destroyed-meanwhile pop-fails-once-dead=@ pin:0",
	  { "0", "1" } },
	{ "memory of a destroyed context is not exported",
	  .text = "current=other own-alive=0 pin-dma-buf:NO_CONTEXT exports:0" },
	{ "memory without a context takes the current one of its device",
	  .text = "current=other pin-null:0 pushes:0 dma-bufs:1" },
	{ "otherwise memory without a context takes the primary one",
	  .text = "@ pin-null:0 pushes:1 retains:1 dma-bufs:1",
	  { "none-current", "current=other-device" } },
	/* A missing context does not mark dma-buf as failed for the pair. */
	{ "an export begins no primary context",
	  .text = "primary-alive=0 retains=0 pin-dma-buf-null:NO_CONTEXT exports:0 primary-alive:0 "
		  "pin-null:0 peers:1 pin:0 dma-bufs:1" },
	{ "a driver that lacks contexts' calls exports in the current one",
	  .text = "without=cuCtxPushCurrent_v2 without=cuDevicePrimaryCtxRetain current=own pin:0 "
		  "pin-null:0 dma-bufs:2 pin-dma-buf-other:NO_CONTEXT none-current "
		  "pin-dma-buf-null:NO_CONTEXT" },
	{ "a driver that lacks capture modes exports",
	  .text = "without=cuThreadExchangeStreamCaptureMode pin:0 dma-bufs:1" },
	{ "only whole pages are exported",
	  .text = "length=2096152 pin-dma-buf:-EINVAL failed-call:EXPORT failure:1 length=2097152 "
		  "base=HALF_PAGE pin-dma-buf:-EINVAL exports:0" },
	/* ---- the client's own dma-buf ---- */
	{ "a client's own dma-buf of the range is registered without an export",
	  .text = "source=@ pin-dma-buf:0 exports:0 sources:1",
	  { "0,0", "4096,0", "0,4096", "8192,4096" } },
	{ "a client's own dma-buf of less than the range is not used",
	  .text = "source=@ pin-dma-buf:0 exports:1 sources:0",
	  { "-4096,0", "0,-1", "-2097152,0" } },
	{ "a failure of a client's own dma-buf is followed by an export",
	  .text = "source=0,0 dma-buf=EINVAL pin-dma-buf:-EINVAL exports:1 dma-bufs:2" },
	{ "a lack of memory for a client's own dma-buf is not followed by an export",
	  .text = "source=0,0 dma-buf=ENOMEM pin-dma-buf:-ENOMEM exports:0 dma-bufs:1" },
};

LOOP_TEST(methods, run_rows, 0, sizeof(rows) / sizeof(*rows))
{
	char text[512];

	for (size_t i = 0; !i || (i < 6 && rows[_i].each[i]); i++) {
		size_t length = 0;

		for (const char *at = rows[_i].text; *at; at++)
			length += (size_t)snprintf(text + length, sizeof(text) - length, "%.*s",
						   *at == '@' ? 64 : 1,
						   *at == '@' ? rows[_i].each[i] : at);
		tear_down();
		set_up();
		statistics.counters.registrations_dma_buf = 0;
		statistics.counters.registrations_peer_memory = 0;
		run_row(rows[_i].promise, text);
		/* It is the client's to close. */
		ck_assert(source_fd < 0 || !close(source_fd));
		source_fd = -2;
	}
}

TEST(methods, more_devices_than_there_is_room_for_are_served_too)
{
	for (request.device = 0; request.device < 300; request.device++)
		ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.dma_bufs, 300);
}

LOOP_TEST(methods, the_module_may_have_another_name, 0, 2)
{
	static const char *const files[] = { "module/nv_peer_mem/version",
					     "kernel/mm/memory_peers/nv_mem/version" };

	sysfs_remove("module");
	sysfs_make_file(files[_i], "1.3\n");
	nic.dma_buf = EIO;
	nic.peer = EFAULT;
	ck_assert_int_eq(pin(&own), -EFAULT);
}

/* ---- deregistration ---- */

TEST(methods, a_registration_is_ended_in_a_call_of_our_own)
{
	struct ibv_mr mr;

	errno = ERRNO;
	ck_assert_int_eq(own_call_deregister(&mr), 0);
	nic.end_error = EBUSY;
	ck_assert_int_eq(registration_methods[0].unpin(&mr), -EBUSY);
	ck_assert_int_eq(registration_methods[1].unpin(&mr), -EBUSY);
	ck_assert_int_eq(errno, ERRNO);
	ck_assert_uint_eq(nic.ended, 3);
	ck_assert(!registration_is_own_call());
}

/* A registration left behind keeps the memory pinned, or reaches the next allocation there. */
LOOP_TEST(methods, an_end_that_fails_for_a_reason_of_the_moment_is_tried_again, 0, 2)
{
	static const int errors[] = { EINTR, EAGAIN };
	struct ibv_mr mr;

	nic.end_error = errors[_i];
	nic.end_errors = 3;
	errno = ERRNO;
	ck_assert_int_eq(own_call_deregister(&mr), 0);
	ck_assert_uint_eq(nic.ended, 4);
	/* The number of retries is bounded. */
	nic.end_error = errors[_i];
	ck_assert_int_eq(own_call_deregister(&mr), -errors[_i]);
	ck_assert_int_eq(errno, ERRNO);
}

/* ---- messages ---- */

static FILE *told;
static int stdout_before, stderr_before;

/* A file is standard error if it is standard output, too (base/start.h). */
static void begin_logging(void)
{
	told = tmpfile();
	ck_assert_ptr_nonnull(told);
	stdout_before = dup(STDOUT_FILENO);
	stderr_before = dup(STDERR_FILENO);
	dup2(fileno(told), STDOUT_FILENO);
	dup2(fileno(told), STDERR_FILENO);
}

/* Number of lines that contain `text`. */
static unsigned int logged(const char *text)
{
	unsigned int lines = 0;
	char line[1024];

	rewind(told);
	while (fgets(line, sizeof(line), told))
		lines += strstr(line, text) != NULL;
	return lines;
}

static void end_logging(void)
{
	dup2(stdout_before, STDOUT_FILENO);
	dup2(stderr_before, STDERR_FILENO);
	close(stdout_before);
	close(stderr_before);
	fclose(told);
}

#define RESULTS "check_pinning.json"

static void set_up_with_results(void)
{
	unlink(RESULTS);
	set_up();
}

static void tear_down_with_results(void)
{
	tear_down();
	unlink(RESULTS);
}

CASE(reports, .set_up = set_up_with_results, .tear_down = tear_down_with_results);

TEST(reports, each_method_of_a_pair_is_reported_once_with_its_reason)
{
	begin_logging();
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(logged("GPU 0, mlx5_7: memory is registered by dma-buf"), 1);
	pinning_device_closed(&adapter);
	nic.dma_buf = EFAULT;
	request.own_blocks = false;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(logged("GPU 0, mlx5_7: memory is registered by peer memory"), 0);
	request.own_blocks = true;
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(logged("GPU 0, mlx5_7: memory is registered by peer memory"), 1);
	ck_assert_uint_eq(
		logged("not by dma-buf: ibv_reg_dmabuf_mr: EFAULT (14): the adapter cannot"), 1);
	ck_assert_uint_eq(logged("registered by"), 2);
	end_logging();
}

LOOP_TEST(reports, the_mode_of_the_module_is_logged, 0, 2)
{
	static const char *const files[] = { "1\n", "0\n" };

	sysfs_make_file("module/nvidia_peermem/parameters/persistent_api_support", files[_i]);
	gpu.dma_buf = 0;
	begin_logging();
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(
		logged(_i ? "not in its persistent mode" : "loaded, in its persistent mode"), 1);
	ck_assert_uint_eq(logged("not by dma-buf: the GPU's driver does not support"), 1);
	end_logging();
}

TEST(reports, where_nothing_works_the_fix_is_logged_once)
{
	sysfs_remove("module");
	nic.probe = EOPNOTSUPP;
	nic.peer = EFAULT;
	begin_logging();
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pin(&own), -EFAULT);
	ck_assert_uint_eq(logged("<warn>"), 1);
	ck_assert_uint_eq(
		logged("By dma-buf: the adapter does not support dma-buf. By peer memory: "
		       "ibv_reg_mr: "
		       "EFAULT (14): nvidia-peermem is not loaded, so the kernel cannot find the "
		       "GPU's pages. "
		       "Load it (modprobe nvidia-peermem), or "),
		1);
	end_logging();
}

/* _i: 0: nothing is known of the pair; 1: the probe expects no method to work. */
LOOP_TEST(reports, a_failure_of_a_range_blames_the_pair_only_where_the_probe_does, 0, 2)
{
	nic.dma_buf = EINVAL;
	nic.peer = EFAULT;
	if (_i) {
		sysfs_remove("module");
		nic.probe = EOPNOTSUPP;
	}
	request.own_blocks = false;
	begin_logging();
	for (unsigned int i = 0; i < 20; i++)
		ck_assert_int_eq(pin(&own), -EFAULT);
	ck_assert_uint_eq(logged("<warn>"), _i);
	ck_assert_int_eq(pinned.reported, _i);
	request.own_blocks = true;
	ck_assert_int_eq(pin(&own), -EFAULT);
	ck_assert_uint_eq(logged("GPU memory cannot be registered with mlx5_7 for GPU 0"), 1);
	ck_assert(pinned.reported);
	end_logging();
}

/* True if the results file, written at exit, contains `text`. */
static bool results_have(const char *text)
{
	static char results[65536];
	FILE *file = fopen(RESULTS, "r");
	size_t size;

	ck_assert_ptr_nonnull(file);
	size = fread(results, 1, sizeof(results) - 1, file);
	results[size] = '\0';
	fclose(file);
	return strstr(results, text);
}

LOOP_TEST(reports, the_summary_and_the_results_have_the_fallback_reason, 0, 4)
{
	statistics_begin();
	statistics_tally(TALLY_requests);
	statistics_tally(TALLY_hits);
	if (_i == 0)
		nic.dma_buf = EFAULT;
	else if (_i == 1)
		nic.probe = EOPNOTSUPP;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_int_eq(pin(&own), 0);
	/* A failure of one range is no reason. */
	if (_i == 3) {
		request.pd = &second_pd;
		request.own_blocks = false;
		nic.dma_buf = EFAULT;
		ck_assert_int_eq(pin(&own), 0);
		ck_assert_uint_eq(statistics_get(registrations_peer_memory), 1);
	}
	begin_logging();
	statistics_finish();
	ck_assert_uint_eq(logged("not by dma-buf   GPU 0, mlx5_7: ibv_reg_dmabuf_mr: EFAULT (14)"),
			  _i == 0);
	ck_assert_uint_eq(
		logged("not by dma-buf   GPU 0, mlx5_7: the adapter does not support dma-buf"),
		_i == 1);
	ck_assert_uint_eq(logged("not by dma-buf") + logged("not by peer mem."), _i < 2);
	ck_assert(results_have("\"peer memory\", \"path\": null, \"reason\": \"ibv_reg_dmabuf_mr: "
			       "EFAULT") == (_i == 0));
	ck_assert(results_have("\"reason\": \"the adapter does not support dma-buf\"") ==
		  (_i == 1));
	ck_assert(results_have("\"reason\"") == (_i < 2));
	end_logging();
}

LOOP_TEST(reports, the_summary_names_the_methods_used, 0, 3)
{
	static const char *const verdicts[] = { "used: peer memory; ", "used: dma-buf; ",
						"used: dma-buf and peer memory; " };

	statistics_tally(TALLY_requests);
	statistics_tally(TALLY_hits);
	if (_i)
		ck_assert_int_eq(pin(&own), 0);
	request.pd = &second_pd;
	nic.probe = EOPNOTSUPP;
	if (_i != 1)
		ck_assert_int_eq(pin(&own), 0);
	begin_logging();
	statistics_finish();
	ck_assert_uint_eq(logged(verdicts[_i]), 1);
	end_logging();
}

/* ---- threads ---- */

static void *pin_often(void *argument)
{
	struct pin_request mine = {
		.pd = argument, .base = HOME, .length = BLOCK, .access = RIGHTS
	};
	struct ibv_context alone = second_adapter;
	struct ibv_pd pd_of_alone = { .context = &alone };
	struct pin_result result;

	pd_alone = &pd_of_alone;
	for (int i = 0; i < 200; i++) {
		/* A device that this thread alone has open, and closes. */
		mine.pd = i % 8 ? argument : &pd_of_alone;
		mine.device = i % 3;
		mine.context = i % 2 ? &own : &other;
		ck_assert_int_eq(pinning_pin(&mine, &result), 0);
		if (i % 8 == 0)
			pinning_device_closed(&alone);
		nic.dma_buf = i % 5 ? 0 : EFAULT;
	}
	pd_alone = NULL;
	return NULL;
}

/* Of the adapter that has a name. */
static uint64_t counted_by_pair(void)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < STATISTICS_PAIRS; i++)
		sum += load_relaxed(&statistics.pairs[i].registrations);
	return sum;
}

TEST(methods, any_thread_at_any_time)
{
	pthread_t threads[4];

	for (size_t i = 0; i < 4; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, pin_often, i % 2 ? &pd : &second_pd), 0);
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(statistics_get(registrations_dma_buf) +
				  statistics_get(registrations_peer_memory),
			  4 * 200);
	ck_assert_uint_eq(counted_by_pair(), 2 * 175);
}

int main(void)
{
	setenv("PEERPIN_SUMMARY", "table", 1);
	setenv("PEERPIN_LOG_LEVEL", "info", 1);
	setenv("PEERPIN_STATS_FILE", RESULTS, 1);
	config_get();
	return suite_main("pinning");
}
