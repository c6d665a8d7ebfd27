/* SPDX-License-Identifier: BSD-3-Clause */
/* pinning.c -- registration method for each pair of GPU and adapter
 *
 * The expected method is dma-buf where GPU, adapter and libraries support it, else peer memory. The
 * first registration tests it. If the method fails and the other one succeeds, the pair changes to
 * the other one, and back by the same rule. A method that has worked before is replaced only after
 * MISSES failures in turn, because one region may have a cause of its own. A lack of memory and
 * temporary errors say nothing about a method: the caller gets the error, and evicts or retries.
 */
#include "registration/pinning.h"

#include <pthread.h>

#include "base/log.h"
#include "registration/capability.h"
#include "registration/topology.h"
#include "report/errors.h"
#include "report/statistics.h"

const struct registration_backend *registration_backend = &pinning_backend;

enum method { DMA_BUF, PEER_MEMORY, METHODS };

static const struct registration_backend *const methods[METHODS] = {
	[DMA_BUF] = &dma_buf_backend,
	[PEER_MEMORY] = &peer_memory_backend,
};

/* All access flags that a dma-buf registration accepts (ibv_reg_mr(3)). */
#define DMA_BUF_ACCESS_FLAGS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING)

/* ---- pairs ---- */

struct pair {
	const struct ibv_context *context; /* NULL: unused */
	int device;
	struct capability capability;
	enum method method;	   /* tried first */
	int failure;		   /* of the other method, when last tried first; 0: never */
	struct errors_text reason; /* text of `failure` */
	bool works[METHODS];	   /* has registered at least once */
	unsigned int missed;	   /* consecutive registrations by the other method */
	bool reported[METHODS];	   /* logged as the method */
};

/* Consecutive failures of a method that has worked, until the pair changes. */
#define MISSES 4

/* More than a machine has; a pair without an entry is probed for each registration. */
#define PAIRS 256

/* Guards the pairs. Taken alone; never held across a call into the driver, verbs or the log. */
static pthread_mutex_t pairs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pair pairs[PAIRS];

static struct pair *pinning_find(const struct ibv_context *context, int device)
{
	for (unsigned int i = 0; i < PAIRS; i++) {
		if (pairs[i].context == context && (!context || pairs[i].device == device))
			return &pairs[i];
	}
	return NULL;
}

/* Two threads may probe at once, with equal results; the first one's entry stays. */
static struct pair pinning_pair(const struct pin_request *request)
{
	struct pair pair = { .context = NULL }, *entry;

	pthread_mutex_lock(&pairs_lock);
	entry = pinning_find(request->pd->context, request->device);
	if (entry)
		pair = *entry;
	pthread_mutex_unlock(&pairs_lock);
	if (entry)
		return pair;
	pair = (struct pair){ .context = request->pd->context,
			      .device = request->device,
			      .capability = capability_probe(request) };
	pair.method = pair.capability.dma_buf == DMA_BUF_THERE ? DMA_BUF : PEER_MEMORY;
	pthread_mutex_lock(&pairs_lock);
	entry = pinning_find(pair.context, pair.device);
	if (entry) {
		pair = *entry;
	} else {
		entry = pinning_find(NULL, 0);
		if (entry)
			*entry = pair;
	}
	pthread_mutex_unlock(&pairs_lock);
	return pair;
}

void pinning_device_closed(const struct ibv_context *context)
{
	pthread_mutex_lock(&pairs_lock);
	for (unsigned int i = 0; context && i < PAIRS; i++) {
		if (pairs[i].context == context)
			pairs[i].context = NULL;
	}
	pthread_mutex_unlock(&pairs_lock);
}

/* ---- log ---- */

static const char *pinning_adapter_name(const struct pin_request *request)
{
	const char *name = topology_adapter_name(request->pd->context);

	return *name ? name : "an adapter";
}

#define DESCRIPTION 320

/* The reason against dma-buf for this pair: the failure, or the result of the capability probe. */
static const char *pinning_dma_buf_text(const struct capability *capability,
					const struct errors_text *failure,
					char description[DESCRIPTION])
{
	if (!failure->cause || capability->dma_buf != DMA_BUF_THERE)
		return capability_dma_buf_text(capability->dma_buf);
	errors_describe(failure, description, DESCRIPTION);
	return description;
}

static const char *pinning_distance_text(const struct pin_request *request)
{
	return topology_is_near(request->pd->context, request->device)
		       ? "no other adapter is nearer"
		       : "another adapter is nearer to it";
}

static void pinning_report_method(const struct pin_request *request, const struct pair *pair)
{
	char description[DESCRIPTION];

	if (!log_is_on(LOG_INFO))
		return;
	if (pair->method == DMA_BUF)
		log_message(LOG_INFO, "GPU %d, %s: memory is registered by dma-buf: %s%s; %s",
			    pair->device, pinning_adapter_name(request),
			    capability_dma_buf_text(pair->capability.dma_buf),
			    pair->failure ? ", and peer memory failed" : "",
			    pinning_distance_text(request));
	else
		log_message(LOG_INFO,
			    "GPU %d, %s: memory is registered by peer memory (%s), not by dma-buf: "
			    "%s; %s",
			    pair->device, pinning_adapter_name(request),
			    capability_peer_text(pair->capability.peer),
			    pinning_dma_buf_text(&pair->capability, &pair->reason, description),
			    pinning_distance_text(request));
}

/* EFAULT of ibv_reg_mr() has several causes; the capability probe distinguishes them. */
static struct errors_text pinning_explain(const struct pin_request *request,
					  const struct capability *capability,
					  const struct errors_text *failure)
{
	if (failure->call == ERRORS_REG_MR && failure->number == EFAULT)
		return errors_no_pages(capability->peer >= PEER_THERE, !request->context,
				       capability->peer_of_mapped);
	return *failure;
}

/* Call only while no method has ever worked for this pair. An untried method has no cause: the
 * probe excludes it, or it may not be tried on this memory. */
static void pinning_report_failure(const struct pin_request *request, const struct pair *pair,
				   const struct errors_text failures[METHODS])
{
	char dma_buf[DESCRIPTION], peer[DESCRIPTION] = "not for this memory";
	const struct errors_text *last =
		&failures[failures[PEER_MEMORY].cause ? PEER_MEMORY : DMA_BUF];

	if (failures[PEER_MEMORY].cause)
		errors_describe(&failures[PEER_MEMORY], peer, sizeof(peer));
	errors_set_reported();
	log_once(LOG_WARN,
		 "GPU memory cannot be registered with %s for GPU %d; the program's own "
		 "registrations go to "
		 "the "
		 "adapter directly. By dma-buf: %s. By peer memory: %s. %s",
		 pinning_adapter_name(request), request->device,
		 pinning_dma_buf_text(&pair->capability, &failures[DMA_BUF], dma_buf), peer,
		 last->fix);
}

/* ---- registration ---- */

/* The other method registered where the pair's own failed. */
static void pinning_miss(struct pair *pair, enum method method, int failure,
			 const struct errors_text *reason)
{
	if (pair->works[pair->method] && ++pair->missed < MISSES)
		return;
	pair->missed = 0;
	pair->method = method;
	pair->failure = failure;
	pair->reason = *reason;
}

/* `method` has just served a request. `failure` is that of the other method, tried first; 0: not
 * tried, or without meaning for the pair. */
static void pinning_worked(const struct pin_request *request, enum method method, int failure,
			   const struct errors_text *reason)
{
	int adapter = statistics_adapter(topology_adapter_name(request->pd->context));
	char description[DESCRIPTION];
	const char *text = NULL;
	struct pair *pair, copy;
	bool report = false;

	if (method == DMA_BUF)
		statistics_count(registrations_dma_buf);
	else
		statistics_count(registrations_peer_memory);
	pthread_mutex_lock(&pairs_lock);
	pair = pinning_find(request->pd->context, request->device);
	if (pair) {
		pair->works[method] = true;
		/* Another thread may have changed the pair's method meanwhile. */
		if (method == pair->method)
			pair->missed = 0;
		else if (failure)
			pinning_miss(pair, method, failure, reason);
		report = pair->method == method && !pair->reported[method];
		pair->reported[method] |= report;
		copy = *pair;
	}
	pthread_mutex_unlock(&pairs_lock);
	if (failure) {
		errors_describe(reason, description, sizeof(description));
		text = description;
	} else if (report && method == PEER_MEMORY) {
		text = pinning_dma_buf_text(&copy.capability, &copy.reason, description);
	}
	statistics_registered_by(request->device, adapter,
				 topology_path(request->pd->context, request->device),
				 method == DMA_BUF, text);
	if (report)
		pinning_report_method(request, &copy);
}

/* A lack of memory, or an error that a retry may not meet. */
static bool pinning_is_temporary(int error)
{
	return error == -ENOMEM || (error != DMA_BUF_NO_CONTEXT && pinning_is_of_the_moment(error));
}

static bool pinning_is_possible(enum method method, const struct pin_request *request,
				const struct capability *capability)
{
	if (method == PEER_MEMORY)
		return !request->dma_buf_only;
	return capability->dma_buf == DMA_BUF_THERE && !(request->access & ~DMA_BUF_ACCESS_FLAGS);
}

/* The method's result; *failure describes it. */
static int pinning_try(enum method method, const struct pin_request *request,
		       const struct capability *capability, struct ibv_mr **mr,
		       struct errors_text *failure)
{
	int error;

	errors_forget();
	error = methods[method]->pin(request, mr);
	if (error) {
		*failure =
			errors_noted(method == DMA_BUF ? ERRORS_REG_DMABUF : ERRORS_REG_MR, -error);
		*failure = pinning_explain(request, capability, failure);
	}
	return error;
}

/* Both methods failed. Returns the error of the last one that was expected to work. */
static int pinning_failed(const struct pin_request *request, const struct pair *pair,
			  const int errors[METHODS], const struct errors_text failures[METHODS],
			  enum method last)
{
	enum method first = last == DMA_BUF ? PEER_MEMORY : DMA_BUF;
	enum method expected = last;

	if (errors[first] && last == PEER_MEMORY &&
	    !capability_expects_peer(&pair->capability, !request->context))
		expected = first;
	errors_note_text(&failures[expected]);
	/* A missing context is a temporary state of the program: log nothing. */
	if (!pair->works[DMA_BUF] && !pair->works[PEER_MEMORY] &&
	    (errors[PEER_MEMORY] || errors[DMA_BUF] != DMA_BUF_NO_CONTEXT))
		pinning_report_failure(request, pair, failures);
	return errors[expected];
}

static int pinning_pin(const struct pin_request *request, struct ibv_mr **mr)
{
	struct pair pair = pinning_pair(request);
	enum method method = pair.method;
	struct errors_text failures[METHODS] = { { .cause = NULL } };
	int errors[METHODS] = { 0 };

	if (!pinning_is_possible(method, request, &pair.capability))
		method = !method;
	if (!pinning_is_possible(method, request, &pair.capability)) {
		errors_note(ERRORS_REG_DMABUF, EOPNOTSUPP);
		return -EOPNOTSUPP;
	}
	errors[method] = pinning_try(method, request, &pair.capability, mr, &failures[method]);
	if (!errors[method])
		pinning_worked(request, method, 0, NULL);
	if (!errors[method] || pinning_is_temporary(errors[method]))
		return errors[method];
	if (method != pair.method || !pinning_is_possible(!method, request, &pair.capability))
		return pinning_failed(request, &pair, errors, failures, method);
	errors[!method] = pinning_try(!method, request, &pair.capability, mr, &failures[!method]);
	if (errors[!method])
		return pinning_is_temporary(errors[!method])
			       ? errors[!method]
			       : pinning_failed(request, &pair, errors, failures, !method);
	statistics_count(pinning_fallbacks);
	pinning_worked(request, !method, errors[method] == DMA_BUF_NO_CONTEXT ? 0 : errors[method],
		       &failures[method]);
	return 0;
}

const struct registration_backend pinning_backend = {
	.name = "dma-buf or peer memory",
	.pin = pinning_pin,
	.unpin = pinning_unpin,
};
