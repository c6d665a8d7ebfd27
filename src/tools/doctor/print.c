/* SPDX-License-Identifier: BSD-3-Clause */
/* print.c -- the printed diagnosis: conclusion, fixes, a line for each check, the matrix */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/doctor/checks.h"
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

	va_start(arguments, format);
	puts(clean(text_print(format, arguments)));
	va_end(arguments);
}

static void print_head(const struct diagnosis *diagnosis)
{
	const struct machine *machine = machine_of(diagnosis->host);
	const char *name = host_text(diagnosis->host, "identity/host"),
		   *program = host_text(diagnosis->host, "option/program");

	print_line("peerpin doctor  %s  %u GPU%s, %u adapter%s%s%s", name ? name : "unknown host",
		   machine->gpu_count, machine->gpu_count == 1 ? "" : "s", machine->adapter_count,
		   machine->adapter_count == 1 ? "" : "s", program ? "  " : "",
		   program ? program : "");
}

/* Prints each fix of results from `least` on once, with its first check; worst results first. */
static void print_fixes(const struct diagnosis *diagnosis, enum result least)
{
	char *printed = NULL;

	for (enum result result = RESULTS; result-- > least;) {
		for (unsigned int i = 0; i < check_count; i++) {
			const struct finding *finding = &diagnosis->findings[i];

			for (unsigned int j = 0; diagnosis->shown[i] && finding->result == result &&
						 j < finding->fix_count;
			     j++) {
				char *line = text_of("\n%s\n", finding->fixes[j]);

				if (!printed)
					puts("\nFixes");
				if (!printed || !strstr(printed, line))
					print_line("fix   %-15s  %s", checks[i].id,
						   finding->fixes[j]);
				list_append(&printed, "", line);
			}
		}
	}
}

/* Prints the installed document's path, or the path in the source tree if it is not installed. */
static void print_document(const char *link)
{
	char *installed = text_of(DOCDIR "/%.*s", (int)strcspn(link, "#"), link);

	print_line("%*smore: %s%s", INDENT, "", access(installed, R_OK) ? "" : DOCDIR "/", link);
}

static void print_check(const struct diagnosis *diagnosis, unsigned int which, bool verbose,
			bool colour)
{
	const struct finding *finding = &diagnosis->findings[which];
	const struct check *check = &checks[which];

	printf("%s%-4s%s", colour ? looks[finding->result].colour : "", looks[finding->result].sign,
	       colour ? "\033[0m" : "");
	print_line("  %-15s  %s", check->id, finding->text);
	if (!verbose)
		return;
	printf("%*sread: %s\n", INDENT, "", check->read);
	printf("%*swhy:  %s\n", INDENT, "", check->why);
	print_document(check->link);
}

/* Prints the selected results from `least` on, below the headings of their groups. */
static void print_checks(const struct diagnosis *diagnosis, enum result least, bool verbose,
			 bool colour)
{
	static const char *const headings[][2] = {
		{ "kernel", "Kernel and driver" }, { "gpu", "GPU" },
		{ "rdma", "RDMA stack" },	   { "limits", "Limits" },
		{ "path", "PCIe path" },	   { "probe", "Registration of GPU memory" },
		{ "software", "Software" },	   { "program", "Program" },
	};
	const char *group = "", *deep = host_text(diagnosis->host, "option/deep");

	for (unsigned int i = 0; i < check_count; i++) {
		bool asked = deep && !strcmp(checks[i].id, "probe");

		if (!diagnosis->shown[i] || (diagnosis->findings[i].result < least && !asked))
			continue;
		for (size_t k = 0; k < sizeof(headings) / sizeof(headings[0]); k++) {
			if (strcmp(group, checks[i].group) &&
			    !strcmp(headings[k][0], checks[i].group))
				printf("\n%s\n", headings[k][1]);
		}
		group = checks[i].group;
		print_check(diagnosis, i, verbose, colour);
	}
}

/* One line for each reason that several checks could not be made, one for the other checks. */
static void print_unknown(const struct diagnosis *diagnosis)
{
	static const char heading[] = "\nNot checked (-v lists every check)";
	bool headed = false;
	char *alone = NULL;

	for (unsigned int i = 0; i < check_count; i++) {
		const struct finding *finding = &diagnosis->findings[i];
		char *ids = NULL;

		for (unsigned int j = 0; j < check_count; j++) {
			if (!diagnosis->shown[j] || diagnosis->findings[j].result != UNKNOWN ||
			    finding->result != UNKNOWN ||
			    strcmp(diagnosis->findings[j].text, finding->text))
				continue;
			if (j < i) /* printed already */
				break;
			list_append(&ids, ", ", checks[j].id);
		}
		if (ids && strchr(ids, ',')) {
			if (!headed)
				puts(heading);
			headed = true;
			print_line("?     %s: %s", finding->text, ids);
		} else if (ids) {
			list_append(&alone, ", ", ids);
		}
	}
	if (alone && !headed)
		puts(heading);
	if (alone)
		print_line("?     for reasons that -v prints: %s", alone);
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

	printf("  %-*s%s", last ? 0 : width > 8 ? width : 8, clean(text), last ? "\n" : "");
}

static void print_matrix(struct host *host)
{
	const struct machine *machine = machine_of(host);
	struct support support;
	char cell[16];
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

		printf("%-*s", width, clean(gpu->label));
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
	bool all = verbose || diagnosis->partial;

	print_head(diagnosis);
	print_conclusion(diagnosis);
	print_fixes(diagnosis, verbose				       ? OK
			       : diagnosis->status == DOCTOR_UNDECIDED ? UNKNOWN
								       : WARN);
	print_checks(diagnosis, all ? OK : WARN, verbose, colour);
	if (!all)
		print_unknown(diagnosis);
	if (!diagnosis->partial || verbose)
		print_matrix(diagnosis->host);
	print_costs(diagnosis->host);
}
