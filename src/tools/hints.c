/* SPDX-License-Identifier: BSD-3-Clause */
/* hints.c -- the rows of tools/hints.def that apply to a job, and their fixes */
#include "tools/jobs.h"

#include <string.h>

#define N(key)		 ((uint64_t)job_total(job, #key))
#define SET(name, value) job_has_setting(job, "PEERPIN_" #name, value)
#define FIX_OF(counter)	 job_fix(job, #counter)
#define TEXT_OF(...)	 text_of(__VA_ARGS__)
#define TIME(n)		 show(UNIT_TIME, (int64_t)(n))

const char *job_fix(const struct job *job, const char *reason)
{
#define FIX(counter, text)                                                                         \
	if (!strcmp(reason, #counter))                                                             \
		return text;
#include "tools/hints.def"
#undef FIX
	return "see THE TABLE AT EXIT in 'man 7 peerpin'";
}

bool job_lacks_idle_cpu(const struct job *job)
{
	return NO_IDLE_CPU;
}

struct reason {
	const char *key, *label;
	uint64_t requests;
};

static struct reason hints_main_reason(const struct job *job)
{
	static const struct reason reasons[] = {
#define STATISTIC(name, unit, meaning)
#define REASON(name, label, meaning) { #name, label, 0 },
#include "report/statistics.def"
#undef STATISTIC
	};
	struct reason commonest = { "", "", 0 };

	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++) {
		struct reason reason = reasons[i];

		reason.requests = (uint64_t)job_total(job, reason.key);
		if (reason.requests > commonest.requests &&
		    !strncmp(reason.key, "forwarded_", strlen("forwarded_")))
			commonest = reason;
	}
	return commonest;
}

static const char *hints_text(uint64_t requests, uint64_t all, const char *text)
{
	return text_of("%s of %s requests %s", show(UNIT_COUNT, (int64_t)requests),
		       show(UNIT_COUNT, (int64_t)all), text);
}

#define FORWARDED	reason.requests
#define FORWARDED_LABEL reason.label
#define FORWARDED_FIX	job_fix(job, reason.key)

void job_hints(const struct job *job, void (*take)(void *argument, const struct hint *hint),
	       void *argument)
{
	struct reason reason = hints_main_reason(job);

#define HINT(id, weight, requests, condition, text, fix)                                           \
	if (condition)                                                                             \
		take(argument, &(struct hint){ #id, weight, hints_text(requests, all, text), fix,  \
					       (requests) > few ? (requests) : 0 });
#include "tools/hints.def"
#undef HINT
}

static void hints_take_main(void *argument, const struct hint *hint)
{
	struct hint *most = argument;

	if (hint->requests > most->requests)
		*most = *hint;
}

struct hint job_main_hint(const struct job *job)
{
	struct hint most = { .requests = 0 };

	job_hints(job, hints_take_main, &most);
	return most;
}
