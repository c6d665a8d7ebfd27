/* SPDX-License-Identifier: BSD-3-Clause */
/* judge.c -- what a form's run with the preload owes to the run without it */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "requests.h"

__attribute__((format(printf, 1, 2))) static const char *judge_format(const char *format, ...)
{
	static char text[200];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return text;
}

/* Each call ends as without peerpin, or better. */
static const char *judge_errors(const struct form_result *without, const struct form_result *with)
{
	if (with->calls != without->calls)
		return judge_format("%u calls, %u without peerpin", with->calls, without->calls);
	for (unsigned int i = 0; i < with->calls; i++) {
		if (with->call[i].error && with->call[i].error != without->call[i].error)
			return judge_format("call %u: error %u, %u without peerpin", i,
					    with->call[i].error, without->call[i].error);
	}
	return NULL;
}

/* Each request counts once, with its end. A call that libibverbs refuses may not arrive. */
static const char *judge_sums(const struct form_result *without, const struct form_result *with)
{
	const struct form_counts *counts = &with->counts;
	uint64_t counted = counts->requests + counts->host_requests, wanted = 0, refused = 0;

	for (unsigned int i = 0; i < with->calls; i++) {
		wanted += with->call[i].registers;
		refused += with->call[i].registers && without->call[i].error;
	}
	if (counted > wanted || counted + refused < wanted)
		return judge_format("%lu requests counted of %lu, %lu refused without peerpin",
				    counted, wanted, refused);
	if (counts->sum != counts->requests)
		return judge_format("%lu requests, their ends are %lu", counts->requests,
				    counts->sum);
	if (counts->reasons != counts->forwarded)
		return judge_format("%lu requests forwarded, %lu with a reason", counts->forwarded,
				    counts->reasons);
	return NULL;
}

static const char *judge_outcome(const struct form *form, const struct form_result *with)
{
	const struct form_counts *counts = &with->counts;
	uint64_t all = counts->requests + counts->host_requests;

	if (!strcmp(form->outcome, "refused"))
		return NULL;
	if (!all)
		return "no request";
	if (strcmp(form->outcome, "served") != 0)
		return counts->outcome == all ? NULL
					      : judge_format("%lu of %lu requests count as %s",
							     counts->outcome, all, form->outcome);
	if (counts->forwarded || counts->host_requests)
		return judge_format("%lu of %lu requests forwarded",
				    counts->forwarded + counts->host_requests, all);
	if (counts->hits * 100 < form->least * counts->requests)
		return judge_format("%lu hits of %lu requests, at least %u %%", counts->hits,
				    counts->requests, form->least);
	return NULL;
}

/* A form that is refused has no call that succeeds without peerpin. */
static const char *judge_refusals(const struct form *form, const struct form_result *without)
{
	for (unsigned int i = 0; i < without->calls && !strcmp(form->outcome, "refused"); i++) {
		if (without->call[i].registers && !without->call[i].error)
			return judge_format("call %u succeeds without peerpin", i);
	}
	return NULL;
}

const char *form_judge(const struct form *form, const struct form_result *without,
		       const struct form_result *with)
{
	const char *text;

	if (!without->complete)
		return "the run without peerpin ended early";
	if (!with->complete)
		return "the run ended early";
	if (without->wrong)
		return judge_format("without peerpin: wrong %s", without->first_wrong);
	if (with->wrong)
		return judge_format("%u wrong, first %s", with->wrong, with->first_wrong);
	if (with->counts.internal_errors)
		return "an internal error";
	text = judge_errors(without, with);
	if (!text)
		text = judge_sums(without, with);
	if (!text)
		text = judge_refusals(form, without);
	return text ? text : judge_outcome(form, with);
}
