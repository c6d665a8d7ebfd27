/* SPDX-License-Identifier: BSD-3-Clause */
/* print.c -- the printed diagnosis: a line for each check, the matrix, the conclusion */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/doctor/host_internal.h"
#include "tools/doctor/diagnosis.h"
#include "tools/units.h"

#define INDENT 23 /* columns before the text of a finding */

static const struct {
	const char *sign;
	const char *colour;
} looks[] = {
	[OK] = { "OK", "\033[32m" },	 [NOT_NEEDED] = { "-", "\033[2m" },
	[UNKNOWN] = { "?", "\033[36m" }, [WARN] = { "WARN", "\033[33m" },
	[FAIL] = { "FAIL", "\033[31m" },
};

/* Prints a line without control sequences: its text may come from another machine. */
__attribute__((format(printf, 1, 2))) static void print_line(const char *format, ...)
{
	va_list arguments;
	char *text = NULL, *clean;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	clean = clean_text(need(text));
	puts(clean);
	free(clean);
	free(text);
}

static void print_head(const struct diagnosis *diagnosis)
{
	const struct machine *machine = machine_of(diagnosis->host);
	const char *name = host_text(diagnosis->host, "identity/host");

	print_line("peerpin doctor  %s  %u GPU%s, %u adapter%s", name ? name : "unknown host",
		   machine->gpu_count, machine->gpu_count == 1 ? "" : "s", machine->adapter_count,
		   machine->adapter_count == 1 ? "" : "s");
}

/* First earlier check with an identical fix; NULL: none. */
static const struct check *print_earlier_fix(const struct diagnosis *diagnosis, unsigned int which,
					     const char *fix)
{
	for (unsigned int i = 0; i < which; i++) {
		const struct finding *before = &diagnosis->findings[i];

		if (!diagnosis->shown[i] || before->result < UNKNOWN)
			continue;
		for (unsigned int j = 0; j < before->fix_count; j++) {
			if (!strcmp(before->fixes[j], fix))
				return &checks[i];
		}
	}
	return NULL;
}

/* Prints the fixes of a finding. Without --verbose, a fix that an earlier check printed becomes
 * a reference to that check. */
static void print_fixes(const struct diagnosis *diagnosis, unsigned int which, bool verbose)
{
	const struct finding *finding = &diagnosis->findings[which];
	const struct check *before, *named = NULL;

	if (!verbose && finding->result < UNKNOWN)
		return;
	for (unsigned int i = 0; i < finding->fix_count; i++) {
		before = verbose ? NULL : print_earlier_fix(diagnosis, which, finding->fixes[i]);
		if (!before) {
			print_line("%*sfix:  %s", INDENT, "", finding->fixes[i]);
		} else if (finding->result > UNKNOWN && before != named) {
			printf("%*sfix:  (see %s above)\n", INDENT, "", before->id);
			named = before;
		}
	}
}

/* Prints the installed document's path, or the path in the source tree if it is not installed. */
static void print_document(const char *link)
{
	char *installed = need_text(DOCDIR "/%.*s", (int)strcspn(link, "#"), link);

	print_line("%*smore: %s%s", INDENT, "", access(installed, R_OK) ? "" : DOCDIR "/", link);
	free(installed);
}

static void print_check(const struct diagnosis *diagnosis, unsigned int which, bool verbose,
			bool colour)
{
	const struct finding *finding = &diagnosis->findings[which];
	const struct check *check = &checks[which];

	printf("%s%-4s%s", colour ? looks[finding->result].colour : "", looks[finding->result].sign,
	       colour ? "\033[0m" : "");
	print_line("  %-15s  %s", check->id, finding->text);
	if (verbose) {
		printf("%*sread: %s\n", INDENT, "", check->read);
		printf("%*swhy:  %s\n", INDENT, "", check->why);
	}
	print_fixes(diagnosis, which, verbose);
	if (verbose)
		print_document(check->link);
}

/* ---- the matrix ---- */

/* "PIX* Dp": capitals are proved methods. */
static void print_format_cell(struct host *host, const struct gpu *gpu,
			      const struct adapter *adapter, bool chosen, char cell[16])
{
	static const char letters[][METHODS + 1] = {
		[SUPPORT_EXPECTED] = "dpx", [SUPPORT_PROVED] = "DPX"
	};
	char methods[METHODS + 2] = "";
	unsigned int count = 0;
	bool unknown = false;

	for (enum method method = 0; method < METHODS; method++) {
		enum level level = support_between(host, gpu, adapter, method).level;

		if (level >= SUPPORT_EXPECTED)
			methods[count++] = letters[level][method];
		unknown |= level == SUPPORT_UNKNOWN && method != METHOD_DATA_DIRECT;
	}
	if (!count)
		methods[0] = unknown ? '?' : '-';
	snprintf(cell, 16, "%s%s %s", distance_name(distance_between(gpu, adapter)),
		 chosen ? "*" : "", methods);
}

/* Column width: the adapter's name, at least one cell. */
static void print_column(const struct machine *machine, const struct adapter *adapter,
			 const char *text)
{
	bool last = adapter == &machine->adapters[machine->adapter_count - 1];
	int width = (int)strlen(adapter->name);
	char *clean = clean_text(text);

	printf("  %-*s%s", last ? 0 : width > 8 ? width : 8, clean, last ? "\n" : "");
	free(clean);
}

static void print_matrix(struct host *host)
{
	const struct machine *machine = machine_of(host);
	struct support support;
	char cell[16], *label;
	int width = 4;

	if (!machine->gpu_count || !machine->adapter_count)
		return;
	EACH_GPU(host, gpu)
		width = (int)strlen(gpu->label) > width ? (int)strlen(gpu->label) : width;
	printf("\n%*s", width, "");
	EACH_ADAPTER(host, adapter)
		print_column(machine, adapter, adapter->name);
	EACH_GPU(host, gpu) {
		const struct adapter *chosen = adapter_of_gpu(host, gpu, &support);

		label = clean_text(gpu->label);
		printf("%-*s", width, label);
		free(label);
		EACH_ADAPTER(host, adapter) {
			print_format_cell(host, gpu, adapter, chosen == adapter, cell);
			print_column(machine, adapter, cell);
		}
	}
	puts("PIX one bridge, PXB several, PHB a host bridge, NODE a NUMA node, SYS across "
	     "sockets; * the adapter to use\n"
	     "d dma-buf, p peermem, x data direct; capitals: memory was registered; - no method, ? "
	     "unknown");
}

void print_conclusion(const struct diagnosis *diagnosis)
{
	print_line("%s", diagnosis->conclusion);
}

void print_diagnosis(const struct diagnosis *diagnosis, bool verbose, bool colour)
{
	print_head(diagnosis);
	for (unsigned int i = 0; i < check_count; i++) {
		if (diagnosis->shown[i])
			print_check(diagnosis, i, verbose, colour);
	}
	if (!diagnosis->partial || verbose)
		print_matrix(diagnosis->host);
	putchar('\n');
	print_conclusion(diagnosis);
}
