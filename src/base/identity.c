/* SPDX-License-Identifier: BSD-3-Clause */
/* identity.c -- variables of the launchers, in order of precedence; file names */
#include "base/identity.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/once.h"
#include "base/plain_text.h"
#include "base/start.h"
#include "base/text.h"

#define NAME_SIZE 28

/* Arrays instead of pointers: pointers are relocated at each process start. */
struct launcher {
	char rank[NAME_SIZE], local_rank[NAME_SIZE], local_size[NAME_SIZE], job[NAME_SIZE];
};

/* Slurm is last: mpirun in a batch script passes the script's SLURM_PROCID, 0, to every rank. */
static const struct launcher launchers[] = {
	{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
	  "PMIX_NAMESPACE" },
	{ "PMIX_RANK", "", "", "PMIX_NAMESPACE" },
	{ "PMI_RANK", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "" },
	{ "PMI_RANK", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "" },
	{ "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", "" },
	{ "PALS_RANKID", "PALS_LOCAL_RANKID", "", "PBS_JOBID" },
	{ "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", "", "FLUX_JOB_ID" },
	{ "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE",
	  "LSB_JOBID" },
	{ "ALPS_APP_PE", "", "", "" },
	{ "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID" },
	{ "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "" },
};

/* Job variables of batch systems, for launchers without a job name. */
static const char batch_systems[][NAME_SIZE] = { "FLUX_JOB_ID", "PBS_JOBID", "LSB_JOBID" };

static struct identity {
	int rank, local_rank, local_size;
	char job[128];
} identity;
static once identity_known;

/* Return the value of a variable; NULL: unset or empty, or `variable` is "". */
static const char *identity_value(const char *variable)
{
	const char *value = *variable ? start_variable(variable) : NULL;

	return value && *value ? value : NULL;
}

/* Return a decimal number of at most 9 digits; -1: anything else. Slurm's number of tasks on each
 * node, as "4(x2)", is one if all nodes have as many. */
static int identity_number_of(const char *variable)
{
	const char *text = identity_value(variable), *end = text;
	uint64_t value;

	if (!text)
		return -1;
	value = text_number(&end);
	if (end == text || end - text > 9 || (*end && (*end != '(' || text_find(end, ','))))
		return -1;
	return (int)value;
}

/* Steps without srun, above all the batch script's, have 10-digit numbers: identity_number_of()
 * returns -1 for them. */
static bool identity_is_in_step(void)
{
	return identity_number_of("SLURM_STEP_ID") >= 0;
}

/* RANK is a common word: accept torchrun's RANK only with LOCAL_RANK and WORLD_SIZE. */
static bool identity_accepts(const struct launcher *launcher)
{
	if (text_equals(launcher->rank, "SLURM_PROCID"))
		return identity_is_in_step();
	if (text_equals(launcher->rank, "RANK"))
		return identity_number_of("LOCAL_RANK") >= 0 &&
		       identity_number_of("WORLD_SIZE") >= 0;
	return true;
}

/* The first variable that names the job has precedence. torchrun sets "none" for a job without a
 * name. */
static void identity_name_job(const char *variable)
{
	const char *value = identity_value(variable);

	if (!identity.job[0] && value && !text_equals(value, "none"))
		text_copy(identity.job, sizeof(identity.job), value);
}

static void identity_name_slurm_job(void)
{
	identity_name_job("SLURM_JOB_ID");
	if (identity.job[0] && identity_is_in_step())
		snprintf(identity.job, sizeof(identity.job), "%s.%s",
			 start_variable("SLURM_JOB_ID"), start_variable("SLURM_STEP_ID"));
}

static void identity_read_environment(void)
{
	identity = (struct identity){ .rank = -1, .local_rank = -1, .local_size = -1 };
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		const struct launcher *launcher = &launchers[i];
		int rank = identity_number_of(launcher->rank);

		/* Fill missing values from later launchers with an equal rank. */
		if (rank < 0 || (identity.rank >= 0 && rank != identity.rank) ||
		    !identity_accepts(launcher))
			continue;
		identity.rank = rank;
		if (identity.local_rank < 0)
			identity.local_rank = identity_number_of(launcher->local_rank);
		if (identity.local_size < 0)
			identity.local_size = identity_number_of(launcher->local_size);
		identity_name_job(launcher->job);
	}
	if (!identity.job[0])
		identity_name_slurm_job();
	for (size_t i = 0; i < sizeof(batch_systems) / sizeof(batch_systems[0]); i++)
		identity_name_job(batch_systems[i]);
	if (identity.rank >= 0)
		identity_name_job("PEERPIN_JOB");
	if (identity.rank >= 0 && !identity.job[0])
		snprintf(identity.job, sizeof(identity.job), "%.24s-%d", identity_host(),
			 (int)kernel_call(SYS_getppid));
}

static const struct identity *identity_get(void)
{
	if (once_begin(&identity_known)) {
		identity_read_environment();
		once_end(&identity_known);
	}
	return &identity;
}

int identity_rank(void)
{
	return identity_get()->rank;
}

int identity_local_rank(void)
{
	return identity_get()->local_rank;
}

int identity_local_size(void)
{
	return identity_get()->local_size;
}

const char *identity_job(void)
{
	return identity_get()->job;
}

const char *identity_host(void)
{
	static __thread char host[64] __attribute__((tls_model("initial-exec")));

	struct utsname names;
	char *dot;

	if (!host[0]) {
		text_copy(host, sizeof(host),
			  kernel_call(SYS_uname, &names) || !names.nodename[0] ? "localhost"
									       : names.nodename);
		dot = (char *)text_find(host, '.');
		if (dot)
			*dot = '\0';
	}
	return host;
}

/* ---- file names ---- */

size_t identity_make_safe(const char *text, char *to, size_t size)
{
	bool dots = text_equals(text, ".") || text_equals(text, "..");

	if (!size)
		return text_length(text);
	text_copy(to, size, text);
	plain_text(to, '_');
	for (char *at = to; *at; at++) {
		if (*at == '/' || dots)
			*at = '_';
	}
	return text_length(text);
}

/* Return the value of q{VARIABLE}, "" if unset; NULL: malformed. *length: bytes of the
 * conversion. */
static const char *identity_environment_value(const char *conversion, size_t *length)
{
	char variable[128];
	const char *value;
	size_t end = 2;

	if (conversion[1] != '{')
		return NULL;
	while (conversion[end] && conversion[end] != '}')
		end++;
	if (!conversion[end] || end == 2 || end - 2 >= sizeof(variable))
		return NULL;
	text_copy(variable, end - 1, conversion + 2);
	*length = end + 1;
	value = start_variable(variable);
	return value ? value : "";
}

/* Return the text of a conversion; NULL: unknown, copied literally. *length: bytes after the
 * percent sign. */
static const char *identity_convert(const char *conversion, size_t *length, char *digits,
				    size_t size)
{
	const char *user;

	*length = 1;
	switch (*conversion) {
	case 'r':
		snprintf(digits, size, "%d", identity_rank() >= 0 ? identity_rank() : 0);
		return digits;
	case 'p':
		snprintf(digits, size, "%d", kernel_process());
		return digits;
	case 'h':
		return identity_host();
	case 'j':
		return *identity_job() ? identity_job() : "0";
	case 'e':
		return start_program();
	case 'u':
		user = start_variable("USER");
		if (user && *user)
			return user;
		snprintf(digits, size, "%d", (int)kernel_user());
		return digits;
	case 'q':
		return identity_environment_value(conversion, length);
	case '%':
		return "%";
	default:
		return NULL;
	}
}

const char *identity_unknown_conversion(const char *pattern)
{
	const char *at = text_find(pattern, '%');

	for (; at; at = text_find(at, '%')) {
		if (at[1] == 'q' && at[2] == '{' && at[3] != '}' && text_find(at, '}'))
			at = text_find(at, '}');
		else if (at[1] && text_find("hprjeu%", at[1]))
			at += 2;
		else
			return at;
	}
	return NULL;
}

size_t identity_extension(const char *name)
{
	size_t begin = (size_t)(text_file_name(name) - name), length = begin, dot = 0;
	char first;

	for (; name[length]; length++) {
		if (name[length] == '.' && length > begin)
			dot = length;
	}
	first = dot ? text_lower(name[dot + 1]) : '\0';
	return first >= 'a' && first <= 'z' ? dot : length;
}

/* Limit the moved tail to NAME_MAX: the tail belongs to the last name of the path. Avoid memmove:
 * each libc symbol costs a look-up at process start. */
int identity_insert(char *name, size_t size, size_t at, size_t replaced, const char *text)
{
	size_t added = text_length(text), rest = text_length(name + at + replaced);
	char tail[NAME_MAX + 1];

	if (at + added + rest >= size || rest > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(tail, name + at + replaced, rest + 1);
	memcpy(name + at, text, added);
	memcpy(name + at + added, tail, rest + 1);
	return 0;
}

int identity_stream(const char *name)
{
	if (text_equals(name, "/dev/stdout"))
		return STDOUT_FILENO;
	return text_equals(name, "/dev/stderr") ? STDERR_FILENO : -1;
}

/* Return true for streams, devices and FIFOs: all ranks share one, so the name gets no rank. */
static bool identity_is_device(const char *name)
{
	struct stat status;

	return identity_stream(name) >= 0 || (!kernel_describe_at(AT_FDCWD, name, &status, 0) &&
					      !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode));
}

int identity_file_name(const char *pattern, char *name, size_t size)
{
	size_t used = 0, length, added;
	bool distinct = false;
	const char *text;
	char digits[16];

	if (!size)
		return -ENAMETOOLONG;
	for (; *pattern; pattern++) {
		text = *pattern == '%'
			       ? identity_convert(pattern + 1, &length, digits, sizeof(digits))
			       : NULL;
		if (text) {
			distinct |= pattern[1] == 'r' || pattern[1] == 'p';
			added = identity_make_safe(text, name + used, size - used);
			pattern += length;
		} else {
			name[used] = *pattern;
			added = 1;
		}
		if (used + added >= size)
			return -ENAMETOOLONG;
		used += added;
	}
	name[used] = '\0';
	if (distinct || identity_rank() < 0 || identity_is_device(name))
		return 0;
	snprintf(digits, sizeof(digits), ".%d", identity_rank());
	return identity_insert(name, size, identity_extension(name), 0, digits);
}
