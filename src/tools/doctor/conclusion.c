/* SPDX-License-Identifier: BSD-3-Clause */
/* conclusion.c -- the verdict: does GPUDirect RDMA work, and if not or degraded, why */
#include <string.h>

#include "tools/doctor/checks.h"
#include "tools/units.h"

/* Number of shown checks with this result. */
static unsigned int conclusion_count(const struct diagnosis *diagnosis, enum result result)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < check_count; i++)
		count += diagnosis->shown[i] && diagnosis->findings[i].result == result;
	return count;
}

/* " 1 failed, 2 warnings, 1 unknown." */
static const char *conclusion_count_words(const struct diagnosis *diagnosis)
{
	static const struct {
		enum result result;
		const char *one, *more;
	} words[] = { { FAIL, "failed", "failed" },
		      { WARN, "warning", "warnings" },
		      { UNKNOWN, "unknown", "unknown" },
		      { NOT_NEEDED, "not needed", "not needed" } };
	char *text = NULL;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		unsigned int count = conclusion_count(diagnosis, words[i].result);

		if (count)
			list_append(
				&text, ", ",
				text_of("%u %s", count, count == 1 ? words[i].one : words[i].more));
	}
	if (text)
		return text_of(" %s.", text);
	return diagnosis->partial ? "" : " All checks are OK.";
}

static bool conclusion_is_of_program(unsigned int check)
{
	return !strcmp(checks[check].group, "program");
}

/* ", degraded: REASON" if a check of the host warns; several warnings: their ids. */
static const char *conclusion_degraded(const struct diagnosis *diagnosis)
{
	const char *only = NULL;
	char *ids = NULL;

	for (unsigned int i = 0; i < check_count; i++) {
		if (!diagnosis->shown[i] || diagnosis->findings[i].result != WARN ||
		    conclusion_is_of_program(i))
			continue;
		only = ids ? NULL : diagnosis->findings[i].text;
		list_append(&ids, ", ", checks[i].id);
	}
	return ids ? text_of(", degraded: %s", only ? only : ids) : "";
}

/* A program gets wrong data and no error, even if it could use another method or adapter. NULL: no
 * probe found such a loss. */
static char *conclusion_of_loss(struct host *host)
{
	EACH_GPU(host, gpu) {
		EACH_ADAPTER(host, adapter) {
			for (enum method method = 0; method < METHODS; method++) {
				if (transfer_failure(host, gpu, adapter, method))
					return text_of("GPUDirect RDMA loses data on this host: "
						       "%s %s registers memory, but data does "
						       "not arrive.",
						       pair_name(gpu, adapter),
						       method_name(method));
			}
		}
	}
	return NULL;
}

static char *conclusion_of_host(const struct diagnosis *diagnosis, int *status)
{
	struct host *host = diagnosis->host;
	const struct machine *machine = machine_of(host);
	const char *reasons[SUPPORT_PROVED + 1];	  /* of the first GPU */
	unsigned int count[SUPPORT_PROVED + 1] = { 0 };	  /* GPUs with this support */
	char *list[SUPPORT_PROVED + 1] = { NULL }, *text; /* these GPUs, or pairs */
	struct support support;
	bool hardware = false;

	*status = DOCTOR_FAILS;
	text = conclusion_of_loss(host);
	if (text)
		return text;
	EACH_GPU(host, gpu) {
		const struct adapter *adapter = adapter_of_gpu(host, gpu, &support);
		enum level level = support.level;

		/* The table at exit counts neither Soft-RoCE nor the simulated adapter as used. */
		hardware |= adapter && !adapter->software && strncmp(adapter->name, "sim", 3) != 0;
		if (!count[level]++)
			reasons[level] = support.reason;
		list_add(&list[level],
			 level >= SUPPORT_EXPECTED ? pair_name(gpu, adapter) : gpu->label);
	}
	for (enum level level = SUPPORT_NO; level <= SUPPORT_UNKNOWN; level++)
		list[level] = list[level] ? list_shorten(list[level]) : NULL;
	*status = count[SUPPORT_NO] ? DOCTOR_FAILS : DOCTOR_UNDECIDED;
	if (!machine->gpu_count) {
		text = text_of(
			"Undecided: no GPU is visible here, so GPUDirect RDMA cannot be tried.");
	} else if (count[SUPPORT_NO] == machine->gpu_count) {
		text = text_of("GPUDirect RDMA does not work on this host: %s.",
			       reasons[SUPPORT_NO]);
	} else if (count[SUPPORT_NO]) {
		text = text_of("GPUDirect RDMA does not work for %s: %s.", list[SUPPORT_NO],
			       reasons[SUPPORT_NO]);
	} else if (count[SUPPORT_UNKNOWN]) {
		text = text_of("Undecided for %s: %s.", list[SUPPORT_UNKNOWN],
			       reasons[SUPPORT_UNKNOWN]);
	} else if (count[SUPPORT_EXPECTED]) {
		text = text_of("Undecided: GPUDirect RDMA should work (%s), but nothing was "
			       "registered to prove it.",
			       list[SUPPORT_EXPECTED]);
	} else {
		*status = DOCTOR_WORKS;
		text = text_of("GPUDirect RDMA works on this host (%s)%s%s.", list[SUPPORT_PROVED],
			       hardware ? ""
					: " by software adapters alone, which count as not used",
			       conclusion_degraded(diagnosis));
	}
	return text;
}

/* --only: no conclusion about the host, only counts of results. */
static char *conclusion_of_checks(const struct diagnosis *diagnosis, int *status)
{
	unsigned int good = conclusion_count(diagnosis, OK);

	*status = conclusion_count(diagnosis, FAIL)	 ? DOCTOR_FAILS
		  : conclusion_count(diagnosis, UNKNOWN) ? DOCTOR_UNDECIDED
							 : DOCTOR_WORKS;
	return text_of("Selected checks: %u OK.", good);
}

/* Worst result of the checks of the program; NOT_NEEDED: none is named. */
static enum result conclusion_of_program(const struct diagnosis *diagnosis)
{
	enum result worst = NOT_NEEDED;

	for (unsigned int i = 0; i < check_count; i++) {
		enum result result = diagnosis->findings[i].result;

		if (diagnosis->shown[i] && conclusion_is_of_program(i) && result != NOT_NEEDED &&
		    (worst == NOT_NEEDED || result > worst))
			worst = result;
	}
	return worst;
}

void conclude(struct diagnosis *diagnosis)
{
	const char *counts = conclusion_count_words(diagnosis);
	const char *text = diagnosis->partial ? conclusion_of_checks(diagnosis, &diagnosis->status)
					      : conclusion_of_host(diagnosis, &diagnosis->status);
	enum result program = diagnosis->partial ? NOT_NEEDED : conclusion_of_program(diagnosis);
	/* A launcher is no proof for the programs that it starts. */
	bool loads = program == OK && (!host_text(diagnosis->host, "program/launcher") ||
				       host_text(diagnosis->host, "program/launched"));

	if (program == FAIL)
		diagnosis->status = DOCTOR_FAILS;
	if (program != FAIL)
		text = text_of("%s%s", text,
			       loads ? " peerpin can be loaded into the program." : "");
	else if (strncmp(text, "Undecided", 9))
		text = text_of("%s But peerpin cannot be loaded into the program.", text);
	else
		text = text_of("peerpin cannot be loaded into the program. Whether GPUDirect RDMA "
			       "works is undecided%s",
			       text + strlen("Undecided"));
	diagnosis->conclusion = text_of("%s%s", text, counts);
}
