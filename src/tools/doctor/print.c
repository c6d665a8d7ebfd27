/* SPDX-License-Identifier: BSD-3-Clause */
/* print.c -- the printed result: a line for each check, the matrix, the conclusion */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/doctor/host_internal.h"
#include "tools/doctor/result.h"
#include "tools/units.h"

#define INDENT 23 /* columns before the text of a finding */

static const struct {
	const char *sign;
	const char *colour;
} looks[] = {
	[VERDICT_OK] = { "OK", "\033[32m" },	 [VERDICT_NOT_NEEDED] = { "-", "\033[2m" },
	[VERDICT_UNKNOWN] = { "?", "\033[36m" }, [VERDICT_WARN] = { "WARN", "\033[33m" },
	[VERDICT_FAIL] = { "FAIL", "\033[31m" },
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

static void print_head(const struct result *result)
{
	const struct machine *machine = machine_of(result->host);
	const char *name = host_text(result->host, "identity/host");

	print_line("peerpin doctor  %s  %u GPU%s, %u adapter%s", name ? name : "unknown host",
		   machine->gpu_count, machine->gpu_count == 1 ? "" : "s", machine->adapter_count,
		   machine->adapter_count == 1 ? "" : "s");
}

/* First earlier check with an identical fix; NULL: none. */
static const struct check *print_earlier_fix(const struct result *result, unsigned int which,
					     const char *fix)
{
	for (unsigned int i = 0; i < which; i++) {
		const struct finding *before = &result->findings[i];

		if (!result->shown[i] || before->verdict < VERDICT_UNKNOWN)
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
static void print_fixes(const struct result *result, unsigned int which, bool verbose)
{
	const struct finding *finding = &result->findings[which];
	const struct check *before, *named = NULL;

	if (!verbose && finding->verdict < VERDICT_UNKNOWN)
		return;
	for (unsigned int i = 0; i < finding->fix_count; i++) {
		before = verbose ? NULL : print_earlier_fix(result, which, finding->fixes[i]);
		if (!before) {
			print_line("%*sdo:   %s", INDENT, "", finding->fixes[i]);
		} else if (finding->verdict > VERDICT_UNKNOWN && before != named) {
			printf("%*sdo:   (see %s above)\n", INDENT, "", before->id);
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

static void print_check(const struct result *result, unsigned int which, bool verbose, bool colour)
{
	const struct finding *finding = &result->findings[which];
	const struct check *check = &checks[which];

	printf("%s%-4s%s", colour ? looks[finding->verdict].colour : "",
	       looks[finding->verdict].sign, colour ? "\033[0m" : "");
	print_line("  %-15s  %s", check->id, finding->text);
	if (verbose) {
		print_line("%*sread: %s", INDENT, "", finding->read ? finding->read : "nothing");
		printf("%*swhy:  %s\n", INDENT, "", check->why);
	}
	print_fixes(result, which, verbose);
	if (verbose)
		print_document(check->link);
}

/* ---- the matrix ---- */

/* "PIX* Dp": capitals are proved methods. */
static void print_format_cell(struct host *host, const struct gpu *gpu,
			      const struct adapter *adapter, bool chosen, char cell[16])
{
	static const char letters[WAYS] = { 'd', 'p', 'x' };
	char ways[WAYS + 2] = "";
	unsigned int count = 0;
	bool unknown = false;

	for (enum way way = 0; way < WAYS; way++) {
		enum answer answer = way_between(host, gpu, adapter, way).answer;

		if (answer >= ANSWER_EXPECTED)
			ways[count++] = (char)(answer == ANSWER_PROVED ? letters[way] - 'a' + 'A'
								       : letters[way]);
		unknown |= answer == ANSWER_UNKNOWN && way != WAY_DATA_DIRECT;
	}
	if (!count)
		ways[0] = unknown ? '?' : '-';
	snprintf(cell, 16, "%s%s %s", distance_name(distance_between(gpu, adapter)),
		 chosen ? "*" : "", ways);
}

static int print_label_width(const struct machine *machine)
{
	int width = 4;

	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		int length = (int)strlen(machine->gpus[i].label);

		width = length > width ? length : width;
	}
	return width;
}

/* Column width: the adapter's name, at least one cell. */
static void print_column(const struct machine *machine, unsigned int which, const char *text)
{
	int width = (int)strlen(machine->adapters[which].name);
	char *clean = clean_text(text);

	if (which + 1 == machine->adapter_count)
		printf("  %s\n", clean);
	else
		printf("  %-*s", width > 8 ? width : 8, clean);
	free(clean);
}

static void print_matrix(const struct result *result)
{
	const struct machine *machine = machine_of(result->host);
	int width = print_label_width(machine);
	char cell[16], *label;

	if (!machine->gpu_count || !machine->adapter_count)
		return;
	printf("\n%*s", width, "");
	for (unsigned int j = 0; j < machine->adapter_count; j++)
		print_column(machine, j, machine->adapters[j].name);
	for (unsigned int i = 0; i < machine->gpu_count; i++) {
		struct answered answered;
		const struct adapter *chosen =
			adapter_of_gpu(result->host, &machine->gpus[i], &answered);

		label = clean_text(machine->gpus[i].label);
		printf("%-*s", width, label);
		free(label);
		for (unsigned int j = 0; j < machine->adapter_count; j++) {
			print_format_cell(result->host, &machine->gpus[i], &machine->adapters[j],
					  chosen == &machine->adapters[j], cell);
			print_column(machine, j, cell);
		}
	}
	printf("PIX one bridge, PXB several, PHB a host bridge, NODE a NUMA node, SYS across "
	       "sockets; * the "
	       "one to use\n"
	       "d dma-buf, p peermem, x data direct; capitals: memory was registered; - no way, ? "
	       "not "
	       "known\n");
}

void print_conclusion(const struct result *result)
{
	print_line("%s", result->conclusion);
}

void print_result(const struct result *result, bool verbose, bool colour)
{
	print_head(result);
	for (unsigned int i = 0; i < check_count; i++) {
		if (result->shown[i])
			print_check(result, i, verbose, colour);
	}
	if (!result->partial || verbose)
		print_matrix(result);
	putchar('\n');
	print_conclusion(result);
}
