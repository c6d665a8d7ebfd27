/* SPDX-License-Identifier: BSD-3-Clause */
/* libfabric_random.c -- two processes exchange GPU memory over libfabric: buffers of any size,
 * freed and allocated while others stay
 *
 * As MPI libraries do over libfabric, each message's memory is registered before it and closed
 * after it (fi_mr_regattr with FI_HMEM_CUDA): libfabric's cache keeps the registration, and must
 * find out that memory at an address is another than before. Messages are in flight at once, in
 * both directions. A message's content depends on sender, round, channel and place; a receive
 * buffer is filled beforehand with bytes that all differ.
 *
 * A failing call ends the process with status 1 and a line on standard error, a wrong byte with
 * status 1 at the end.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libfabric_endpoint.h"

#define LIVE	  8 /* channels at a time */
#define REPLACED  2 /* of them, in each round */
#define EXCHANGED 4 /* the replaced ones, and others that stay */
#define UNIT	  sizeof(uint32_t)

/* A message to the peer and one from it, of one size. */
struct channel {
	CUdeviceptr send, receive;
	size_t bytes; /* of each buffer */
	size_t from;  /* the message is the rest of the buffer */
	int number;
};

static bool is_server, spoil;
static int rounds = 60;
static size_t largest = 4194304;
static uint64_t messages, checked_bytes, wrong_bytes;

/* ---- contents ---- */

static uint64_t mix(uint64_t word)
{
	word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
	word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
	return word ^ (word >> 31);
}

static size_t bytes_of(const struct channel *channel)
{
	return channel->bytes - channel->from;
}

/* `flip` is combined with each word. */
static unsigned char *make(const struct channel *channel, bool of_server, int round, uint32_t flip)
{
	size_t words = bytes_of(channel) / UNIT;
	uint32_t *made = malloc(words * UNIT);
	uint64_t seed = mix((uint64_t)round << 32 | (uint32_t)channel->number << 1 | of_server);

	SYSTEM(made != NULL);
	for (size_t i = 0; i < words; i++)
		made[i] = (uint32_t)((seed + i) * 0x9e3779b97f4a7c15u >> 32) ^ flip;
	return (unsigned char *)made;
}

static void fill(const struct channel *channel, int round)
{
	unsigned char *sent = make(channel, is_server, round, 0);
	unsigned char *poison = make(channel, !is_server, round, ~0u);

	CUDA(cuMemcpyHtoD(channel->send + channel->from, sent, bytes_of(channel)));
	CUDA(cuMemcpyHtoD(channel->receive + channel->from, poison, bytes_of(channel)));
	free(sent);
	free(poison);
}

static void check(const struct channel *channel, int round)
{
	size_t bytes = bytes_of(channel), wrong = 0, first = 0;
	unsigned char *expected = make(channel, !is_server, round, 0), *found = malloc(bytes);

	SYSTEM(found != NULL);
	CUDA(cuMemcpyDtoH(found, channel->receive + channel->from, bytes));
	if (spoil && round == rounds)
		found[bytes / 2] ^= 1;
	for (size_t i = 0; i < bytes; i++) {
		if (found[i] != expected[i] && !wrong++)
			first = i;
	}
	if (wrong)
		fprintf(stderr,
			"libfabric_random: %s: round %d: channel %d: %zu of %zu bytes are wrong, "
			"first that at %zu: 0x%02x in place of 0x%02x\n",
			is_server ? "server" : "client", round, channel->number, wrong, bytes,
			first, found[first], expected[first]);
	messages++;
	checked_bytes += bytes;
	wrong_bytes += wrong;
	free(expected);
	free(found);
}

/* ---- rounds ---- */

static uint64_t any_number(int seed)
{
	return mix((uint32_t)seed + 0x10001u);
}

/* Equal in both processes: from 1 KiB or half of the bytes to `largest`, a multiple of 4, and
 * rarely of the unit to which clients round. */
static size_t any_size(int seed)
{
	uint64_t number = any_number(seed);
	size_t least = 1024, most = largest;

	for (; most > 2 * least && number % 2; number /= 2)
		most /= 2;
	least = most > 2 * least ? most / 2 : least < most ? least : most;
	return (least + number % (most - least + 1)) / UNIT * UNIT;
}

/* Messages of every third channel begin inside their buffers. */
static void allocate(struct channel *channel, int number, int seed)
{
	channel->number = number;
	channel->bytes = any_size(seed);
	channel->from = number % 3 ? 0 : channel->bytes / 4 / UNIT * UNIT;
	CUDA(cuMemAlloc(&channel->send, channel->bytes));
	CUDA(cuMemAlloc(&channel->receive, channel->bytes));
}

static void release(struct channel *channel)
{
	CUDA(cuMemFree(channel->send));
	CUDA(cuMemFree(channel->receive));
}

static uint64_t tag_of(const struct channel *channel, int round)
{
	return (uint64_t)round << 8 | (uint64_t)channel->number;
}

static void exchange(struct channel *const *channels, int count, int round)
{
	struct transfer received[LIVE], sent[LIVE];

	for (int i = 0; i < count; i++)
		fill(channels[i], round);
	for (int i = 0; i < count; i++)
		transfer_receive(&received[i], channels[i]->receive + channels[i]->from,
				 bytes_of(channels[i]), tag_of(channels[i], round));
	for (int i = 0; i < count; i++)
		transfer_send(&sent[i], channels[i]->send + channels[i]->from,
			      bytes_of(channels[i]), tag_of(channels[i], round));
	for (int i = 0; i < count; i++) {
		transfer_wait(&received[i]);
		transfer_wait(&sent[i]);
	}
	for (int i = 0; i < count; i++)
		check(channels[i], round);
}

/* Round 0 uses all buffers: peerpin does not register sizes ahead that were freed unused. */
static void run(void)
{
	struct channel channels[LIVE], *chosen[LIVE];

	for (int i = 0; i < LIVE; i++)
		allocate(&channels[i], i, i);
	for (int round = 0; round <= rounds; round++) {
		int first = (int)(any_number(round) % LIVE);

		for (int i = 0; i < LIVE; i++)
			chosen[i] = &channels[(first + i) % LIVE];
		for (int i = 0; round && i < REPLACED; i++)
			release(chosen[i]);
		for (int i = 0; round && i < REPLACED; i++)
			allocate(chosen[i], chosen[i]->number, LIVE * round + i);
		exchange(chosen, round ? EXCHANGED : LIVE, round);
	}
	for (int i = 0; i < LIVE; i++)
		release(&channels[i]);
}

static void usage(void)
{
	fputs("usage: libfabric_random [--rounds N] [--bytes LARGEST] [--port PORT] [--spoil] "
	      "[HOST]\n"
	      "Without HOST it waits for a process with HOST, which must be this one. --spoil "
	      "changes "
	      "a byte\nbefore the check, which must find it.\n",
	      stderr);
	exit(2);
}

int main(int argc, char **argv)
{
	int port = 18520, at = 1;
	CUcontext context;
	CUdevice device;

	for (; at < argc && !strncmp(argv[at], "--", 2); at++) {
		if (!strcmp(argv[at], "--spoil"))
			spoil = true;
		else if (at + 1 == argc)
			usage();
		else if (!strcmp(argv[at], "--rounds"))
			rounds = atoi(argv[++at]);
		else if (!strcmp(argv[at], "--bytes"))
			largest = strtoul(argv[++at], NULL, 10);
		else if (!strcmp(argv[at], "--port"))
			port = atoi(argv[++at]);
		else
			usage();
	}
	if (argc - at > 1 || rounds < 0 || largest < UNIT)
		usage();
	is_server = at == argc;
	CUDA(cuInit(0));
	CUDA(cuDeviceGet(&device, 0));
	CUDA(cuDevicePrimaryCtxRetain(&context, device));
	CUDA(cuCtxSetCurrent(context));
	endpoint_open(device, is_server, port);
	run();
	endpoint_close();
	CUDA(cuDevicePrimaryCtxRelease(device));
	printf("%s: %d rounds: %llu messages, %llu bytes, %llu wrong\n",
	       is_server ? "server" : "client", rounds, (unsigned long long)messages,
	       (unsigned long long)checked_bytes, (unsigned long long)wrong_bytes);
	return wrong_bytes != 0;
}
