/* SPDX-License-Identifier: BSD-3-Clause */
/* identity.c -- the launchers' variables, in the order in which they are believed */
#include "base/identity.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/once.h"
#include "base/proc_stat.h"
#include "base/system.h"
#include "base/text.h"

#define NAME_SIZE 28

/* Between a rank and its launcher are a few programs that begin others. */
#define FOREBEARS_MOST 32

/* Texts, not pointers, which would have to be filled in in every process. */
struct launcher {
	char rank[NAME_SIZE], local_rank[NAME_SIZE], job[NAME_SIZE];
};

/* Slurm comes last: what it says in a batch script is inherited through mpirun, and then is 0 for all. */
static const struct launcher launchers[] = {
	{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_NAMESPACE" },
	{ "PMIX_RANK", "", "PMIX_NAMESPACE" },
	{ "PMI_RANK", "PMI_LOCAL_RANK", "" },
	{ "PMI_RANK", "MPI_LOCALRANKID", "" },
	{ "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "" },
	{ "PALS_RANKID", "PALS_LOCAL_RANKID", "PBS_JOBID" },
	{ "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_ID" },
	{ "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK", "LSB_JOBID" },
	{ "ALPS_APP_PE", "", "" },
	{ "RANK", "LOCAL_RANK", "TORCHELASTIC_RUN_ID" },
	{ "SLURM_PROCID", "SLURM_LOCALID", "" },
};

/* The job where the launcher itself has no name for it. */
static const char batch_systems[][NAME_SIZE] = { "FLUX_JOB_ID", "PBS_JOBID", "LSB_JOBID" };

static struct identity {
	int rank, local_rank;
	char job[128];
} identity;
static once known;

/* A decimal number of at most nine digits; -1 for anything else. */
static int number(const char *text)
{
	int value;

	if (!text || !*text || text_length(text) > 9)
		return -1;
	value = (int)text_number(&text);
	return *text ? -1 : value;
}

static int number_of(const char *variable)
{
	return *variable ? number(system_environment(variable)) : -1;
}

/* Steps that nobody has started with srun, the batch script's above all, have numbers of ten digits. */
static bool is_in_step(void)
{
	return number_of("SLURM_STEP_ID") >= 0;
}

/* RANK is a common word: it is torchrun's with this beside it. */
static bool is_believed(const struct launcher *launcher)
{
	if (text_equals(launcher->rank, "SLURM_PROCID"))
		return is_in_step();
	if (text_equals(launcher->rank, "RANK"))
		return number_of("LOCAL_RANK") >= 0 && number_of("WORLD_SIZE") >= 0;
	return true;
}

static bool has_text(const char *variable)
{
	const char *value = *variable ? system_environment(variable) : NULL;

	/* What torchrun calls a job without a name. */
	return value && *value && !text_equals(value, "none");
}

static void name_job(const char *variable)
{
	if (has_text(variable))
		system_format(identity.job, sizeof(identity.job), "%s", system_environment(variable));
}

static void name_slurm_job(void)
{
	name_job("SLURM_JOB_ID");
	if (identity.job[0] && is_in_step())
		system_format(identity.job, sizeof(identity.job), "%s.%s", system_environment("SLURM_JOB_ID"),
			      system_environment("SLURM_STEP_ID"));
}

/* Of whoever's environment cannot be read nothing has been inherited. */
static bool was_started_with(int process, const char *variable)
{
	char file[32], text[512];
	bool matches = true, found = false;
	size_t matched = 0;
	ssize_t length;
	int fd;

	system_format(file, sizeof(file), "/proc/%d/environ", process);
	fd = kernel_open(file, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	while (!found && (length = kernel_read(fd, text, sizeof(text))) > 0) {
		for (ssize_t i = 0; i < length; i++) {
			if (!text[i]) {
				matches = true;
				matched = 0;
			} else if (matches && !variable[matched]) {
				found |= text[i] == '=';
				matches = false;
			} else if (matches) {
				matches = text[i] == variable[matched++];
			}
		}
	}
	kernel_close(fd);
	return found;
}

/* After who has told this process its rank: the nearest of its forebears that was not told itself. On each host that is
 * another one. */
static void name_after_launcher(const char *rank)
{
	int process = 0, parent, saved_errno = errno;
	uint64_t start;

	for (unsigned int i = 0; i < FOREBEARS_MOST; i++) {
		parent = proc_stat_parent(process, &start);
		if (process && !was_started_with(process, rank)) {
			system_format(identity.job, sizeof(identity.job), "%.24s-%d-%llu", process_host(),
				      process, (unsigned long long)start);
			break;
		}
		if (parent <= 0)
			break;
		process = parent;
	}
	errno = saved_errno;
}

static void read_environment(void)
{
	const struct launcher *launcher;
	const char *told = NULL;

	identity = (struct identity){ .rank = -1, .local_rank = -1 };
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		launcher = &launchers[i];
		if (identity.rank >= 0 && number_of(launcher->rank) != identity.rank)
			continue;
		if (!is_believed(launcher))
			continue;
		/* What the first does not know, another of the same rank may. */
		if (identity.rank < 0)
			identity.rank = number_of(launcher->rank);
		if (identity.rank >= 0 && !told)
			told = launcher->rank;
		if (identity.rank >= 0 && identity.local_rank < 0)
			identity.local_rank = number_of(launcher->local_rank);
		if (identity.rank >= 0 && !identity.job[0] && has_text(launcher->rank))
			name_job(launcher->job);
	}
	if (!identity.job[0])
		name_slurm_job();
	for (size_t i = 0; i < sizeof(batch_systems) / sizeof(batch_systems[0]) && !identity.job[0]; i++)
		name_job(batch_systems[i]);
	if (told && !identity.job[0])
		name_job("PEERPIN_JOB");
	if (told && !identity.job[0])
		name_after_launcher(told);
}

static const struct identity *get(void)
{
	if (once_begin(&known)) {
		read_environment();
		once_end(&known);
	}
	return &identity;
}

int process_rank(void)
{
	return get()->rank;
}

int process_local_rank(void)
{
	return get()->local_rank;
}

const char *process_job(void)
{
	return get()->job;
}

const char *process_host(void)
{
	static __thread char host[64] __attribute__((tls_model("initial-exec")));

	struct utsname names;
	size_t length = 0;

	if (!host[0]) {
		if (kernel_host(&names) || !names.nodename[0])
			memcpy(names.nodename, "localhost", sizeof("localhost"));
		while (length < sizeof(host) - 1 && names.nodename[length] && names.nodename[length] != '.')
			length++;
		memcpy(host, names.nodename, length);
	}
	return host;
}

const char *process_program(void)
{
	return system_program();
}

/* ---- names of files ---- */

size_t identity_make_safe(const char *text, char *to, size_t size)
{
	size_t length = 0;
	bool dots = text_equals(text, ".") || text_equals(text, "..");

	for (; text[length]; length++) {
		char character = text[length];

		if (character == '/' || (unsigned char)character < ' ' || character == 0x7f || dots)
			character = '_';
		if (length + 1 < size)
			to[length] = character;
	}
	if (size)
		to[length < size ? length : size - 1] = '\0';
	return length;
}

/* The value of q{VARIABLE}; NULL where that is not what stands there. *length: of all of it. */
static const char *environment_value(const char *conversion, size_t *length)
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
	memcpy(variable, conversion + 2, end - 2);
	variable[end - 2] = '\0';
	*length = end + 1;
	value = system_environment(variable);
	return value ? value : "";
}

/* One conversion of a pattern: its text, or NULL for an unknown one, which then stands for itself. *length: of what stands
 * behind the percent sign. */
static const char *convert(const char *conversion, size_t *length, char *digits, size_t size)
{
	*length = 1;
	switch (*conversion) {
	case 'r':
		system_format(digits, size, "%d", process_rank() >= 0 ? process_rank() : 0);
		return digits;
	case 'p':
		system_format(digits, size, "%d", kernel_process());
		return digits;
	case 'h':
		return process_host();
	case 'j':
		return *process_job() ? process_job() : "0";
	case 'e':
		return process_program();
	case 'q':
		return environment_value(conversion, length);
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
		else if (at[1] && text_find("hprje%", at[1]))
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

/* What stands behind it is a part of the last name, which no file system takes if it is longer. Not by memmove, which each program would
 * have to look up when it starts. */
int identity_insert(char *name, size_t size, size_t at, size_t replaced, const char *text)
{
	size_t added = text_length(text), rest = text_length(name + at + replaced);
	char behind[NAME_MAX + 1];

	if (at + added + rest >= size || rest > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(behind, name + at + replaced, rest + 1);
	memcpy(name + at, text, added);
	memcpy(name + at + added, behind, rest + 1);
	return 0;
}

int identity_stream(const char *name)
{
	if (text_equals(name, "/dev/stdout"))
		return STDOUT_FILENO;
	return text_equals(name, "/dev/stderr") ? STDERR_FILENO : -1;
}

/* There is one of it for all ranks, and what lay beside it would be nobody's. */
static bool is_device(const char *name)
{
	struct stat what;
	int saved_errno = errno;
	bool device = identity_stream(name) >= 0 || (!kernel_describe_name(name, &what) &&
						     !S_ISREG(what.st_mode) && !S_ISDIR(what.st_mode));

	errno = saved_errno;
	return device;
}

int process_file_name(const char *pattern, char *name, size_t size)
{
	size_t used = 0, length, added;
	bool distinct = false;
	const char *text;
	char digits[16];

	if (!size)
		return -ENAMETOOLONG;
	for (; *pattern; pattern++) {
		text = *pattern == '%' ? convert(pattern + 1, &length, digits, sizeof(digits)) : NULL;
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
	if (distinct || process_rank() < 0 || is_device(name))
		return 0;
	system_format(digits, sizeof(digits), ".%d", process_rank());
	return identity_insert(name, size, identity_extension(name), 0, digits);
}
