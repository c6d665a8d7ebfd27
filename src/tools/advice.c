/* SPDX-License-Identifier: BSD-3-Clause */
/* advice.c -- advice of a report: evaluates each row of advice.def, errors first */
#include <stdlib.h>
#include <string.h>

#include "tools/advice_facts.h"
#include "tools/jobs.h"
#include "tools/units.h"

enum weight {
	ERROR,
	WARN,
	HINT,
};

static const char *const weights[] = { "error", "warn", "hint" };

/* Return the text of a fact, or else the sum of a counter. The caller frees the text. */
static char *advice_value(const struct job *job, const struct facts *facts, const char *key)
{
	const char *text = json_string_value(json_object_get(facts->texts, key));

	return text ? text_of("%s", text)
		    : text_of("%s", show(unit_of_key(key), job_total(job, key)).text);
}

/* Resolve {key:one|several}, where `words` points behind the colon: the first form for 1, the
 * second for other numbers. The caller frees the text. */
static char *advice_plural(const struct job *job, const struct facts *facts, const char *key,
			   const char *words)
{
	char *number = text_of("%.*s", (int)(words - 1 - key), key),
	     *value = advice_value(job, facts, number);
	const char *several = strchrnul(words, '|');
	char *chosen = strcmp(value, "1") && *several
			       ? text_of("%s", several + 1)
			       : text_of("%.*s", (int)(several - words), words);

	free(value);
	free(number);
	return chosen;
}

/* Expand each {key}. The caller frees the text. */
static char *advice_expand(const struct job *job, const struct facts *facts, const char *text)
{
	char *filled = text_of("%s", ""), *longer, *key, *value;
	const char *open, *close, *colon;

	while ((open = strchr(text, '{')) && (close = strchr(open, '}'))) {
		key = text_of("%.*s", (int)(close - open - 1), open + 1);
		colon = strchr(key, ':');
		value = colon ? advice_plural(job, facts, key, colon + 1)
			      : advice_value(job, facts, key);
		longer = text_of("%s%.*s%s", filled, (int)(open - text), text, value);
		free(filled);
		free(value);
		free(key);
		filled = longer;
		text = close + 1;
	}
	longer = text_of("%s%s", filled, text);
	free(filled);
	return longer;
}

static void advice_add(json_t *list, const struct job *job, const struct facts *facts,
		       const char *id, enum weight weight, const char *text, const char *fix)
{
	char *filled_text = advice_expand(job, facts, text),
	     *filled_fix = advice_expand(job, facts, fix);

	json_array_append_new(list,
			      json_pack("{s:s, s:s, s:s, s:s}", "id", id, "weight", weights[weight],
					"text", filled_text, "mend", filled_fix));
	free(filled_text);
	free(filled_fix);
}

json_t *job_advice(const struct job *job)
{
	json_t *list = json_array();
	struct facts found, *facts = &found;

	facts_find(facts, job);
	for (enum weight now = ERROR; now <= HINT; now++) {
#define N(key) job_total(job, #key)
#define ADVICE(id, weight, condition, text, fix)                                                   \
	if (now == weight && (condition))                                                          \
		advice_add(list, job, facts, #id, weight, text, fix);
#include "tools/advice.def"
#undef ADVICE
#undef N
	}
	facts_free(facts);
	return list;
}
