/* SPDX-License-Identifier: BSD-3-Clause */
/* report_html.c -- the report as one page: report_page.html with Chart.js and the report inserted
 *
 * The page refers to no other file and no network. Record contents are data for the page's script,
 * which makes only text from them. Each '<' in the data is an escape, so that no text can end the
 * script element.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/report_forms.h"
#include "tools/units.h"

#define CHART_FILE "chart.min.js"
#define PAGE_FILE  "report_page.html"

static char *report_html_read_text(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t length = 0, room = 0;

	if (!file)
		return NULL;
	/* Read up to a zero byte: text has none, so this is the whole file. */
	if (getdelim(&text, &room, 0, file) < 0) {
		free(text);
		text = NULL;
	}
	length = text ? strlen(text) : 0;
	fclose(file);
	if (!length) {
		free(text);
		text = NULL;
	}
	return text;
}

/* Search beside the program (build folder), in a moved installation, then in the configured
 * folder. */
static char *report_html_read_data(const char *name)
{
	char self[PATH_MAX] = "", *paths[3], *text = NULL, *slash;
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[length > 0 ? length : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	paths[0] = text_of("%s/%s", self, name);
	paths[1] = text_of("%s/../../share/" PACKAGE "/%s", self, name);
	paths[2] = text_of(TOOLS_DATADIR "/%s", name);
	for (size_t i = 0; i < 3; i++) {
		if (!text)
			text = report_html_read_text(paths[i]);
		free(paths[i]);
	}
	return text;
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

/* Print the page with each mark replaced by its content. */
static void report_html_print_page(FILE *out, const char *page, const char *chart,
				   const json_t *report)
{
	static const char chart_mark[] = "/*CHART_JS*/", data_mark[] = "/*REPORT*/";
	const char *mark;

	while ((mark = strstr(page, "/*"))) {
		fprintf(out, "%.*s", (int)(mark - page), page);
		if (!strncmp(mark, chart_mark, strlen(chart_mark))) {
			report_html_print_script(out, chart);
			page = mark + strlen(chart_mark);
		} else if (!strncmp(mark, data_mark, strlen(data_mark))) {
			report_html_print_json(out, report);
			page = mark + strlen(data_mark);
		} else {
			fputs("/*", out);
			page = mark + 2;
		}
	}
	fputs(page, out);
}

/* Follow no link. Replace a file only on request, atomically. */
static bool report_html_write_page(const char *path, bool replace, const char *page,
				   const char *chart, const json_t *report)
{
	char *name = text_of("%s%s", path, replace ? ".new" : "");
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644), error = 0;
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

	if (!out) {
		if (errno == EEXIST && !replace)
			fprintf(stderr,
				"peerpin report: %s is there already (--force replaces it)\n",
				path);
		else
			fprintf(stderr, "peerpin report: %s: %s\n", name, strerror(errno));
		free(name);
		return false;
	}
	errno = 0;
	report_html_print_page(out, page, chart, report);
	if (fflush(out) || ferror(out))
		error = errno ? errno : EIO;
	if (fclose(out) && !error)
		error = errno;
	if (!error && replace && rename(name, path))
		error = errno;
	if (error) {
		fprintf(stderr, "peerpin report: %s: %s\n", path, strerror(error));
		unlink(name);
	}
	free(name);
	return !error;
}

bool report_html(const json_t *report, const char *path, bool replace)
{
	char *chart = report_html_read_data(CHART_FILE), *page = report_html_read_data(PAGE_FILE);
	bool done = false;

	if (!chart)
		fprintf(stderr, "peerpin report: --html needs Chart.js, which was not there when "
				"peerpin was "
				"built: put its "
				"chart.min.js (version 3) into " TOOLS_DATADIR "\n");
	else if (!page)
		fprintf(stderr,
			"peerpin report: " PAGE_FILE " is missing from " TOOLS_DATADIR "\n");
	else
		done = report_html_write_page(path, replace, page, chart, report);
	free(chart);
	free(page);
	return done;
}
