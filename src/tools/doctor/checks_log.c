/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_log.c -- lines of the kernel's log that explain a failed registration */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/doctor/rules.h"
#include "tools/units.h"

#define ROOM "peerpin doctor --only limits,bar1"

/* Formats: kernel-open/nvidia-peermem and Xid of NVIDIA/open-gpu-kernel-modules; mlx5_ib's mr.c and
 * mlx5_core's cmd.c of Linux. */
static const struct {
	const char *line;
	const char *words;
	const char *fix; /* or a value's name, fix_... */
} causes[] = {
	{ "assumption of 64KB pages failed",
	  "nvidia_peermem registers GPU pages of 64 KiB alone (ibv_reg_mr: EINVAL)", "fix_pages" },
	{ "while calling nvidia_p2p_get_pages", "the driver gave nvidia_peermem no pages", ROOM },
	{ "nvidia_peermem: ", "the kernel did not load nvidia_peermem",
	  "ask your administrator: reinstall the driver after MLNX_OFED or DOCA-OFED" },
	{ "NVRM: Xid ", "the driver reported an error of a GPU",
	  "nvidia-smi -q, and ask your administrator: reset the GPU or the machine" },
	{ "umem get failed", "mlx5 found no pages of the memory", "peerpin doctor --only peermem" },
	{ "reg mr failed", "mlx5 got no memory key", ROOM },
	{ "CREATE_MKEY", "the adapter's firmware gave no memory key", ROOM },
};
#define CAUSES (sizeof(causes) / sizeof(causes[0]))

/* Xids that a program's own kernels cause. */
static bool checks_log_is_of_program(const char *line)
{
	static const int programs[] = { 13, 31, 43, 45 };
	const char *xid = strstr(line, "NVRM: Xid "), *number = xid ? strstr(xid, "): ") : NULL;

	for (size_t i = 0; number && i < sizeof(programs) / sizeof(programs[0]); i++) {
		if (atoi(number + 3) == programs[i])
			return true;
	}
	return false;
}

static size_t checks_log_cause(const char *line)
{
	size_t cause = 0;

	while (cause < CAUSES && !strstr(line, causes[cause].line))
		cause++;
	return checks_log_is_of_program(line) ? CAUSES : cause;
}

void check_log(struct host *host, struct finding *finding)
{
	const struct reading *log = host_read(host, "kernel/log");
	const char *measured = every_gpu_works(host) ? proof_of(host, NULL, NULL, METHODS) : NULL;
	const char *last[CAUSES];
	char line[256];
	unsigned int count[CAUSES] = { 0 };

	for (const char *at = log->text; host_line(&at, line, sizeof(line));) {
		size_t cause = checks_log_cause(line);

		if (cause == CAUSES)
			continue;
		count[cause]++;
		last[cause] = text_of("%s", line);
	}
	for (size_t i = 0; i < CAUSES; i++) {
		const char *fix = causes[i].fix;

		if (count[i])
			finding_implied(finding, NULL, measured, WARN,
					strncmp(fix, "fix_", 4) ? fix : host_value(host, fix),
					text_of("%s, %u time%s (the last: %s)", causes[i].words,
						count[i], count[i] == 1 ? "" : "s", last[i]));
	}
}
