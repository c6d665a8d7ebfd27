/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_forms.c -- registrations of a client's own dma-buf, and the extended form
 *
 * A dma-buf is served only if the program exported it through an intercepted call. peerpin then has
 * the memory's addresses, and each region of that memory has equal pages. The client's iova only
 * names the first byte for remote sides; it is served if it equals the memory's address.
 *
 * Each form is filled as the real call fills it (libibverbs/cmd_mr.c); all other fields stay
 * unchanged.
 */
#include "intercept/verbs.h"

#include <errno.h>

#include "base/process.h"
#include "intercept/entry_points.h"
#include "intercept/observed_verbs.h"

/* True if the program exported the dma-buf. Then sets `*inside`, true if the dma-buf holds the
 * whole range, and the request's address. */
static bool verbs_forms_find_export(int fd, uint64_t offset, struct registration_request *request,
				    bool *inside)
{
	struct found_export found;

	if (!memory_find_export(fd, &found))
		return false;
	*inside = request->length && offset <= found.size && request->length <= found.size - offset;
	request->address = found.address + offset;
	/* The memory may have been freed and its address reused; the dma-buf still holds the first
	 * memory. */
	request->youngest = found.youngest;
	request->pcie = found.pcie;
	request->source = (struct dma_buf){ { .fd = fd }, found.address, found.size };
	return true;
}

/* Count a request by a dma-buf whose export is not recorded, if the client's addresses are GPU
 * memory. A probe for dma-buf support has no descriptor. */
static void verbs_forms_count_unknown(int fd, const struct registration_request *request)
{
	uint64_t ends[] = { request->iova, request->iova + request->length - 1 };
	struct allocation allocation;

	for (int i = 0; fd >= 0 && request->length && i < 2; i++) {
		if (memory_find(ends[i], &allocation) && allocation.kind != ALLOCATION_HOST) {
			verbs_count_forwarded(unknown);
			return;
		}
	}
}

/* Data direct: mlx5dv_reg_dmabuf_mr() has attributes of the provider, by which the adapter reaches
 * the memory on a path of its own. No region of peerpin's has them. */
enum form { FORM_SUPPORTED, FORM_DATA_DIRECT, FORM_OTHER };

/* Serve a dma-buf; if the form or the range prevents it, count a forwarded request. */
static bool verbs_forms_serve_dmabuf(int fd, uint64_t offset, enum form form,
				     struct registration_request *request,
				     struct registration_keys *keys)
{
	bool inside;

	if (verbs_is_internal())
		return false;
	if (!verbs_forms_find_export(fd, offset, request, &inside)) {
		verbs_forms_count_unknown(fd, request);
		return false;
	}
	if (form == FORM_DATA_DIRECT) {
		verbs_count_forwarded(data_direct);
		return false;
	}
	if (form != FORM_SUPPORTED || !inside) {
		verbs_count_forwarded(form);
		return false;
	}
	return verbs_may_serve(request->pd) && verbs_serve(request, keys);
}

int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			  int access, struct verbs_mr *vmr, struct ibv_command_buffer *driver)
{
	struct registration_request request = { .pd = pd,
						.length = length,
						.iova = iova,
						.access = access,
						.dma_buf = true,
						.client_mr = vmr };
	struct verbs_evict eviction = { .context = pd->context, .bytes = length };
	struct ibv_mr *mr = &vmr->ibv_mr;
	struct registration_keys keys;
	enum form form = verbs_has_private_attributes(driver) ? FORM_DATA_DIRECT : FORM_SUPPORTED;
	int result;

	if (process_observes())
		return observed_reg_dmabuf_mr(pd, offset, length, iova, fd, access, vmr, driver);
	if (verbs_forms_serve_dmabuf(fd, offset, form, &request, &keys)) {
		verbs_fill(vmr, pd, IBV_MR_TYPE_DMABUF_MR, &keys);
		mr->pd = pd;
		mr->addr = (void *)offset;
		mr->length = length;
		return 0;
	}
	/* From an older caller `driver` is an arbitrary value, which an older library ignores. */
	do
		result = next_verbs(ibv_cmd_reg_dmabuf_mr)(pd, offset, length, iova, fd, access,
							   vmr, driver);
	while (verbs_evicted(&eviction, result));
	request.address = offset;
	verbs_record(&request, result,
		     mr->context == pd->context && mr->pd == pd && mr->addr == (void *)offset &&
			     mr->length == length && vmr->mr_type == IBV_MR_TYPE_DMABUF_MR);
	return result;
}

/* Extended form: by address or by a dma-buf. Other members (a DMA handle, later additions) are
 * unsupported. */
#define BY_ADDRESS (IBV_REG_MR_MASK_ADDR)
#define BY_DMA_BUF (IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_IOVA)

static bool verbs_forms_serve_extended(const struct ibv_mr_init_attr *attributes,
				       struct registration_request *request,
				       struct registration_keys *keys)
{
	bool understood;

	if (request->dma_buf)
		return verbs_forms_serve_dmabuf(attributes->fd, attributes->fd_offset,
						attributes->comp_mask == BY_DMA_BUF ? FORM_SUPPORTED
										    : FORM_OTHER,
						request, keys);
	understood = (attributes->comp_mask & ~(uint64_t)IBV_REG_MR_MASK_IOVA) == BY_ADDRESS;
	if (verbs_is_internal() || !registration_concerns(request))
		return false;
	if (!understood) {
		verbs_count_forwarded(form);
		return false;
	}
	return verbs_may_serve(request->pd) && verbs_serve(request, keys);
}

int ibv_cmd_reg_mr_ex(struct ibv_pd *pd, struct verbs_mr *vmr, struct ibv_mr_init_attr *attributes)
{
	bool dma_buf = attributes->comp_mask & IBV_REG_MR_MASK_FD;
	enum ibv_mr_type type = dma_buf ? IBV_MR_TYPE_DMABUF_MR : IBV_MR_TYPE_MR;
	struct registration_request request = {
		.pd = pd,
		.address = (uint64_t)attributes->addr,
		.length = attributes->length,
		.iova = attributes->comp_mask & IBV_REG_MR_MASK_IOVA ? attributes->iova
								     : (uint64_t)attributes->addr,
		.access = attributes->access,
		.dma_buf = dma_buf,
		.client_mr = vmr,
	};
	struct verbs_evict eviction = { .context = pd->context, .bytes = attributes->length };
	struct registration_keys keys;
	int result;

	if (process_observes())
		return observed_reg_mr_ex(pd, vmr, attributes);
	if (verbs_forms_serve_extended(attributes, &request, &keys)) {
		verbs_fill(vmr, pd, type, &keys);
		/* Releases up to 61 leave the provider's 0 here, and no access flag in it
		 * counts. */
		vmr->access = attributes->access;
		return 0;
	}
	do {
		/* Without kernel support of this form rdma-core 65 calls ibv_cmd_reg_mr. */
		verbs_begin_forwarding();
		result = next_verbs(ibv_cmd_reg_mr_ex)(pd, vmr, attributes);
		verbs_end_forwarding();
	} while (verbs_evicted(&eviction, result));
	verbs_record(&request, result, vmr->ibv_mr.context == pd->context && vmr->mr_type == type);
	return result;
}
