/* SPDX-License-Identifier: BSD-3-Clause */
/* check_pinning.c -- the choice of registration method, its fallbacks, and their messages */
#include "suite.h"

#include <pthread.h>

#include "base/config.h"
#include "pinning_fixture.h"

CASE(methods, .set_up = set_up, .tear_down = tear_down);

/* ---- capability probe ---- */

TEST(methods, dma_buf_is_used_where_gpu_and_adapter_have_it)
{
	for (unsigned int i = 1; i <= 3; i++) {
		ck_assert_int_eq(pin(&own), 0);
		ck_assert_uint_eq(nic.dma_bufs, i);
	}
	ck_assert_uint_eq(nic.probes, 1);
	ck_assert_uint_eq(nic.peers, 0);
	ck_assert_uint_eq(statistics_get(registrations_dma_buf), 3);
	ck_assert_uint_eq(statistics_get(registrations_peer_memory), 0);
}

/* Each case alone rules dma-buf out. */
static void take_dma_buf_away(int which)
{
	if (which == 0)
		gpu.dma_buf = 0;
	else if (which == 1)
		nic.probe = EOPNOTSUPP;
	else if (which == 2)
		standin_driver.cuMemGetHandleForAddressRange = NULL;
	else if (which == 3)
		standin_verbs.ibv_reg_dmabuf_mr = NULL;
	else if (which == 4)
		standin_driver.cuDeviceGetAttribute = NULL;
	else
		nic.probe = 0;
}

LOOP_TEST(methods, peer_memory_is_used_where_one_of_them_has_no_dma_buf, 0, 6)
{
	take_dma_buf_away(_i);
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, 2);
	ck_assert_uint_eq(gpu.exports, 0);
	ck_assert_uint_eq(nic.dma_bufs, 0);
	ck_assert_uint_eq(nic.probes, _i == 1 || _i == 5);
	ck_assert_uint_eq(nic.ended, _i == 5); /* the probe's unexpected MR */
	ck_assert_uint_eq(statistics_get(registrations_peer_memory), 2);
}

LOOP_TEST(methods, where_there_is_no_dma_buf_the_error_is_peer_memory_s, 0, 6)
{
	take_dma_buf_away(_i);
	nic.peer = EFAULT;
	ck_assert_int_eq(pin(&own), -EFAULT);
	ck_assert_uint_eq(gpu.exports, 0);
}

TEST(methods, each_pair_is_asked_about_for_itself)
{
	ck_assert_int_eq(pin(&own), 0);
	nic.probe = EOPNOTSUPP;
	request.pd = &second_pd;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, 1);
	request.pd = &pd;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.dma_bufs, 2);
	ck_assert_uint_eq(nic.probes, 2);
	gpu.dma_buf = 0;
	request.device = 1;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, 2);
}

TEST(methods, a_closed_device_is_forgotten_and_no_other_one)
{
	ck_assert_int_eq(pin(&own), 0);
	request.pd = &second_pd;
	ck_assert_int_eq(pin(&own), 0);
	pinning_device_closed(&adapter);
	nic.probe = EOPNOTSUPP;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.dma_bufs, 3);
	request.pd = &pd;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.dma_bufs, 3);
	ck_assert_uint_eq(nic.peers, 1);
}

TEST(methods, more_devices_than_there_is_room_for_are_served_too)
{
	for (request.device = 0; request.device < 300; request.device++)
		ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.dma_bufs, 300);
}

/* ---- the other method ---- */

/* Export or registration may fail. */
static void break_dma_buf(int which)
{
	if (which == 0)
		gpu.result = CUDA_ERROR_NOT_SUPPORTED;
	else if (which == 1)
		gpu.result = CUDA_ERROR_INVALID_VALUE;
	else
		nic.dma_buf = EFAULT;
}

#define OFTEN 20u

LOOP_TEST(methods, what_fails_by_dma_buf_is_done_by_peer_memory_from_then_on, 0, 3)
{
	break_dma_buf(_i);
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, 1);
	ck_assert_uint_eq(gpu.exports, 1);
	gpu.result = CUDA_SUCCESS;
	nic.dma_buf = 0;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, 2);
	ck_assert_uint_eq(gpu.exports, 1);
	ck_assert_uint_eq(statistics_get(registrations_peer_memory), 2);
}

TEST(methods, and_by_dma_buf_once_that_has_worked)
{
	break_dma_buf(2);
	ck_assert_int_eq(pin(&own), 0);
	nic.dma_buf = 0;
	nic.peer = EFAULT;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, 2);
	ck_assert_uint_eq(nic.dma_bufs, 2);
	nic.peer = 0;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, 2);
	ck_assert_uint_eq(nic.dma_bufs, 3);
}

LOOP_TEST(methods, a_method_that_has_worked_stays_however_often_it_fails, 0, 3)
{
	ck_assert_int_eq(pin(&own), 0);
	break_dma_buf(_i);
	for (unsigned int i = 0; i < OFTEN; i++)
		ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, OFTEN);
	ck_assert_uint_eq(gpu.exports, 1 + OFTEN);
	gpu.result = CUDA_SUCCESS;
	nic.dma_buf = 0;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(statistics_get(registrations_dma_buf), 2);
}

/* A range in blocks of others, or memory of another kind, may have a cause of its own. */
LOOP_TEST(methods, failures_of_a_range_leave_the_pair_as_it_was, 0, 3)
{
	request.own_blocks = false;
	break_dma_buf(_i);
	for (unsigned int i = 0; i < OFTEN; i++)
		ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, OFTEN);
	ck_assert_uint_eq(gpu.exports, OFTEN);
	gpu.result = CUDA_SUCCESS;
	nic.dma_buf = 0;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(statistics_get(registrations_dma_buf), 1);
	/* The same of the method that a client by address prefers. */
	pinning_device_closed(&adapter);
	request.by_address = true;
	nic.peer = EFAULT;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(statistics_get(registrations_dma_buf), 2);
	nic.peer = 0;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, OFTEN + 2);
}

LOOP_TEST(methods, what_passes_is_returned_as_it_is, 0, 3)
{
	static const int passing[] = { ENOMEM, EAGAIN, EINTR };

	nic.dma_buf = passing[_i];
	ck_assert_int_eq(pin(&own), -passing[_i]);
	ck_assert_uint_eq(nic.peers, 0);
	nic.dma_buf = 0;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.dma_bufs, 2);
	nic.probe = EOPNOTSUPP;
	nic.peer = passing[_i];
	request.pd = &second_pd;
	ck_assert_int_eq(pin(&own), -passing[_i]);
	ck_assert_uint_eq(gpu.exports, 2);
}

TEST(methods, no_room_for_an_export_is_no_memory)
{
	gpu.result = CUDA_ERROR_OUT_OF_MEMORY;
	ck_assert_int_eq(pin(&own), -ENOMEM);
	ck_assert_uint_eq(nic.peers, 0);
}

TEST(methods, no_memory_by_the_other_method_is_returned_too)
{
	nic.dma_buf = EFAULT;
	nic.peer = ENOMEM;
	sysfs_remove("module");
	ck_assert_int_eq(pin(&own), -ENOMEM);
	nic.peer = 0;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.dma_bufs, 2);
}

LOOP_TEST(methods, where_both_fail_the_error_is_that_of_the_last_that_was_meant_to_work, 0, 5)
{
	bool mapped = _i == 3;

	nic.dma_buf = EIO;
	nic.peer = EFAULT;
	if (_i == 1)
		sysfs_remove("module");
	else if (_i == 2)
		gpu.peer = 0;
	else if (_i >= 3)
		gpu.peer_mapped = 0;
	ck_assert_int_eq(pin(mapped ? NULL : &own), _i == 0 || _i == 4 ? -EFAULT : -EIO);
	ck_assert_uint_eq(nic.dma_bufs, 1);
	ck_assert_uint_eq(nic.peers, 1);
	/* The pair keeps its method. */
	ck_assert_int_eq(pin(mapped ? NULL : &own), _i == 0 || _i == 4 ? -EFAULT : -EIO);
	ck_assert_uint_eq(nic.dma_bufs, 2);
	ck_assert_uint_eq(nic.peers, 2);
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

TEST(methods, a_failure_without_a_reason_is_one)
{
	nic.dma_buf = -1;
	nic.peer = -1;
	ck_assert_int_lt(pin(&own), 0);
	standin_verbs.ibv_reg_mr_iova2 = NULL;
	request.context = &own;
	ck_assert_int_eq(pin_by(peer_memory_pin, &request), -ENOSYS);
	standin_verbs.ibv_reg_dmabuf_mr = NULL;
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), -EOPNOTSUPP);
	standin_driver.cuMemGetHandleForAddressRange = NULL;
	ck_assert_int_eq(pin_by(dma_buf_pin, &request), -EOPNOTSUPP);
}

/* ---- requests that restrict the method ---- */

TEST(methods, memory_without_gpudirect_rdma_goes_by_dma_buf_alone)
{
	request.dma_buf_only = true;
	ck_assert_int_eq(pin(&own), 0);
	nic.dma_buf = EFAULT;
	ck_assert_int_eq(pin(&own), -EFAULT);
	ck_assert_uint_eq(nic.peers, 0);
	/* Also where peer memory is the pair's method. */
	request.pd = &second_pd;
	request.dma_buf_only = false;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, 1);
	nic.dma_buf = 0;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, 2);
	request.dma_buf_only = true;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, 2);
}

LOOP_TEST(methods, and_not_at_all_where_there_is_none, 0, 6)
{
	take_dma_buf_away(_i);
	request.dma_buf_only = true;
	ck_assert_int_eq(pin(&own), -EOPNOTSUPP);
	ck_assert_uint_eq(nic.peers, 0);
	ck_assert_uint_eq(gpu.exports, 0);
}

TEST(methods, access_flags_that_a_dma_buf_cannot_have_go_by_peer_memory)
{
	request.access = RIGHTS | IBV_ACCESS_MW_BIND;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_int_eq(nic.access, request.access);
	ck_assert_uint_eq(gpu.exports, 0);
	nic.peer = EFAULT;
	ck_assert_int_eq(pin(&own), -EFAULT);
	ck_assert_uint_eq(gpu.exports, 0);
	request.dma_buf_only = true;
	ck_assert_int_eq(pin(&own), -EOPNOTSUPP);
	request.dma_buf_only = false;
	request.access = RIGHTS;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.dma_bufs, 1);
}

/* The adapter reaches the memory over PCIe, and not the other path. */
TEST(methods, a_mapping_has_a_method_of_its_own)
{
	nic.dma_buf = EFAULT;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, 1);
	ck_assert_uint_eq(gpu.exports_over_pcie, 0);
	nic.dma_buf = 0;
	request.pcie = true;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, 1);
	ck_assert_uint_eq(gpu.exports_over_pcie, 1);
	request.pcie = false;
	ck_assert_int_eq(pin(&own), 0);
	ck_assert_uint_eq(nic.peers, 2);
	ck_assert_uint_eq(gpu.exports_over_pcie, 1);
}

TEST(methods, peer_memory_is_not_over_pcie)
{
	nic.dma_buf = EFAULT;
	request.pcie = true;
	ck_assert_int_eq(pin(&own), -EFAULT);
	ck_assert_uint_eq(nic.peers, 0);
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
	for (unsigned int i = 0; i < OFTEN; i++)
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
