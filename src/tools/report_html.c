/* SPDX-License-Identifier: BSD-3-Clause */
/* report_html.c -- the report as one page: report_page.html with Chart.js and the report inserted
 *
 * The page refers to no other file and no network. Record contents are data for the page's script,
 * which makes only text from them. Each '<' in the data is an escape, so that no text can end the
 * script element.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/output_file.h"
#include "tools/report_forms.h"
#include "tools/units.h"

#define CHART_FILE "chart.min.js"
#define PAGE_FILE  "report_page.html"

/* Marks in the page, in this order. */
#define REPORT_MARK "/*REPORT*/"
#define CHART_MARK  "/*CHART_JS*/"

static char *report_html_read_text(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t room = 0;

	if (!file)
		return NULL;
	/* Read up to a zero byte: text has none, so this is the whole file. */
	if (getdelim(&text, &room, 0, file) <= 0) {
		free(text);
		text = NULL;
	}
	fclose(file);
	return text;
}

/* Search beside the program (build folder), in a moved installation, then in the configured
 * folder. */
static char *report_html_read_data(const char *name)
{
	char self[PATH_MAX] = "";
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	length = length > 0 ? strrchr(self, '/') - self : 0;
	return report_html_read_text(text_of("%.*s/%s", (int)length, self, name))
		       ?: report_html_read_text(text_of("%.*s/../../share/" PACKAGE "/%s",
							(int)length, self, name))
		       ?: report_html_read_text(text_of(TOOLS_DATADIR "/%s", name));
}

/* Escape "</script": inside a script element, only its end tag has a meaning. */
static void report_html_print_script(FILE *out, const char *script)
{
	const char *end;

	while ((end = strcasestr(script, "</script"))) {
		fprintf(out, "%.*s<\\/", (int)(end - script), script);
		script = end + 2;
	}
	fputs(script, out);
}

static void report_html_print_json(FILE *out, const json_t *report)
{
	char *text = json_dumps(report, JSON_COMPACT);

	for (const char *at = text; at && *at; at++) {
		if (*at == '<')
			fputs("\\u003c", out);
		else
			fputc(*at, out);
	}
	free(text);
}

/* Print the page with both marks replaced by their contents. */
static void report_html_print_page(FILE *out, const char *page, const char *chart,
				   const json_t *report)
{
	const char *report_at = strstr(page, REPORT_MARK), *chart_at = strstr(page, CHART_MARK);

	fprintf(out, "%.*s", (int)(report_at - page), page);
	report_html_print_json(out, report);
	report_at += strlen(REPORT_MARK);
	fprintf(out, "%.*s", (int)(chart_at - report_at), report_at);
	report_html_print_script(out, chart);
	fputs(chart_at + strlen(CHART_MARK), out);
}

static bool report_html_write_page(const char *path, bool replace, const char *page,
				   const char *chart, const json_t *report)
{
	struct output_file file = { .tool = "report", .path = path };

	if (!output_file_open(&file, replace, 0644))
		return false;
	report_html_print_page(file.to, page, chart, report);
	return output_file_close(&file);
}

bool report_html(const json_t *report, const char *path, bool replace)
{
	char *chart = report_html_read_data(CHART_FILE), *page = report_html_read_data(PAGE_FILE);
	bool done = false;

	if (!chart)
		fprintf(stderr,
			"peerpin report: --html requires Chart.js, which was missing when "
			"peerpin was built: put its chart.min.js (version 3) into " TOOLS_DATADIR
			"\n");
	else if (!page || !strstr(page, REPORT_MARK) || !strstr(page, CHART_MARK))
		fprintf(stderr,
			"peerpin report: " PAGE_FILE " is missing from " TOOLS_DATADIR "\n");
	else
		done = report_html_write_page(path, replace, page, chart, report);
	free(chart);
	free(page);
	return done;
}
