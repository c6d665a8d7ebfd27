/* SPDX-License-Identifier: BSD-3-Clause */
/* region_report.c -- log and trace of registrations, and the counter of each failure
 *
 * Without the lock: a log or trace write may block.
 */
#include "registration/region_report.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/system.h"
#include "report/errors.h"
#include "report/statistics.h"
#include "report/trace.h"

/* Groups errors by fix. */
void region_count_failure(int error)
{
	statistics_count(registrations_failed);
	switch (error) {
	case ENOMEM:
	case ENOSPC:
		statistics_count(failed_resources);
		break;
	case EFAULT:
		statistics_count(failed_address);
		break;
	case EINVAL:
		statistics_count(failed_argument);
		break;
	case EOPNOTSUPP:
	case EPROTONOSUPPORT:
	case ENOSYS:
	case 524: /* ENOTSUPP: internal to the kernel, but returned to user space */
		statistics_count(failed_support);
		break;
	default:
		statistics_count(failed_other);
	}
}

bool region_is_reported(void)
{
	return log_is_on(LOG_DEBUG) || trace_is_on();
}

void region_report_registered(const struct pin_request *request, int error,
			      const struct errors_text *failure, uint64_t start)
{
	if (trace_is_on()) {
		trace_span("register", start, request->base, request->length, request->device,
			   error ? strerror(-error) : "done");
		if (!error)
			trace_pinned(statistics_get(pinned_bytes) + request->length);
	}
	if (!log_is_on(LOG_DEBUG))
		return;
	log_message(LOG_DEBUG, "register 0x%llx, %llu bytes, access flags 0x%x, in %llu us: %s%s%s",
		    (unsigned long long)request->base, (unsigned long long)request->length,
		    request->access, (unsigned long long)(system_clock() - start) / 1000,
		    error ? errors_call_name(failure->call) : "done", error ? ": " : "",
		    error ? failure->cause : "");
}

void region_report_pin_limit(int device, uint64_t learnt)
{
	if (learnt)
		log_message(LOG_INFO,
			    "GPU %d: a registration was refused; the pin limit is now %llu bytes",
			    device, (unsigned long long)learnt);
}

void region_log_failure(const struct region *region, int error, struct errors_text failure,
			struct errors_room *room)
{
	char description[256];

	if (error == -ENOMEM &&
	    (failure.call == ERRORS_REG_MR || failure.call == ERRORS_REG_DMABUF)) {
		room->wanted = region->length;
		room->pinned = statistics_get(pinned_bytes);
		room->lockable = errors_lockable();
		failure = errors_no_room(failure.call, room);
		errors_describe(&failure, description, sizeof(description));
		log_once(LOG_WARN,
			 "GPU memory at 0x%llx, %llu bytes, does not fit on the adapter even after "
			 "evictions: %s. The client registration is forwarded. %s",
			 (unsigned long long)region->base, (unsigned long long)region->length,
			 description, failure.fix);
		return;
	}
	errors_describe(&failure, description, sizeof(description));
	log_once(LOG_WARN,
		 "GPU memory at 0x%llx, %llu bytes, could not be registered: %s. Client "
		 "registrations of this memory are forwarded. %s",
		 (unsigned long long)region->base, (unsigned long long)region->length, description,
		 failure.fix);
}

void region_report_ended(const struct region *region, int error, uint64_t start)
{
	struct errors_text failure = { .cause = "done" };
	char description[256];

	if (error)
		failure = errors_look_up(ERRORS_DEREG_MR, -error);
	if (log_is_on(LOG_DEBUG))
		log_message(LOG_DEBUG, "deregister 0x%llx, %llu bytes%s%s, in %llu us: %s",
			    (unsigned long long)region->base, (unsigned long long)region->length,
			    region->evicted ? ", evicted" : "", region->used ? "" : ", never used",
			    (unsigned long long)(system_clock() - start) / 1000, failure.cause);
	if (error) {
		statistics_count(deregistrations_failed);
		errors_describe(&failure, description, sizeof(description));
		log_once(LOG_ERROR,
			 "GPU memory at 0x%llx could not be deregistered: %s. The adapter may "
			 "still access that memory. %s",
			 (unsigned long long)region->base, description, failure.fix);
	}
	if (trace_is_on())
		trace_span(region->evicted ? "evict" : "deregister", start, region->base,
			   region->length, region->device, failure.cause);
}
