/* SPDX-License-Identifier: BSD-3-Clause */
/* pinning.c -- by which method GPU memory is registered, for each pair of GPU and adapter
 *
 * dma-buf where GPU, adapter and libraries have it, peer memory otherwise: so it is expected, and the first
 * registration is the trial. Where the expected way fails and the other one works, the pair changes to that, and back by
 * the same rule; but where it has worked before, only after a few in turn, since one region may have a cause of its own.
 * Neither a lack of memory nor what passes by itself says anything about a way: it is returned as
 * it is, and the caller makes room or tries again.
 */
#include "registration/pinning.h"

#include <pthread.h>

#include "base/errors.h"
#include "base/log.h"
#include "base/statistics.h"
#include "registration/capability.h"
#include "registration/topology.h"

const struct registration_backend *registration_backend = &pinning_backend;

enum method { DMA_BUF, PEER_MEMORY, METHODS };

static const struct registration_backend *const methods[METHODS] = {
	[DMA_BUF] = &dma_buf_backend,
	[PEER_MEMORY] = &peer_memory_backend,
};

/* More cannot be asked of a dma-buf's registration (ibv_reg_mr(3)). */
#define DMA_BUF_RIGHTS                                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                         \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING)

/* ---- what is known of each pair ---- */

struct pair {
	const struct ibv_context *context; /* NULL: nobody's */
	int device;
	struct capability capability;
	enum method method; /* tried first */
	int failure;	    /* of the other one, the last time that it was tried first; 0: it was not */
	struct errors_text reason; /* the same in words */
	bool works[METHODS];	   /* something has been registered by it */
	unsigned int missed;	   /* registrations in turn that went by the other method only */
	bool told[METHODS];	   /* that it is the method */
};

/* So many in turn that a way which has worked does not do, and the pair changes. */
#define MISSES 4

/* More than a machine has; what there is no room for is asked about each time. */
#define PAIRS 256

/* Guards the pairs. Taken alone, and never held across a call into the driver, into verbs, or of the log. */
static pthread_mutex_t pairs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pair pairs[PAIRS];

static struct pair *find(const struct ibv_context *context, int device)
{
	for (unsigned int i = 0; i < PAIRS; i++) {
		if (pairs[i].context == context && (!context || pairs[i].device == device))
			return &pairs[i];
	}
	return NULL;
}

/* Two threads may find it out at once, and find out the same; the first one's stays. */
static struct pair pair_of(const struct pin_request *request)
{
	struct pair pair = { .context = NULL }, *place;

	pthread_mutex_lock(&pairs_lock);
	place = find(request->pd->context, request->device);
	if (place)
		pair = *place;
	pthread_mutex_unlock(&pairs_lock);
	if (place)
		return pair;
	pair = (struct pair){ .context = request->pd->context,
			      .device = request->device,
			      .capability = capability_probe(request) };
	pair.method = pair.capability.dma_buf == DMA_BUF_THERE ? DMA_BUF : PEER_MEMORY;
	pthread_mutex_lock(&pairs_lock);
	place = find(pair.context, pair.device);
	if (place) {
		pair = *place;
	} else {
		place = find(NULL, 0);
		if (place)
			*place = pair;
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

/* ---- what the user is told ---- */

static const char *name_of(const struct pin_request *request)
{
	const char *name = topology_adapter_name(request->pd->context);

	return *name ? name : "an adapter";
}

#define DESCRIPTION 320

/* Why this pair has no dma-buf: what failed, or what is said beforehand. */
static const char *dma_buf_text(const struct capability *capability, const struct errors_text *failure,
				char description[DESCRIPTION])
{
	if (!failure->cause || capability->dma_buf != DMA_BUF_THERE)
		return capability_dma_buf_text(capability->dma_buf);
	errors_describe(failure, description, DESCRIPTION);
	return description;
}

static const char *distance_text(const struct pin_request *request)
{
	return topology_is_near(request->pd->context, request->device) ? "no other adapter is nearer"
								       : "another adapter is nearer to it";
}

static void tell_method(const struct pin_request *request, const struct pair *pair)
{
	char description[DESCRIPTION];

	if (!log_is_on(LOG_INFO))
		return;
	if (pair->method == DMA_BUF)
		log_message(LOG_INFO, "GPU %d, %s: memory is registered by dma-buf: %s%s; %s", pair->device,
			    name_of(request), capability_dma_buf_text(pair->capability.dma_buf),
			    pair->failure ? ", and peer memory failed" : "", distance_text(request));
	else
		log_message(LOG_INFO,
			    "GPU %d, %s: memory is registered by peer memory (%s), not by dma-buf: %s; %s",
			    pair->device, name_of(request), capability_peer_text(pair->capability.peer),
			    dma_buf_text(&pair->capability, &pair->reason, description),
			    distance_text(request));
}

/* What is not known of ibv_reg_mr()'s EFAULT the survey knows. */
static struct errors_text explain(const struct pin_request *request, const struct capability *capability,
				  const struct errors_text *failure)
{
	if (failure->call == ERRORS_REG_MR && failure->number == EFAULT)
		return errors_no_pages(capability->peer >= PEER_THERE, !request->context,
				       capability->peer_of_mapped);
	return *failure;
}

/* Nothing has ever worked for this pair. What was not tried has no cause: it is known to fail, or may not be tried on this
 * memory. */
static void tell_failure(const struct pin_request *request, const struct pair *pair,
			 const struct errors_text failures[METHODS])
{
	char dma_buf[DESCRIPTION], peer[DESCRIPTION] = "not for this memory";
	const struct errors_text *last = &failures[failures[PEER_MEMORY].cause ? PEER_MEMORY : DMA_BUF];

	if (failures[PEER_MEMORY].cause)
		errors_describe(&failures[PEER_MEMORY], peer, sizeof(peer));
	errors_set_told();
	log_once(LOG_WARN,
		 "GPU memory cannot be registered with %s for GPU %d; the program's own registrations go to "
		 "the "
		 "adapter directly. By dma-buf: %s. By peer memory: %s. %s",
		 name_of(request), request->device,
		 dma_buf_text(&pair->capability, &failures[DMA_BUF], dma_buf), peer, last->cure);
}

/* ---- registering ---- */

/* The other way has done what the pair's own has not. */
static void miss(struct pair *pair, enum method method, int failure, const struct errors_text *reason)
{
	if (pair->works[pair->method] && ++pair->missed < MISSES)
		return;
	pair->missed = 0;
	pair->method = method;
	pair->failure = failure;
	pair->reason = *reason;
}

/* `way` has just served a request. `failure` is that of the other one, which was tried first. 0: it was not tried, or it says
 * nothing about the pair. */
static void worked(const struct pin_request *request, enum method method, int failure,
		   const struct errors_text *reason)
{
	int adapter = statistics_adapter(topology_adapter_name(request->pd->context));
	char description[DESCRIPTION];
	const char *text = NULL;
	struct pair *pair, copy;
	bool tell = false;

	if (method == DMA_BUF)
		statistics_count(registrations_dma_buf);
	else
		statistics_count(registrations_peer_memory);
	pthread_mutex_lock(&pairs_lock);
	pair = find(request->pd->context, request->device);
	if (pair) {
		pair->works[method] = true;
		/* Another thread may have changed it meanwhile. */
		if (method == pair->method)
			pair->missed = 0;
		else if (failure)
			miss(pair, method, failure, reason);
		tell = pair->method == method && !pair->told[method];
		pair->told[method] |= tell;
		copy = *pair;
	}
	pthread_mutex_unlock(&pairs_lock);
	if (failure) {
		errors_describe(reason, description, sizeof(description));
		text = description;
	} else if (tell && method == PEER_MEMORY) {
		text = dma_buf_text(&copy.capability, &copy.reason, description);
	}
	statistics_registered_by(request->device, adapter,
				 topology_path(request->pd->context, request->device), method == DMA_BUF,
				 text);
	if (tell)
		tell_method(request, &copy);
}

/* A lack of memory, and what another try may not meet. */
static bool is_passing(int error)
{
	return error == -ENOMEM || (error != DMA_BUF_NO_CONTEXT && pinning_is_of_the_moment(error));
}

static bool is_possible(enum method method, const struct pin_request *request,
			const struct capability *capability)
{
	if (method == PEER_MEMORY)
		return !request->dma_buf_only;
	return capability->dma_buf == DMA_BUF_THERE && !(request->access & ~DMA_BUF_RIGHTS);
}

/* What one method answers; *failure says it in words. */
static int try(enum method method, const struct pin_request *request, const struct capability *capability,
	       struct ibv_mr **mr, struct errors_text *failure)
{
	int error;

	errors_forget();
	error = methods[method]->pin(request, mr);
	if (error) {
		*failure = errors_noted(method == DMA_BUF ? ERRORS_REG_DMABUF : ERRORS_REG_MR, -error);
		*failure = explain(request, capability, failure);
	}
	return error;
}

/* Neither way has worked. That of the last one that was meant to. */
static int failed(const struct pin_request *request, const struct pair *pair, const int errors[METHODS],
		  const struct errors_text failures[METHODS], enum method last)
{
	enum method first = last == DMA_BUF ? PEER_MEMORY : DMA_BUF;
	enum method meant = last;

	if (errors[first] && last == PEER_MEMORY &&
	    !capability_expects_peer(&pair->capability, !request->context))
		meant = first;
	errors_note_text(&failures[meant]);
	/* A want of a context is the program's of this moment. */
	if (!pair->works[DMA_BUF] && !pair->works[PEER_MEMORY] &&
	    (errors[PEER_MEMORY] || errors[DMA_BUF] != DMA_BUF_NO_CONTEXT))
		tell_failure(request, pair, failures);
	return errors[meant];
}

static int pin(const struct pin_request *request, struct ibv_mr **mr)
{
	struct pair pair = pair_of(request);
	enum method method = pair.method;
	struct errors_text failures[METHODS] = { { .cause = NULL } };
	int errors[METHODS] = { 0 };

	if (!is_possible(method, request, &pair.capability))
		method = !method;
	if (!is_possible(method, request, &pair.capability)) {
		errors_note(ERRORS_REG_DMABUF, EOPNOTSUPP);
		return -EOPNOTSUPP;
	}
	errors[method] = try(method, request, &pair.capability, mr, &failures[method]);
	if (!errors[method])
		worked(request, method, 0, NULL);
	if (!errors[method] || is_passing(errors[method]))
		return errors[method];
	if (method != pair.method || !is_possible(!method, request, &pair.capability))
		return failed(request, &pair, errors, failures, method);
	errors[!method] = try(!method, request, &pair.capability, mr, &failures[!method]);
	if (errors[!method])
		return is_passing(errors[!method]) ? errors[!method]
						   : failed(request, &pair, errors, failures, !method);
	statistics_count(pinning_fallbacks);
	worked(request, !method, errors[method] == DMA_BUF_NO_CONTEXT ? 0 : errors[method],
	       &failures[method]);
	return 0;
}

const struct registration_backend pinning_backend = {
	.name = "dma-buf or peer memory",
	.pin = pin,
	.unpin = pinning_unpin,
};
