/* SPDX-License-Identifier: BSD-3-Clause */
/* results.c -- counts and times of a pattern, as JSON of each rank */
#include <inttypes.h>
#include <stdio.h>

#include "patterns.h"

static void print_results(FILE *file)
{
	const struct counts *all = counts();

	fprintf(file, "{\n  \"program\": \"patterns\",\n  \"pattern\": \"%s\",\n", job.pattern);
	fprintf(file, "  \"bytes\": %zu,\n", job.bytes);
	fprintf(file, "  \"checked_bytes\": %" PRIu64 ",\n  \"wrong\": %" PRIu64 ",\n",
		all->checked_bytes, all->wrong);
	fprintf(file, "  \"addresses_reused\": %" PRIu64 ",\n", all->addresses_reused);
	fprintf(file, "  \"allocation_ns\": %" PRIu64 ",\n", all->allocation_ns);
	fprintf(file, "  \"first_send_ns\": %" PRIu64 ",\n", all->send_ns[0]);
	fprintf(file, "  \"send_ns\": [");
	for (int round = 1; round <= all->rounds; round++)
		fprintf(file, "%s%" PRIu64, round > 1 ? ", " : "", all->send_ns[round]);
	fprintf(file, "]\n}\n");
}

void write_results(void)
{
	char name[4096];
	FILE *file;

	if (!job.json)
		return;
	if (job.cases == 1)
		snprintf(name, sizeof(name), "%s.%d", job.json, job.rank);
	else
		snprintf(name, sizeof(name), "%s.%s.%zu.%d.%d", job.json, job.pattern, job.bytes,
			 job.repeat, job.rank);
	file = fopen(name, "w");
	if (!file)
		fail(name, "cannot be written");
	print_results(file);
	if (fclose(file))
		fail(name, "cannot be written");
}
