/* SPDX-License-Identifier: BSD-3-Clause */
/* checks_software.c -- checks of MPI, UCX and NCCL, their settings, and preloaded libraries */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "tools/doctor/checks.h"
#include "tools/units.h"

enum ucx { UCX_WITHOUT_CUDA, UCX_WITH_CUDA, UCX_UNSEEN };

/* ucx_info shows no CUDA transports without a GPU, even if UCX has them. */
static enum ucx checks_software_cuda_of_ucx(struct host *host)
{
	const struct reading *cuda = host_read(host, "command/ucx_info -d | grep cuda");

	if (!cuda->error && strstr(cuda->text, "cuda_copy"))
		return UCX_WITH_CUDA;
	if (cuda->error == ENOENT)
		return UCX_WITHOUT_CUDA;
	return cuda->error || !machine_of(host)->driver_answers ? UCX_UNSEEN : UCX_WITHOUT_CUDA;
}

bool ucx_has_cuda(struct host *host)
{
	return checks_software_cuda_of_ucx(host) == UCX_WITH_CUDA;
}

static void checks_software_open_mpi(struct host *host, enum ucx ucx, struct finding *finding)
{
	const struct reading *support = host_read(
		host,
		"command/ompi_info --parsable --all | grep mpi_built_with_cuda_support:value");

	if (support->error == ENOENT)
		return;
	if (support->error)
		finding_add(finding, UNKNOWN, "ompi_info failed: %s", support->text);
	else if (strstr(support->text, ":value:true"))
		finding_add(finding, OK, "Open MPI with CUDA");
	else if (ucx == UCX_WITH_CUDA)
		/* Over UCX, Open MPI sends GPU memory without CUDA support of its own. */
		finding_add(finding, OK, "Open MPI without CUDA support, which UCX has");
	else if (ucx == UCX_UNSEEN)
		finding_add(finding, UNKNOWN, "Open MPI without CUDA support, which UCX may have");
	else
		finding_problem(finding, WARN,
				"use an Open MPI that was configured --with-cuda, or one over UCX "
				"with CUDA",
				"Open MPI without CUDA support");
}

/* "# Version 1.13.1", "# Library version: 1.18.0" (from UCX 1.14 on). */
#define UCX_INFO "command/ucx_info -v | grep ersion"

static void checks_software_hooks(struct host *host, struct finding *finding)
{
	const char *driver = host_text(host, "/sys/module/nvidia/version"),
		   *machine = host_text(host, "identity/machine"),
		   *mode = host_text(host, "environment/UCX_MEM_CUDA_HOOK_MODE");
	const struct reading *version = host_read(host, UCX_INFO);

	if ((!mode || !strcasecmp(mode, "bistro")) && driver && atoi(driver) >= 575 && machine &&
	    !strcmp(machine, "x86_64") && !version->error)
		finding_defects(finding, "UCX", version->text);
}

static void checks_software_ucx(struct host *host, enum ucx ucx, struct finding *finding)
{
	const struct reading *cuda = host_read(host, "command/ucx_info -d | grep cuda");

	if (host_read(host, UCX_INFO)->error == ENOENT)
		return;
	if (cuda->error)
		finding_add(finding, UNKNOWN, "ucx_info -d failed: %s", cuda->text);
	else if (ucx == UCX_WITH_CUDA)
		finding_add(finding, OK, "UCX with CUDA");
	else if (ucx == UCX_UNSEEN)
		finding_add(finding, UNKNOWN,
			    "UCX lists no CUDA transport, as always without a GPU");
	else
		finding_problem(finding, WARN,
				"install UCX with CUDA (package libucx-cuda or ucx-cuda)",
				"UCX without CUDA");
	if (ucx != UCX_WITHOUT_CUDA)
		checks_software_hooks(host, finding);
}

void check_software(struct host *host, struct finding *finding)
{
	enum ucx ucx = checks_software_cuda_of_ucx(host);

	checks_software_open_mpi(host, ucx, finding);
	checks_software_ucx(host, ucx, finding);
	if (host_has(host, "/dev/gdrdrv?"))
		finding_add(finding, OK, "gdrcopy's driver");
	check_settings(host, finding);
	if (!finding->text)
		finding_add(finding, OK,
			    "neither Open MPI nor UCX is on PATH, and no known variable is set");
}

/* ---- preloads ---- */

static const struct {
	const char *part; /* part of the file's name */
	const char *words;
} known[] = {
	{ "peerpin", "peerpin itself" },
	{ "libcuda.so", "the CUDA driver" },
	{ "libcudart.so", "the CUDA runtime" },
	{ "libibverbs.so", "libibverbs itself" },
	{ "vgpu", "HAMi: it intercepts driver calls, put it behind peerpin" },
	{ "nvshare", "nvshare: it intercepts driver calls, put it behind peerpin" },
	{ "heaptrack", "heaptrack: it intercepts malloc only" },
	{ "darshan", "darshan: it intercepts file calls only" },
	{ "jemalloc", "an allocator: it does not touch GPU memory" },
	{ "tcmalloc", "an allocator: it does not touch GPU memory" },
	{ "sanitizer", "a sanitizer: it must come first" },
	{ "asan", "a sanitizer: it must come first" },
};

static const char *checks_software_describe(const char *library)
{
	const char *base = text_file_name(library);

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strstr(base, known[i].part))
			return known[i].words;
	}
	return NULL;
}

static void checks_software_preloads(const char *list, const char *from, struct finding *finding)
{
	char *copy = text_of("%s", list ? list : ""), *rest = NULL;

	for (char *word = strtok_r(copy, " :\n\t", &rest); word;
	     word = strtok_r(NULL, " :\n\t", &rest)) {
		const char *words = checks_software_describe(word);

		if (!words) {
			finding_add(finding, WARN, "%s has %s, unknown to peerpin", from, word);
			finding_fix(finding, "run once without %s: %s", word,
				    *from == '/'
					    ? "ask your administrator to take it out of that file"
					    : "env -u LD_PRELOAD peerpin ...");
		} else {
			bool behind = strstr(words, "put it behind");

			finding_problem(finding, behind ? WARN : OK,
					behind ? "start the program with peerpin, which precedes "
						 "other preloads"
					       : NULL,
					"%s has %s (%s)", from, word, words);
		}
	}
}

void check_preloads(struct host *host, struct finding *finding)
{
	const struct reading *file = host_read(host, "/etc/ld.so.preload");
	const char *audit = host_text(host, "environment/LD_AUDIT");

	checks_software_preloads(host_text(host, "environment/LD_PRELOAD"), "LD_PRELOAD", finding);
	if (!file->error)
		checks_software_preloads(file->text, "/etc/ld.so.preload", finding);
	else if (file->error != ENOENT)
		finding_add(finding, UNKNOWN, "/etc/ld.so.preload cannot be read");
	if (audit && *audit)
		finding_problem(finding, WARN, "unset LD_AUDIT", "LD_AUDIT is %s", audit);
	if (!finding->text)
		finding_add(finding, OK, "none");
}
