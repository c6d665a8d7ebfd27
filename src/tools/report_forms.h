/* SPDX-License-Identifier: BSD-3-Clause */
/* report_forms.h -- output forms of a report, each made from the object of report_json.c */
#ifndef PEERPIN_TOOLS_REPORT_FORMS_H
#define PEERPIN_TOOLS_REPORT_FORMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

void report_text(const json_t *report, FILE *out);
void report_prometheus(const json_t *report, FILE *out);
/* Writes one page that needs no other file and no network. Reports an error on standard error and
 * returns false. */
bool report_html(const json_t *report, const char *path, bool replace);

#endif
