/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_offload.c -- steps of a stencil by OpenMP offload, whose regions map their arrays each time:
 * each is an allocation, and a free at its end; a checksum, and seconds as an error line
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#define STEPS 300

static void fluxes(size_t count, const double *restrict state, double *restrict flux)
{
#pragma omp target teams distribute parallel for map(to : state [0:count]) map(from : flux [0:count])
	for (size_t i = 0; i < count; i++) {
		size_t left = i ? i - 1 : count - 1, right = i + 1 < count ? i + 1 : 0;

		flux[i] = 0.25 * state[left] - 0.5 * state[i] + 0.25 * state[right];
	}
}

static void advance(size_t count, double *restrict state, const double *restrict flux)
{
#pragma omp target teams distribute parallel for map(tofrom : state [0:count]) map(to : flux [0:count])
	for (size_t i = 0; i < count; i++)
		state[i] += flux[i];
}

/* The cells of a step: their number drifts, as that of particles does. */
static size_t cells_of(int step, size_t most)
{
	return most - (size_t)(step * 7919 % 100) * (most / 1000);
}

int main(void)
{
	size_t most = 1 << 19;
	double *state = malloc(most * sizeof(*state)), *flux = malloc(most * sizeof(*flux));
	double sum = 0, start;

	if (!state || !flux || omp_get_num_devices() < 1) {
		fprintf(stderr, "keep_offload: no memory, or no device for OpenMP offload\n");
		return 1;
	}
	for (size_t i = 0; i < most; i++)
		state[i] = (double)(i * 2654435761u % 1024);
	/* The first region loads the device's code. */
	fluxes(most, state, flux);
	start = omp_get_wtime();
	for (int step = 0; step < STEPS; step++) {
		fluxes(cells_of(step, most), state, flux);
		advance(cells_of(step, most), state, flux);
	}
	fprintf(stderr, "seconds %.4f\n", omp_get_wtime() - start);
	for (size_t i = 0; i < most; i++)
		sum += state[i] * (double)(i % 7 + 1);
	printf("%.17g\n", sum);
	free(state);
	free(flux);
	return 0;
}
