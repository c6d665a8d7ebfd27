/* SPDX-License-Identifier: BSD-3-Clause */
/* observed.h -- files of peerpin observe: merged, judged and printed
 *
 * Input is untrusted: a file with a number or text of another type than expected is refused as a
 * whole.
 */
#ifndef PEERPIN_TOOLS_OBSERVED_H
#define PEERPIN_TOOLS_OBSERVED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define OBSERVED_SCHEMA "peerpin-observe/1"

/* True if the file is one of peerpin observe. */
bool observed_is_file(const char *path);

struct observed_files {
	const char **paths; /* of malloc */
	size_t count;
};

/* Adds the words, in place of a folder the files of peerpin observe in it, if any. */
void observed_list(struct observed_files *files, char *const *words, int count);

/* Merge the processes of the files into one object of sums, a new reference. Reports files that
 * cannot be used on standard error; `*problems` is their number. */
json_t *observed_read(const struct observed_files *files, int *problems);

/* What peerpin would save of the time in calls, in nanoseconds over all processes: computed by the
 * library's own rules over the recorded calls. */
struct prediction {
	int64_t low, high;
};

struct prediction observed_predict(const json_t *sums, bool with_keep);

/* Nanoseconds of all frees of device memory in which the GPU's work was waited for, by the sample;
 * -1: no free was sampled. */
int64_t observed_waiting(const json_t *sums);

/* The report on sums, a new reference: findings, worst first, with caller and advice; predictions.
 */
json_t *observed_judge(json_t *sums);

void observed_print(const json_t *report, FILE *out);
void observed_print_csv(const json_t *report, FILE *out);
void observed_print_comparison(const json_t *before, const json_t *after, FILE *out);

#endif
