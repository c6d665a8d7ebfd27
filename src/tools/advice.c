/* SPDX-License-Identifier: BSD-3-Clause */
/* advice.c -- goes through advice.def: which rows hold for a job, and what they then say */
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

/* A fact's text, or a counter's sum. */
static char *value_of(const struct job *job, const struct facts *facts, const char *key)
{
	const char *text = json_string_value(json_object_get(facts->texts, key));

	return text ? text_of("%s", text) : text_of("%s", show(unit_of_key(key), job_total(job, key)).text);
}

/* Behind a key and a colon: "words for one|words for any other number". */
static char *words_for(const struct job *job, const struct facts *facts, const char *key, const char *words)
{
	char *number = text_of("%.*s", (int)(words - 1 - key), key), *value = value_of(job, facts, number);
	const char *several = strchrnul(words, '|');
	char *chosen = strcmp(value, "1") && *several ? text_of("%s", several + 1)
						      : text_of("%.*s", (int)(several - words), words);

	free(value);
	free(number);
	return chosen;
}

/* Puts what it stands for in the place of each {key}; freed by the caller. */
static char *fill_in(const struct job *job, const struct facts *facts, const char *text)
{
	char *filled = text_of("%s", ""), *longer, *key, *value;
	const char *open, *close, *colon;

	while ((open = strchr(text, '{')) && (close = strchr(open, '}'))) {
		key = text_of("%.*s", (int)(close - open - 1), open + 1);
		colon = strchr(key, ':');
		value = colon ? words_for(job, facts, key, colon + 1) : value_of(job, facts, key);
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

static void add_advice(json_t *list, const struct job *job, const struct facts *facts, const char *id,
		       enum weight weight, const char *what, const char *mend)
{
	char *filled_what = fill_in(job, facts, what), *filled_mend = fill_in(job, facts, mend);

	json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "id", id, "weight", weights[weight],
					      "text", filled_what, "mend", filled_mend));
	free(filled_what);
	free(filled_mend);
}

json_t *job_advice(const struct job *job)
{
	json_t *list = json_array();
	struct facts found, *facts = &found;

	facts_find(facts, job);
	for (enum weight now = ERROR; now <= HINT; now++) {
#define N(key) job_total(job, #key)
#define ADVICE(id, weight, condition, what, mend)                                                            \
	if (now == weight && (condition))                                                                    \
		add_advice(list, job, facts, #id, weight, what, mend);
#include "tools/advice.def"
#undef ADVICE
#undef N
	}
	facts_free(facts);
	return list;
}
