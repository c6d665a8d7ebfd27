/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer.c -- copies between packets and registered memory, with the checks of keys at each one
 */
#include <stdlib.h>
#include <string.h>

#include "sim/adapter_access.h"
#include "sim/plane/pair.h"

struct access {
	struct adapter_use use;
	uint64_t offset; /* in the use */
	uint64_t bytes;
	bool ends; /* at the end of the piece, or of the remote range */
};

/* The accesses of one packet. */
struct accesses {
	unsigned int count;
	bool device;
	struct access one[PLANE_SEGMENTS];
};

static void transfer_end(struct accesses *accesses)
{
	for (unsigned int i = 0; i < accesses->count; i++)
		adapter_use_end(&accesses->one[i].use);
	accesses->count = 0;
}

static bool transfer_begin(struct accesses *accesses, const struct pair *pair, uint32_t key,
			   uint64_t address, uint64_t length, uint64_t offset, uint64_t bytes,
			   int flag)
{
	struct access *access = &accesses->one[accesses->count];

	if (adapter_use_begin(pair->qp.context, pair->qp.pd->handle, key, address, length, flag,
			      &access->use))
		return false;
	access->offset = offset;
	access->bytes = bytes;
	access->ends = offset + bytes == length;
	accesses->device |= access->use.device;
	accesses->count++;
	return true;
}

static bool transfer_begin_pieces(struct accesses *accesses, const struct pair *pair,
				  const struct ibv_sge *pieces, unsigned int count, uint64_t offset,
				  uint64_t bytes, int flag)
{
	uint64_t take;

	accesses->count = 0;
	accesses->device = false;
	for (unsigned int i = 0; i < count && bytes; i++) {
		if (offset >= pieces[i].length) {
			offset -= pieces[i].length;
			continue;
		}
		take = pieces[i].length - offset < bytes ? pieces[i].length - offset : bytes;
		if (!transfer_begin(accesses, pair, pieces[i].lkey, pieces[i].addr,
				    pieces[i].length, offset, take, flag)) {
			transfer_end(accesses);
			return false;
		}
		bytes -= take;
		offset = 0;
	}
	return true;
}

static void transfer_copy_all(const struct accesses *accesses, char *to, const char *from)
{
	for (unsigned int i = 0; i < accesses->count; i++) {
		const struct access *access = &accesses->one[i];

		if (to) {
			adapter_copy_from(&access->use, access->offset, to, access->bytes);
			to += access->bytes;
		} else {
			adapter_copy_to(&access->use, access->offset, from, access->bytes,
					access->ends);
			from += access->bytes;
		}
	}
}

/* Device memory is left to the adapter's thread: true, and the accesses end. */
static bool transfer_leave(struct accesses *accesses, bool in_thread)
{
	if (!accesses->device || in_thread)
		return false;
	transfer_end(accesses);
	progress_leave();
	return true;
}

/* The adapter's thread copies device memory without plane_lock. */
static void transfer_unlock(struct pair *pair, struct link *link)
{
	link->taken = true;
	pair->uses++;
	pthread_mutex_unlock(&plane_lock);
}

static void transfer_lock(struct pair *pair, struct link *link)
{
	progress_lock();
	pair_unuse(pair);
	link->taken = false;
}

/* Ends the accesses, copied or not. Before it takes plane_lock: deregistrations wait for them. */
static enum transfer_result transfer_copy(struct accesses *accesses, struct pair *pair,
					  struct link *link, void *to, const void *from,
					  bool in_thread)
{
	if (transfer_leave(accesses, in_thread))
		return TRANSFER_LATER;
	if (accesses->device)
		transfer_unlock(pair, link);
	transfer_copy_all(accesses, to, from);
	transfer_end(accesses);
	if (accesses->device)
		transfer_lock(pair, link);
	return TRANSFER_DONE;
}

enum transfer_result transfer_gather(struct pair *pair, struct link *link,
				     const struct ibv_sge *pieces, unsigned int count,
				     uint64_t offset, void *to, uint32_t bytes, bool in_thread)
{
	struct accesses accesses;

	if (!transfer_begin_pieces(&accesses, pair, pieces, count, offset, bytes, 0))
		return TRANSFER_REFUSED;
	return transfer_copy(&accesses, pair, link, to, NULL, in_thread);
}

enum transfer_result transfer_scatter(struct pair *pair, struct link *link,
				      const struct ibv_sge *pieces, unsigned int count,
				      uint64_t offset, const void *from, uint32_t bytes,
				      bool in_thread)
{
	struct accesses accesses;

	if (!transfer_begin_pieces(&accesses, pair, pieces, count, offset, bytes,
				   IBV_ACCESS_LOCAL_WRITE))
		return TRANSFER_REFUSED;
	return transfer_copy(&accesses, pair, link, NULL, from, in_thread);
}

static bool transfer_begin_remote(struct accesses *accesses, const struct pair *pair, uint32_t key,
				  uint64_t address, uint64_t length, uint64_t offset,
				  uint64_t bytes, int flag)
{
	accesses->count = 0;
	accesses->device = false;
	return transfer_begin(accesses, pair, key, address, length, offset, bytes, flag);
}

enum transfer_result transfer_read(struct pair *pair, struct link *link, uint32_t key,
				   uint64_t address, uint64_t length, uint64_t offset, void *to,
				   uint32_t bytes, bool in_thread)
{
	struct accesses accesses;

	if (!transfer_begin_remote(&accesses, pair, key, address, length, offset, bytes,
				   IBV_ACCESS_REMOTE_READ))
		return TRANSFER_REFUSED;
	return transfer_copy(&accesses, pair, link, to, NULL, in_thread);
}

enum transfer_result transfer_write(struct pair *pair, struct link *link, uint32_t key,
				    uint64_t address, uint64_t length, uint64_t offset,
				    const void *from, uint32_t bytes, bool in_thread)
{
	struct accesses accesses;

	if (!transfer_begin_remote(&accesses, pair, key, address, length, offset, bytes,
				   IBV_ACCESS_REMOTE_WRITE))
		return TRANSFER_REFUSED;
	return transfer_copy(&accesses, pair, link, NULL, from, in_thread);
}

/* An adapter is one agent among others: its operation is atomic for CPUs, too (IBV_ATOMIC_GLOB). */
static uint64_t transfer_operate(uint64_t *word, bool add, const uint64_t operands[2])
{
	uint64_t former = operands[0];

	adapter_dma_begin();
	if (add)
		former = __atomic_fetch_add(word, operands[0], __ATOMIC_SEQ_CST);
	else
		__atomic_compare_exchange_n(word, &former, operands[1], false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST);
	adapter_dma_end();
	return former;
}

/* Device memory: atomic among the operations of this adapter, whose thread is the only one. */
static void transfer_operate_on_copy(const struct adapter_use *use, bool add,
				     const uint64_t operands[2], uint64_t *former)
{
	uint64_t word;

	adapter_copy_from(use, 0, &word, sizeof(word));
	*former = transfer_operate(&word, add, operands);
	adapter_copy_to(use, 0, &word, sizeof(word), true);
}

enum transfer_result transfer_atomic(struct pair *pair, struct link *link, uint32_t key,
				     uint64_t address, bool add, const uint64_t operands[2],
				     uint64_t *former, bool in_thread)
{
	struct accesses accesses;
	const struct adapter_use *use = &accesses.one[0].use;

	if (!transfer_begin_remote(&accesses, pair, key, address, sizeof(uint64_t), 0,
				   sizeof(uint64_t), IBV_ACCESS_REMOTE_ATOMIC))
		return TRANSFER_REFUSED;
	if (transfer_leave(&accesses, in_thread))
		return TRANSFER_LATER;
	if (accesses.device) {
		transfer_unlock(pair, link);
		transfer_operate_on_copy(use, add, operands, former);
	} else {
		*former = transfer_operate((uint64_t *)(uintptr_t)use->memory, add, operands);
	}
	transfer_end(&accesses);
	if (accesses.device)
		transfer_lock(pair, link);
	return TRANSFER_DONE;
}
