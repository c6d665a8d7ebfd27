/* SPDX-License-Identifier: BSD-3-Clause */
/* histograms.c -- histograms summed over a job's ranks; bucket i counts values whose log2 is i */
#include "tools/advice_facts.h"

#include <string.h>

void job_histogram(const struct job *job, const char *name, int64_t buckets[64])
{
	memset(buckets, 0, 64 * sizeof(*buckets));
	for (size_t i = 0; i < job->count; i++) {
		const json_t *histograms = json_object_get(job->ranks[i]->json, "histograms"),
			     *count;
		size_t at;

		json_array_foreach(json_object_get(histograms, name), at, count) {
			buckets[at] = add_capped(buckets[at], json_integer_value(count));
		}
	}
}

static json_t *histograms_trim(const int64_t buckets[64])
{
	json_t *list = json_array();
	size_t count = 64;

	while (count && !buckets[count - 1])
		count--;
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_integer(buckets[i]));
	return list;
}

json_t *job_histograms(const struct job *job)
{
	json_t *all = json_object(), *value;
	const char *name;
	int64_t buckets[64];

	for (size_t i = 0; i < job->count; i++) {
		json_object_foreach(json_object_get(job->ranks[i]->json, "histograms"), name,
				    value) {
			if (json_object_get(all, name))
				continue;
			job_histogram(job, name, buckets);
			json_object_set_new(all, name, histograms_trim(buckets));
		}
	}
	return all;
}
