/* SPDX-License-Identifier: BSD-3-Clause */
/* pinning.c -- registration method for each pair of GPU and adapter, and each mapping
 *
 * A pair's method is the first one in the table that the capability probe calls possible, until it
 * fails for the pair: before it has ever worked, for memory that stands for all (own_blocks). A
 * method that has worked for the pair stays. One range may have a cause of its own, so a failure
 * there is of this range: the other methods are tried for it, and the pair is as before. Neither a
 * lack of memory nor a temporary error is a failure of a method: the caller gets the error, and
 * evicts or retries.
 *
 * A client that registers by address does not wait for the export of a dma-buf. Its request is
 * first registered by address, where the probe expects that to work, until that fails for the pair.
 */
#include "registration/pinning.h"

#include <pthread.h>
#include <stdio.h>

#include "base/log.h"
#include "base/process.h"
#include "registration/methods.h"
#include "registration/topology.h"
#include "report/statistics.h"

const struct registration_method *registration_forced_method;

/* ---- pairs ---- */

struct pair {
	const struct ibv_context *context; /* NULL: unused */
	int device;
	bool pcie; /* the mapping: a method may work with one alone */
	/* By method: index in the table, as all below. */
	struct method_support support[METHODS_MAX];
	bool works[METHODS_MAX];				/* has registered at least once */
	struct errors_text failures[METHODS_MAX];		/* for the pair; no cause: none */
	bool reported[METHODS_MAX];				/* logged as the method */
	const char *path;					/* topology_path() */
	int counted_as;						/* statistics_adapter() */
	_Atomic(_Atomic uint64_t *) registrations[METHODS_MAX]; /* statistics; NULL: none yet */
};

/* More than a machine has; a pair without an entry is probed for each registration. */
#define PAIRS 256

/* Guards `works`, `failures`, `reported` and stores to `registrations` of all pairs, and which are
 * in use. An entry stays while its device is open, as it is during a registration; its other fields
 * do not change. Taken alone; never held across a call into the driver, verbs or the log. */
static pthread_mutex_t pairs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pair pairs[PAIRS];

static struct pair *pinning_find(const struct pin_request *request)
{
	for (unsigned int i = 0; i < PAIRS; i++) {
		if (pairs[i].context == request->pd->context &&
		    pairs[i].device == request->device && pairs[i].pcie == request->pcie)
			return &pairs[i];
	}
	return NULL;
}

static struct pair *pinning_find_unused(void)
{
	for (unsigned int i = 0; i < PAIRS; i++) {
		if (!pairs[i].context)
			return &pairs[i];
	}
	return NULL;
}

static struct pair pinning_probe(const struct pin_request *request)
{
	struct pair pair = { .context = request->pd->context,
			     .device = request->device,
			     .pcie = request->pcie,
			     .path = topology_path(request->pd->context, request->device),
			     .counted_as = statistics_adapter(
				     topology_adapter_name(request->pd->context)) };
	int saved_errno = errno;

	for (unsigned int i = 0; registration_methods[i].name; i++)
		pair.support[i] = registration_methods[i].probe(request);
	errno = saved_errno;
	return pair;
}

/* The pair's method: tried first. Where each has failed, the first possible one. */
static unsigned int pinning_method(const struct pair *pair)
{
	unsigned int method = 0;

	while (registration_methods[method].name &&
	       (!pair->support[method].possible || pair->failures[method].cause))
		method++;
	if (registration_methods[method].name)
		return method;
	for (method = 0; !pair->support[method].possible && registration_methods[method + 1].name;)
		method++;
	return method;
}

static bool pinning_is_expected(const struct pin_request *request,
				const struct method_support *support)
{
	return request->context ? support->expected : support->expected_vmm;
}

/* The method that is tried first for the request. */
static unsigned int pinning_first(const struct pin_request *request, const struct pair *pair)
{
	for (unsigned int i = 0; request->by_address && registration_methods[i].name; i++) {
		if (!registration_methods[i].prepare && !pair->failures[i].cause &&
		    pinning_is_expected(request, &pair->support[i]))
			return i;
	}
	return pinning_method(pair);
}

/* What a registration needs to know of its pair. */
struct plan {
	struct pair *pair;
	bool has_entry;
	unsigned int first; /* the method that is tried first */
	bool settled;	    /* it has worked before, and is reported where it is the pair's */
};

/* Two threads may probe at once, with equal results; the first one's entry stays. `spare` is the
 * pair if there is no room for an entry. */
static struct plan pinning_plan(const struct pin_request *request, struct pair *spare)
{
	struct plan plan;

	pthread_mutex_lock(&pairs_lock);
	plan.pair = pinning_find(request);
	if (!plan.pair) {
		pthread_mutex_unlock(&pairs_lock);
		*spare = pinning_probe(request);
		pthread_mutex_lock(&pairs_lock);
		plan.pair = pinning_find(request);
	}
	if (!plan.pair) {
		plan.pair = pinning_find_unused();
		if (plan.pair)
			*plan.pair = *spare;
	}
	plan.has_entry = plan.pair;
	if (!plan.pair)
		plan.pair = spare;
	plan.first = pinning_first(request, plan.pair);
	plan.settled = plan.pair->works[plan.first] &&
		       (plan.pair->reported[plan.first] || pinning_method(plan.pair) != plan.first);
	pthread_mutex_unlock(&pairs_lock);
	return plan;
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

#define DESCRIPTION 320

static const char *pinning_adapter_name(const struct pin_request *request)
{
	const char *name = topology_adapter_name(request->pd->context);

	return *name ? name : "an adapter";
}

/* The reason against a method: the result of the capability probe, or the failure. */
static const char *pinning_reason(const struct method_support *support,
				  const struct errors_text *failure, char description[DESCRIPTION])
{
	if (!support->possible || !failure->cause)
		return support->text;
	errors_describe(failure, description, DESCRIPTION);
	return description;
}

/* The method is the pair's from now on, in place of the preferred one if that has failed. */
static __attribute__((cold)) void pinning_report_method(const struct pin_request *request,
							const struct pair *pair,
							unsigned int method,
							const struct errors_text *preferred)
{
	char description[DESCRIPTION];

	if (!log_is_on(LOG_INFO))
		return;
	log_message(LOG_INFO, "GPU %d, %s: memory is registered by %s%s (%s)%s%s%s%s; %s",
		    pair->device, pinning_adapter_name(request), registration_methods[method].name,
		    pair->pcie ? " over PCIe" : "", pair->support[method].text,
		    method ? ", not by " : "", method ? registration_methods[0].name : "",
		    method ? ": " : "",
		    method ? pinning_reason(&pair->support[0], preferred, description) : "",
		    topology_is_near(request->pd->context, request->device)
			    ? "no other adapter is nearer"
			    : "another adapter is nearer to it");
}

/* No method works for the pair. An untried method has no cause: the probe excludes it, or it does
 * not accept this memory or these access flags. */
static __attribute__((cold)) void
pinning_report_failure(const struct pin_request *request, const struct pair *pair,
		       const struct errors_text failures[METHODS_MAX])
{
	const struct errors_text *last = &failures[0];
	char text[METHODS_MAX * DESCRIPTION / 2] = "", description[DESCRIPTION];
	size_t used = 0;

	for (unsigned int i = 0; registration_methods[i].name; i++) {
		bool untried = pair->support[i].possible && !failures[i].cause;

		used += (size_t)snprintf(
			text + used, sizeof(text) - used, " By %s: %s.",
			registration_methods[i].name,
			untried ? "not for this memory"
				: pinning_reason(&pair->support[i], &failures[i], description));
		if (used >= sizeof(text))
			used = sizeof(text) - 1;
		if (failures[i].cause)
			last = &failures[i];
	}
	log_once(LOG_WARN,
		 "GPU memory cannot be registered with %s for GPU %d; client registrations are "
		 "forwarded.%s %s",
		 pinning_adapter_name(request), request->device, text, last->fix);
}

/* ---- registration ---- */

/* The method has served a request, and `settled` was not known of it. A pair without an entry is
 * not reported. */
static void pinning_worked(const struct pin_request *request, const struct plan *plan,
			   unsigned int method)
{
	const char *name = registration_methods[method].name;
	struct pair *pair = plan->pair;
	_Atomic uint64_t *counter =
		statistics_registered_by(request->device, pair->counted_as, pair->path, name, NULL);
	char description[DESCRIPTION];
	struct errors_text preferred;
	bool report;

	pthread_mutex_lock(&pairs_lock);
	store_release(&pair->registrations[method], counter);
	pair->works[method] = true;
	pair->failures[method].cause = NULL;
	report = plan->has_entry && pinning_method(pair) == method && !pair->reported[method];
	pair->reported[method] |= report;
	preferred = pair->failures[0];
	pthread_mutex_unlock(&pairs_lock);
	if (report && method)
		statistics_registered_by(
			request->device, pair->counted_as, pair->path, name,
			pinning_reason(&pair->support[0], &preferred, description));
	if (report)
		pinning_report_method(request, pair, method, &preferred);
}

static void pinning_count(const struct pair *pair, unsigned int method)
{
	_Atomic uint64_t *counter = load_acquire(&pair->registrations[method]);

	add_relaxed(registration_methods[method].registrations, 1);
	if (counter)
		add_relaxed(counter, 1);
}

/* A lack of memory, or an error that a retry may not meet. */
static bool pinning_is_temporary(int error)
{
	return error == -ENOMEM ||
	       (error != PINNING_NO_CONTEXT && pinning_may_succeed_later(error));
}

/* Attempts of one request, in their order. */
struct attempts {
	unsigned int count, methods[METHODS_MAX];
	int errors[METHODS_MAX];		  /* by attempt */
	struct errors_text failures[METHODS_MAX]; /* by method */
};

/* EFAULT of ibv_reg_mr() has several causes; the capability probe distinguishes them. */
static struct errors_text pinning_explain(const struct pin_request *request,
					  const struct method_support *support,
					  const struct errors_text *failure)
{
	if (failure->call == ERRORS_REG_MR && failure->number == EFAULT)
		return errors_no_pages(support->expected, !request->context, support->expected_vmm);
	return *failure;
}

static int pinning_pin_by(const struct registration_method *method,
			  const struct pin_request *request, struct pin_result *result)
{
	int error;

	*result = (struct pin_result){ .method = method };
	error = method->pin(request, result);
	/* No method has failed. */
	if (error && own_thread_is_done())
		error = -EAGAIN;
	if (error && !result->failure.cause)
		result->failure = errors_look_up(method->call, -error);
	return error;
}

static int pinning_try(unsigned int method, const struct pin_request *request,
		       const struct pair *pair, struct pin_result *result,
		       struct attempts *attempts)
{
	int error = pinning_pin_by(&registration_methods[method], request, result);

	if (!error)
		return 0;
	result->failure = pinning_explain(request, &pair->support[method], &result->failure);
	attempts->failures[method] = result->failure;
	attempts->errors[attempts->count] = error;
	attempts->methods[attempts->count++] = method;
	return error;
}

/* Methods that failed for the pair, if the request's memory stands for all. */
static void pinning_learn(const struct pin_request *request, struct pair *pair,
			  const struct attempts *attempts)
{
	if (!request->own_blocks || !attempts->count)
		return;
	pthread_mutex_lock(&pairs_lock);
	for (unsigned int i = 0; i < attempts->count; i++) {
		unsigned int method = attempts->methods[i];

		if (!pair->works[method] && attempts->errors[i] != PINNING_NO_CONTEXT)
			pair->failures[method] = attempts->failures[method];
	}
	pthread_mutex_unlock(&pairs_lock);
}

/* All methods failed. Returns the error of the last one that was expected to work. A failure of one
 * range is the caller's to report: here is one of the pair, by the memory or by the probe. */
static int pinning_failed(const struct pin_request *request, const struct pair *pair,
			  const struct attempts *attempts, struct pin_result *result)
{
	unsigned int last = attempts->count - 1;
	bool works = false, attempted = false, expected = false;

	for (unsigned int i = 0; i < attempts->count; i++) {
		if (pinning_is_expected(request, &pair->support[attempts->methods[i]]))
			last = i;
		/* A missing context is a temporary state of the program: log nothing. */
		attempted |= attempts->errors[i] != PINNING_NO_CONTEXT;
	}
	pthread_mutex_lock(&pairs_lock);
	for (unsigned int i = 0; i < METHODS_MAX; i++) {
		works |= pair->works[i];
		expected |= pinning_is_expected(request, &pair->support[i]);
	}
	pthread_mutex_unlock(&pairs_lock);
	result->failure = attempts->failures[attempts->methods[last]];
	result->reported = !works && attempted && (request->own_blocks || !expected);
	if (result->reported)
		pinning_report_failure(request, pair, attempts->failures);
	return attempts->errors[last];
}

/* One method comes first, then the others in the table's order. */
static int pinning_pin_by_table(const struct pin_request *request, struct pin_result *result)
{
	struct attempts attempts = { .count = 0 };
	struct pair spare;
	struct plan plan = pinning_plan(request, &spare);
	int error;

	for (int i = -1; i < 0 || registration_methods[i].name; i++) {
		unsigned int method = i < 0 ? plan.first : (unsigned int)i;

		if ((i >= 0 && method == plan.first) || !plan.pair->support[method].possible ||
		    !registration_methods[method].accepts(request))
			continue;
		error = pinning_try(method, request, plan.pair, result, &attempts);
		if (!error) {
			pinning_learn(request, plan.pair, &attempts);
			if (!plan.settled || method != plan.first)
				pinning_worked(request, &plan, method);
			pinning_count(plan.pair, method);
			return 0;
		}
		if (pinning_is_temporary(error))
			return error;
	}
	pinning_learn(request, plan.pair, &attempts);
	if (attempts.count)
		return pinning_failed(request, plan.pair, &attempts, result);
	*result = (struct pin_result){ .failure = errors_look_up(registration_methods[0].call,
								 EOPNOTSUPP) };
	return -EOPNOTSUPP;
}

void pinning_prepare(struct pin_request *request)
{
	const struct registration_method *method = registration_forced_method;
	const struct pair *pair;

	if (!method) {
		pthread_mutex_lock(&pairs_lock);
		pair = pinning_find(request);
		method = pair ? &registration_methods[pinning_method(pair)] : NULL;
		pthread_mutex_unlock(&pairs_lock);
	}
	if (method && method->prepare && method->accepts(request))
		method->prepare(request);
}

int pinning_pin(const struct pin_request *request, struct pin_result *result)
{
	return registration_forced_method
		       ? pinning_pin_by(registration_forced_method, request, result)
		       : pinning_pin_by_table(request, result);
}
