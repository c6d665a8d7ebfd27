/* SPDX-License-Identifier: BSD-3-Clause */
/* traced.c -- appends a line for each call of the simulated driver to the file of SIM_TRACE
 *
 * A line has the function's name, and those of its first arguments that are alike in each run:
 * sizes, flags, and offsets in device memory.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sim/sim.h"

static void traced_add(FILE *file, uint64_t argument)
{
	for (int i = 0; i < sim_device_count; i++) {
		if (argument - sim_devices[i].base < sim_devices[i].memory) {
			fprintf(file, " +%llx",
				(unsigned long long)(argument - sim_devices[i].base));
			return;
		}
	}
	if (argument < UINT64_C(1) << 32)
		fprintf(file, " %llx", (unsigned long long)argument);
}

/* `arguments`: of the registers, the last one first. */
void traced_call(const char *name, const uint64_t arguments[6], int count);
void traced_call(const char *name, const uint64_t arguments[6], int count)
{
	static FILE *file;
	const char *path = getenv("SIM_TRACE");

	if (!path)
		return;
	if (!file)
		file = fopen(path, "a");
	fprintf(file, "%s", name);
	for (int i = 0; i < count && i < 6; i++)
		traced_add(file, arguments[5 - i]);
	fputc('\n', file);
	fflush(file);
}
