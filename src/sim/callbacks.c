/* SPDX-License-Identifier: BSD-3-Clause */
/* callbacks.c -- host functions in streams
 *
 * A thread of the driver calls them, as in the real driver: a caller may hold a lock that its
 * function takes. All streams share one order. All other work is complete at once, so stream work
 * after a host function waits for the function in the call that enqueues the work.
 */
#include <stdlib.h>

#include "sim.h"

struct callback {
	struct callback *next;
	void (*function)(void *data);
	void (*status_function)(CUstream stream, CUresult status, void *data);
	CUstream stream;
	void *data;
};

static struct callback *first, **end = &first;
static uint64_t enqueued, completed;
static bool has_thread;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static __thread bool is_driver_thread;

static void *callbacks_run(void *unused)
{
	is_driver_thread = true;
	pthread_mutex_lock(&sim_lock);
	for (;;) {
		struct callback *callback = first;

		if (!callback) {
			pthread_cond_wait(&changed, &sim_lock);
			continue;
		}
		first = callback->next;
		if (!first)
			end = &first;
		pthread_mutex_unlock(&sim_lock);
		if (callback->function)
			callback->function(callback->data);
		else
			callback->status_function(callback->stream, CUDA_SUCCESS, callback->data);
		free(callback);
		pthread_mutex_lock(&sim_lock);
		completed++;
		pthread_cond_broadcast(&changed);
	}
	return unused;
}

static bool callbacks_start(void)
{
	pthread_t thread;

	if (!has_thread && !pthread_create(&thread, NULL, callbacks_run, NULL)) {
		pthread_detach(thread);
		has_thread = true;
	}
	return has_thread;
}

static CUresult callbacks_enqueue(struct callback callback)
{
	struct callback *added = callbacks_start() ? malloc(sizeof(*added)) : NULL;

	if (!added)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*added = callback;
	*end = added;
	end = &added->next;
	enqueued++;
	pthread_cond_broadcast(&changed);
	return CUDA_SUCCESS;
}

uint64_t sim_enqueued_callbacks(void)
{
	return enqueued;
}

bool sim_callbacks_are_done(uint64_t count)
{
	return completed >= count;
}

/* A host function must not call the driver; one that does may not wait for itself. */
void sim_await_callbacks(uint64_t count)
{
	while (!is_driver_thread && completed < count)
		pthread_cond_wait(&changed, &sim_lock);
}

/* The function of a captured call becomes a graph node, which is not recorded. */
SIM_CONTEXT_CALL(cuLaunchHostFunc, (stream, function, data), CUstream stream,
		 void (*function)(void *data), void *data)
{
	bool captured;
	CUresult result;

	if (!function)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_stream_exists(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	result = sim_check_stream(stream, &captured);
	if (result != CUDA_SUCCESS || captured)
		return result;
	return callbacks_enqueue((struct callback){ .function = function, .data = data });
}

/* A captured stream takes no callback (cuda.h of 13.0). */
SIM_CONTEXT_CALL(cuStreamAddCallback, (stream, callback, data, flags), CUstream stream,
		 void (*callback)(CUstream stream, CUresult status, void *data), void *data,
		 unsigned int flags)
{
	bool captured;
	CUresult result;

	if (!callback || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_stream_exists(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	result = sim_check_stream(stream, &captured);
	if (result != CUDA_SUCCESS)
		return result;
	if (captured)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return callbacks_enqueue(
		(struct callback){ .status_function = callback, .stream = stream, .data = data });
}
