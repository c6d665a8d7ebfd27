/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime.c -- allocations and frees of every kind by the CUDA runtime, and its reset; prints the
 * data read back */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(cudaError_t error, int line)
{
	if (error != cudaSuccess) {
		printf("line %d: %s\n", line, cudaGetErrorString(error));
		exit(1);
	}
}
#define CHECK(call) check((call), __LINE__)

static unsigned long long sum;

static void use(void *device, size_t size, int value)
{
	unsigned char *host = malloc(size);

	CHECK(cudaMemset(device, value, size));
	CHECK(cudaMemcpy(host, device, size, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < size; i++)
		sum += host[i];
	free(host);
}

/* Allocated and freed by a graph, which is captured and launched: no memory before the launch. */
static void capture(cudaStream_t stream)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	void *inside;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	CHECK(cudaMallocAsync(&inside, 1 << 20, stream));
	CHECK(cudaMemsetAsync(inside, 5, 1 << 20, stream));
	CHECK(cudaFreeAsync(inside, stream));
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 3; i++)
		CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

int main(void)
{
	void *plain[8], *pitched, *pool, *managed;
	cudaStream_t stream;
	size_t pitch;

	for (int round = 0; round < 3; round++) {
		CHECK(cudaStreamCreate(&stream));
		for (int i = 0; i < 8; i++) {
			CHECK(cudaMalloc(&plain[i], (size_t)1000 << i));
			use(plain[i], (size_t)1000 << i, i);
		}
		CHECK(cudaMallocPitch(&pitched, &pitch, 1000, 50));
		use(pitched, pitch * 50, 1);
		CHECK(cudaMallocAsync(&pool, 3000000, stream));
		CHECK(cudaStreamSynchronize(stream));
		use(pool, 3000000, 2);
		CHECK(cudaMallocManaged(&managed, 100000, cudaMemAttachGlobal));
		use(managed, 100000, 3);
		capture(stream);
		for (int i = 0; i < 6; i++)
			CHECK(cudaFree(plain[i]));
		CHECK(cudaFreeAsync(pool, stream));
		CHECK(cudaFreeAsync(plain[6], stream));
		CHECK(cudaFree(managed));
		CHECK(cudaFree(pitched));
		CHECK(cudaStreamDestroy(stream));
		/* The last one ends with the context. */
		CHECK(cudaDeviceReset());
		printf("round %d: %llu\n", round, sum);
	}
	return 0;
}
