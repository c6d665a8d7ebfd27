/* SPDX-License-Identifier: BSD-3-Clause */
/* conclusion.c -- the last line: does GPUDirect RDMA work, and if not, why */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/groups.h"
#include "tools/doctor/host_internal.h"
#include "tools/doctor/result.h"

unsigned int count_verdicts(const struct result *result, enum verdict verdict)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < check_count; i++)
		count += result->shown[i] && result->findings[i].verdict == verdict;
	return count;
}

/* "1 failed, 2 warnings, 1 unknown." */
static char *conclusion_count_words(const struct result *result)
{
	static const struct {
		enum verdict verdict;
		const char *one, *more;
	} words[] = { { VERDICT_FAIL, "failed", "failed" },
		      { VERDICT_WARN, "warning", "warnings" },
		      { VERDICT_UNKNOWN, "unknown", "unknown" },
		      { VERDICT_NOT_NEEDED, "not needed", "not needed" } };
	char *text = NULL, *longer;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		unsigned int count = count_verdicts(result, words[i].verdict);

		if (!count)
			continue;
		longer = need_text("%s%s%u %s", text ? text : "", text ? ", " : "", count,
				   count == 1 ? words[i].one : words[i].more);
		free(text);
		text = longer;
	}
	if (text)
		longer = need_text(" %s.", text);
	else
		longer = need_text("%s", result->partial ? "" : " All checks are OK.");
	free(text);
	return longer;
}

/* Pairs that work; GPUs that fail or are undecided, each with the reason of the first GPU. */
struct summary {
	char *works, *expected, *fails, *undecided;
	char failure[272], doubt[272];
	unsigned int count[ANSWER_PROVED + 1];
};

static void conclusion_add_gpu(struct host *host, const struct gpu *gpu, struct summary *summary)
{
	struct answered answered;
	const struct adapter *adapter = adapter_of_gpu(host, gpu, &answered);
	char pair[96];

	snprintf(pair, sizeof(pair), "%s%s%s", gpu->label, adapter ? "-" : "",
		 adapter ? adapter->name : "");
	summary->count[answered.answer]++;
	switch (answered.answer) {
	case ANSWER_PROVED:
		list_add(&summary->works, pair);
		break;
	case ANSWER_EXPECTED:
		list_add(&summary->expected, pair);
		break;
	case ANSWER_UNKNOWN:
		if (!summary->undecided)
			snprintf(summary->doubt, sizeof(summary->doubt), "%s", answered.reason);
		list_add(&summary->undecided, gpu->label);
		break;
	case ANSWER_NO:
		if (!summary->fails)
			snprintf(summary->failure, sizeof(summary->failure), "%s", answered.reason);
		list_add(&summary->fails, gpu->label);
	}
}

static void conclusion_shorten(char **list)
{
	char *shorter = *list ? shorten_list(*list) : NULL;

	free(*list);
	*list = shorter;
}

static char *conclusion_of_host(struct host *host, int *status)
{
	const struct machine *machine = machine_of(host);
	struct summary summary = { .works = NULL };
	char *text;

	for (unsigned int i = 0; i < machine->gpu_count; i++)
		conclusion_add_gpu(host, &machine->gpus[i], &summary);
	conclusion_shorten(&summary.fails);
	conclusion_shorten(&summary.undecided);
	*status = DOCTOR_UNDECIDED;
	if (!machine->gpu_count) {
		text = need_text(
			"Undecided: no GPU is visible here, so GPUDirect RDMA cannot be tried.");
	} else if (summary.count[ANSWER_NO] == machine->gpu_count) {
		*status = DOCTOR_FAILS;
		text = need_text("GPUDirect RDMA does not work on this host: %s.", summary.failure);
	} else if (summary.fails) {
		*status = DOCTOR_FAILS;
		text = need_text("GPUDirect RDMA does not work for %s: %s.", summary.fails,
				 summary.failure);
	} else if (summary.undecided) {
		text = need_text("Undecided for %s: %s.", summary.undecided, summary.doubt);
	} else if (summary.expected) {
		text = need_text("Undecided: GPUDirect RDMA should work (%s), but nothing was "
				 "registered to prove it.",
				 summary.expected);
	} else {
		*status = DOCTOR_WORKS;
		text = need_text("GPUDirect RDMA works on this host (%s).", summary.works);
	}
	free(summary.works);
	free(summary.expected);
	free(summary.fails);
	free(summary.undecided);
	return text;
}

/* --only: no conclusion about the host, only counts of verdicts. */
static char *conclusion_of_checks(const struct result *result, int *status)
{
	unsigned int good = count_verdicts(result, VERDICT_OK);

	*status = count_verdicts(result, VERDICT_FAIL)	    ? DOCTOR_FAILS
		  : count_verdicts(result, VERDICT_UNKNOWN) ? DOCTOR_UNDECIDED
							    : DOCTOR_WORKS;
	return need_text("Only the checks asked for: %u OK.", good);
}

/* True if a program is named and peerpin cannot be loaded into it. */
static bool conclusion_program_fails(const struct result *result)
{
	for (unsigned int i = 0; i < check_count; i++) {
		if (result->shown[i] && !strcmp(checks[i].group, "program") &&
		    result->findings[i].verdict == VERDICT_FAIL)
			return true;
	}
	return false;
}

void conclude(struct result *result)
{
	char *counts = conclusion_count_words(result);
	char *text = result->partial ? conclusion_of_checks(result, &result->status)
				     : conclusion_of_host(result->host, &result->status);

	bool program = !result->partial && conclusion_program_fails(result);

	if (program)
		result->status = DOCTOR_FAILS;
	result->conclusion =
		need_text("%s%s%s", text,
			  program ? " But peerpin can do nothing for the program." : "", counts);
	free(text);
	free(counts);
}
