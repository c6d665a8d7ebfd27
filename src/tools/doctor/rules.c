/* SPDX-License-Identifier: BSD-3-Clause */
/* rules.c -- texts, conditions, and the rules of the checks */
#include "tools/doctor/rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/units.h"

#define NAME_SIZE 40 /* of a value */

/* ---- texts ---- */

/* The text of one "{...}", without the braces. */
static const char *rules_expand_name(const struct subject *subject, char *inner)
{
	size_t length = strcspn(inner, "|?:");
	char what = inner[length], *more = inner + length + 1, *sign;
	const char *value;

	inner[length] = '\0';
	if (what == ':' && !strcmp(more, "message"))
		return value_reading(subject, inner)->text;
	if (what == ':')
		return text_of("%s", host_error_name(value_reading(subject, inner)->error));
	value = value_of(subject, inner);
	if (what == '|')
		return value ? value : more;
	if (what != '?')
		return value ? value : "";
	if (!value || !*value)
		return "";
	sign = strchr(more, '%');
	return sign ? text_of("%.*s%s%s", (int)(sign - more), more, value, sign + 1) : more;
}

const char *rules_expand(const struct subject *subject, const char *pattern)
{
	char *text = NULL;

	for (const char *at = pattern, *open; *at;) {
		size_t length;

		open = strchr(at, '{');
		if (!open) {
			list_append(&text, "", at);
			break;
		}
		length = strcspn(open, "}");
		list_append(&text, "", text_of("%.*s", (int)(open - at), at));
		list_append(&text, "",
			    rules_expand_name(subject, text_of("%.*s", (int)length - 1, open + 1)));
		at = open + length + (open[length] != '\0');
	}
	return text ? text : "";
}

/* ---- conditions ---- */

/* "128", "256M", or a value's name. */
static bool rules_bound(const struct subject *subject, const char *text, int64_t *bound)
{
	char *end;

	if (*text < '0' || *text > '9')
		return value_number(subject, text, bound);
	*bound = strtoll(text, &end, 10);
	*bound <<= *end == 'G' ? 30 : *end == 'M' ? 20 : *end == 'K' ? 10 : 0;
	return true;
}

static bool rules_compare(const struct subject *subject, const char *name, char sign,
			  const char *other)
{
	int64_t number, bound;

	return value_number(subject, name, &number) && rules_bound(subject, other, &bound) &&
	       (sign == '<' ? number < bound : number > bound);
}

/* "515.43.4,525.105.17)": from the first version on, before the second. The second may be a value's
 * name. */
static bool rules_is_between(const struct subject *subject, const char *name, const char *versions)
{
	const char *text = value_of(subject, name), *second = strchr(versions, ',') + 1;
	char end[NAME_SIZE];
	const char *bounds[] = { versions, text, end };
	int numbers[3][3] = { { 0 } }, order[2] = { 0 };

	snprintf(end, sizeof(end), "%.*s", (int)strcspn(second, ")"), second);
	if (*end < '0' || *end > '9')
		bounds[2] = value_of(subject, end);
	if (!text || !bounds[2])
		return false;
	for (int i = 0; i < 3; i++) {
		const char *at = bounds[i] + strcspn(bounds[i], "0123456789");

		(void)sscanf(at, "%d.%d.%d", &numbers[i][0], &numbers[i][1], &numbers[i][2]);
	}
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 2; k++)
			order[k] = order[k] ? order[k] : numbers[k + 1][i] - numbers[k][i];
	}
	return order[0] >= 0 && order[1] > 0;
}

static bool rules_has_error(const struct reading *reading, const char *which)
{
	if (!reading->error)
		return false;
	return !strcmp(which, "error")	   ? true
	       : !strcmp(which, "absent")  ? reading->error == ENOENT
	       : !strcmp(which, "refused") ? reading_is_refused(reading)
					   : !strcmp(which, host_error_name(reading->error));
}

/* One term, of which *text is the rest of the condition behind it. */
static bool rules_term(const struct subject *subject, const char **text)
{
	char term[200], *name = term, *operand, sign;
	bool negated = **text == '!', met;
	size_t length = strcspn(*text, " |");
	const char *value;

	snprintf(term, sizeof(term), "%.*s", (int)length, *text);
	*text += length;
	name += negated;
	operand = name + strcspn(name, "=~<>:[");
	sign = *operand;
	*operand = '\0';
	operand += sign != '\0';
	if (sign == '<' || sign == '>') {
		met = rules_compare(subject, name, sign, operand);
	} else if (sign == '[') {
		met = rules_is_between(subject, name, operand);
	} else if (sign == ':') {
		met = rules_has_error(value_reading(subject, name), operand);
	} else {
		value = value_of(subject, name);
		met = value && (!sign	      ? true
				: sign == '=' ? !strcmp(value, operand)
					      : strstr(value, operand) != NULL);
	}
	return met != negated;
}

bool rules_match(const struct subject *subject, const char *condition)
{
	bool met = true;

	for (const char *at = condition; met && *at; at += strspn(at, " ")) {
		met = rules_term(subject, &at);
		while (*at == '|') {
			at++;
			if (met)
				at += strcspn(at, " |");
			else
				met = rules_term(subject, &at);
		}
	}
	return met;
}

/* ---- rules ---- */

enum kind {
	ROW_CHECK,
	ROW_EACH,  /* rules for each subject of a scope */
	ROW_CHAIN, /* next rules, whatever the last ones reported */
	ROW_RULE,  /* reports, and ends the chain */
	ROW_ALSO,  /* reports */
	ROW_STOP,  /* reports, and ends the check */
	ROW_FIX,   /* adds a fix alone */
	ROW_CALL
};

/* PART: of one method, without which the other is needed. SPARE_PART: unreadable. */
enum form { PLAIN, PART, PART_TOO, SPARE_PART };

static const struct row {
	enum kind kind;
	const char *condition;
	enum result result;
	const char *text, *fix;
	const char *measured; /* value: words of a measurement that refutes the rule */
	enum form form;
	enum method other; /* of PART: finding_without */
	void (*call)(struct host *host, struct finding *finding);
	bool (*next)(struct subject *subject);
} rows[] = {
#define ROW(a_kind, a_condition, ...) { .kind = a_kind, .condition = a_condition, __VA_ARGS__ },
#define REPORT(a_kind, condition, a_result, a_text, a_fix, ...)                                    \
	ROW(a_kind, condition, .result = a_result, .text = a_text, .fix = a_fix, __VA_ARGS__)
#define CHECK(id, group, privilege, read, why, link) ROW(ROW_CHECK, id)
#define EACH(scope)				     ROW(ROW_EACH, "", .next = next_##scope)
#define CHAIN					     ROW(ROW_CHAIN, "")
#define CALL(condition, function)		     ROW(ROW_CALL, condition, .call = function)
#define FIX(condition, fix)			     REPORT(ROW_FIX, condition, OK, NULL, fix)
#define END(condition)				     ROW(ROW_RULE, condition)
#define RULE(condition, result, text, fix)	     REPORT(ROW_RULE, condition, result, text, fix)
#define ALSO(condition, result, text, fix)	     REPORT(ROW_ALSO, condition, result, text, fix)
#define STOP(condition, result, text, fix)	     REPORT(ROW_STOP, condition, result, text, fix)
#define IMPLIED(condition, by, result, text, fix)                                                  \
	REPORT(ROW_RULE, condition, result, text, fix, .measured = by)
#define ALSO_IMPLIED(condition, by, result, text, fix)                                             \
	REPORT(ROW_ALSO, condition, result, text, fix, .measured = by)
#define WITHOUT(condition, by, method, text, fix)                                                  \
	REPORT(ROW_RULE, condition, FAIL, text, fix, .measured = by, .form = PART,                 \
	       .other = METHOD_##method)
#define WITHOUT_TOO(condition, by, method, text, fix)                                              \
	REPORT(ROW_RULE, condition, FAIL, text, fix, .measured = by, .form = PART_TOO,             \
	       .other = METHOD_##method)
#define SPARE(condition, text, fix)                                                                \
	REPORT(ROW_RULE, condition, UNKNOWN, text, fix, .form = SPARE_PART)
#include "tools/doctor/doctor_checks.def"
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void rules_report_without(const struct subject *subject, const struct row *row,
				 const char *text, const char *fix)
{
	struct finding *finding = subject->finding;
	enum result before = row->form == PART_TOO ? finding->result : OK;

	finding_without(subject->host, finding,
			row->measured ? value_of(subject, row->measured) : NULL, row->other, fix,
			text);
	if (before > finding->result)
		finding->result = before;
}

static void rules_report(const struct subject *subject, const struct row *row)
{
	struct finding *finding = subject->finding;
	const char *text = row->text ? rules_expand(subject, row->text) : NULL;
	const char *fix = row->fix ? rules_expand(subject, row->fix) : "";
	const char *spare = row->form == SPARE_PART ? value_of(subject, "spare") : NULL;

	fix = *fix ? fix : NULL;
	if (row->call) {
		row->call(subject->host, finding);
	} else if (row->form == PART || row->form == PART_TOO) {
		rules_report_without(subject, row, text, fix);
	} else if (text) {
		if (spare)
			text = text_of("%s; not needed, %s works", text, spare);
		finding_implied(finding, subject->item,
				row->measured ? value_of(subject, row->measured) : NULL,
				spare ? NOT_NEEDED : row->result, fix, text);
	} else if (fix) {
		finding_fix(finding, fix);
	}
}

/* Applies the rows of one block to a subject. False: a row ended the check. */
static bool rules_apply(const struct subject *subject, const struct row *row)
{
	bool ended = false;

	for (; row < rows + ROWS && row->kind != ROW_CHECK && row->kind != ROW_EACH; row++) {
		if (row->kind == ROW_CHAIN)
			ended = false;
		else if (!ended && rules_match(subject, row->condition)) {
			rules_report(subject, row);
			ended = row->kind == ROW_RULE;
			if (row->kind == ROW_STOP)
				return false;
		}
	}
	return true;
}

void rules_run(struct host *host, struct finding *finding, const char *check)
{
	const struct row *row = rows;
	bool goes_on = true;

	while (row->kind != ROW_CHECK || strcmp(row->condition, check))
		row++;
	for (row++; goes_on && row < rows + ROWS && row->kind != ROW_CHECK; row++) {
		struct subject subject = { .host = host, .check = check, .finding = finding };

		if (row->kind == ROW_EACH) {
			while (goes_on && row->next(&subject))
				goes_on = rules_apply(&subject, row + 1);
		} else if (row[-1].kind == ROW_CHECK) {
			goes_on = rules_apply(&subject, row);
		}
	}
}
