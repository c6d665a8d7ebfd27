/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_thrust.cu -- temporary memory of Thrust ("sort"), and lists whose sizes drift
 * ("neighbours", as Kokkos programs rebuild them): a checksum; seconds as an error line
 */
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/tabulate.h>
#include <thrust/unique.h>

struct mixed {
	uint64_t seed;

	__host__ __device__ uint32_t operator()(uint64_t i) const
	{
		uint64_t x = (i + seed) * 0x9e3779b97f4a7c15u;

		return (uint32_t)((x ^ x >> 29) * 0xbf58476d1ce4e5b9u >> 32);
	}
};

/* 24 to 55 neighbours of each particle, and drift. */
struct neighbours_of {
	uint64_t step;

	__host__ __device__ uint32_t operator()(uint64_t i) const
	{
		return 24 + mixed{ step / 3 }(i) % 32 + (uint32_t)(step % 50) / 10;
	}
};

static uint64_t sort_step(uint64_t step)
{
	thrust::device_vector<uint32_t> keys(1 << 20);

	thrust::tabulate(keys.begin(), keys.end(), mixed{ step });
	thrust::sort(keys.begin(), keys.end());
	keys.erase(thrust::unique(keys.begin(), keys.end()), keys.end());
	return thrust::reduce(keys.begin(), keys.end(), (uint64_t)0) + keys.size();
}

static uint64_t neighbours_step(uint64_t step, thrust::device_vector<uint32_t> &list)
{
	thrust::device_vector<uint32_t> counts(200000), starts(200000);
	uint64_t total;

	thrust::tabulate(counts.begin(), counts.end(), neighbours_of{ step });
	thrust::exclusive_scan(counts.begin(), counts.end(), starts.begin());
	total = starts.back() + counts.back();
	list = thrust::device_vector<uint32_t>(total + total / 8);
	thrust::tabulate(list.begin(), list.end(), mixed{ step });
	return thrust::reduce(list.begin(), list.begin() + total, (uint64_t)0);
}

int main(int count, char **arguments)
{
	bool sorts = count < 2 || !strcmp(arguments[1], "sort");
	auto begun = std::chrono::steady_clock::now();
	thrust::device_vector<uint32_t> list;
	uint64_t sum = 0;

	for (uint64_t step = 0; step < 1000; step++) {
		if (step == 10)
			begun = std::chrono::steady_clock::now();
		sum = sum * 31 + (sorts ? sort_step(step) : neighbours_step(step, list));
	}
	fprintf(stderr, "seconds %.3f\n",
		std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
	printf("sum %016llx\n", (unsigned long long)sum);
	return 0;
}
