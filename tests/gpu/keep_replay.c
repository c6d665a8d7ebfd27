/* SPDX-License-Identifier: BSD-3-Clause */
/* keep_replay.c -- repeat a recorded program's allocations and frees; tests/gpu/replay compares
 * processes
 *
 * Reads lines "a ID SIZE ..." and "f ID ..." from standard input, of device memory; "h" and "g" are
 * those of page-locked host memory. Prints a line for each result: its name and a number.
 */
#include <stdbool.h>
#include <string.h>

#include "keep.h"
#include "statistic.h"

#define MIB   ((size_t)1 << 20)
#define BLOCK (2 * MIB)

static struct memory {
	CUdeviceptr device;
	void *host;
	uint64_t bytes; /* of the device, as the driver counts them */
} * memory;
static size_t count; /* of `memory` */

static struct {
	uint64_t allocations, live, live_peak, bytes, bytes_peak, held_peak;
	double seconds; /* in the calls */
} total;

/* Memory above 1 MiB begins blocks of its own. */
static uint64_t driver_bytes(size_t size)
{
	return size > MIB ? (size + BLOCK - 1) / BLOCK * BLOCK : size;
}

static struct memory *memory_of(size_t id)
{
	size_t more = id < count ? 0 : id + 1 - count + count / 2;

	if (more) {
		memory = realloc(memory, (count + more) * sizeof(*memory));
		must(memory);
		memset(&memory[count], 0, more * sizeof(*memory));
		count += more;
	}
	return &memory[id];
}

static void raise_to(uint64_t *peak, uint64_t value)
{
	if (*peak < value)
		*peak = value;
}

static void allocate(struct memory *to, bool host, size_t size)
{
	double start = seconds();

	if (host)
		must_cuda(cuMemHostAlloc(&to->host, size, 0));
	else
		must_cuda(cuMemAlloc_v2(&to->device, size));
	total.seconds += seconds() - start;
	to->bytes = host ? 0 : driver_bytes(size);
	total.bytes += to->bytes;
	total.allocations++;
	raise_to(&total.live_peak, ++total.live);
	raise_to(&total.bytes_peak, total.bytes);
}

static void release(struct memory *from)
{
	double start = seconds();

	if (from->host)
		must_cuda(cuMemFreeHost(from->host));
	else
		must_cuda(cuMemFree_v2(from->device));
	total.seconds += seconds() - start;
	total.bytes -= from->bytes;
	total.live--;
	*from = (struct memory){ 0 };
}

/* False: the line is none of the format, or its memory is in another state. */
static bool replay(const char *line)
{
	unsigned long long id, size = 0;
	struct memory *of;
	char event = 0;
	int fields = sscanf(line, "%c %llu %llu", &event, &id, &size);
	bool is_live, allocates = event == 'a' || event == 'h';

	if (fields < 2 + allocates || !strchr("afhg", event) || id >> 32 || (allocates && !size))
		return false;
	of = memory_of(id);
	is_live = event == 'f'	 ? of->device
		  : event == 'g' ? of->host != NULL
				 : of->device || of->host;
	if (is_live == allocates)
		return false;
	if (allocates)
		allocate(of, event == 'h', size);
	else
		release(of);
	return true;
}

int main(void)
{
	bool preloaded = dlsym(RTLD_DEFAULT, "peerpin_statistic");
	CUcontext context;
	char line[256];

	must_cuda(cuInit(0));
	must_cuda(cuCtxCreate_v2(&context, 0, 0));
	for (unsigned long number = 1; fgets(line, sizeof(line), stdin); number++) {
		if (!replay(line)) {
			printf("line %lu: \"%.*s\": neither \"a ID SIZE\" nor \"f ID\" (host "
			       "memory: "
			       "\"h\" and \"g\"), or the allocation is live, or not live\n",
			       number, (int)strcspn(line, "\n"), line);
			return 2;
		}
		raise_to(&total.held_peak, total.bytes + (preloaded ? statistic("kept_bytes") : 0));
	}
	printf("ns\t%.0f\n", total.seconds * 1e9);
	printf("allocations\t%llu\n", (unsigned long long)total.allocations);
	printf("live\t%llu\n", (unsigned long long)total.live_peak);
	printf("live_bytes\t%llu\n", (unsigned long long)total.bytes_peak);
	printf("held_bytes\t%llu\n", (unsigned long long)total.held_peak);
	if (preloaded)
		printf("reused\t%llu\n", (unsigned long long)statistic("reused"));
	return 0;
}
