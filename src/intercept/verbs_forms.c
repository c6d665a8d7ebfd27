/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs_forms.c -- registrations by a dma-buf of the client's own, and in the extended form
 *
 * A dma-buf is served if the program exported it itself: then it is known which memory it holds, and the region of
 * that memory has the same pages, however it was made. The address that the client gives with it is no more than the
 * label under which remote sides will name the first byte; only the memory's own address can be served.
 *
 * Each form is filled as the real call fills it (libibverbs/cmd_mr.c); what that leaves alone stays as it is.
 */
#include "intercept/verbs.h"

#include <errno.h>

#include "base/process.h"
#include "intercept/entry_points.h"

/* Whether the dma-buf is one that the program exported. If so, whether all of the range is in it, and the request's
 * address. */
static bool is_known(int fd, uint64_t offset, struct registration_request *request, bool *inside)
{
	struct found_export found;

	if (!memory_find_export(fd, &found))
		return false;
	*inside = request->length && offset <= found.size && request->length <= found.size - offset;
	request->address = found.address + offset;
	/* Its memory may have been freed, and other memory be there: the dma-buf still holds the first. */
	request->youngest = found.youngest;
	return true;
}

/* Serves a dma-buf, and counts it if that is not possible. */
static bool serve_dmabuf(int fd, uint64_t offset, bool understood, struct registration_request *request,
			 struct registration_keys *keys)
{
	bool inside;

	if (verbs_stand_aside() || !is_known(fd, offset, request, &inside))
		return false;
	if (!understood || !inside) {
		verbs_count_forwarded(form);
		return false;
	}
	return verbs_may_serve() && verbs_serve(request, keys);
}

int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			  int access, struct verbs_mr *vmr, struct ibv_command_buffer *driver)
{
	struct registration_request request = {
		.pd = pd, .length = length, .iova = iova, .access = access, .dma_buf = true, .client_mr = vmr
	};
	struct verbs_evict room = { .context = pd->context, .bytes = length };
	struct ibv_mr *mr = &vmr->ibv_mr;
	struct registration_keys keys;
	int result;

	if (serve_dmabuf(fd, offset, !verbs_has_private_attributes(driver), &request, &keys)) {
		verbs_fill(vmr, pd, IBV_MR_TYPE_DMABUF_MR, &keys);
		mr->pd = pd;
		mr->addr = (void *)offset;
		mr->length = length;
		return 0;
	}
	/* Read from an older caller's stack, the last one means nothing to an older library either. */
	do
		result = next_verbs(ibv_cmd_reg_dmabuf_mr)(pd, offset, length, iova, fd, access, vmr, driver);
	while (verbs_evicted(&room, result));
	if (!result && !process_is_passive()) {
		verbs_is_own(vmr);
		verbs_saw_layout(mr->context == pd->context && mr->pd == pd && mr->addr == (void *)offset &&
				 mr->length == length && vmr->mr_type == IBV_MR_TYPE_DMABUF_MR);
	}
	return result;
}

/* The extended form: by address, or by a dma-buf. Anything else that it carries (a DMA handle, what is still to come) is
 * not known here. */
#define BY_ADDRESS (IBV_REG_MR_MASK_ADDR)
#define BY_DMA_BUF (IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_IOVA)

static bool serve_extended(const struct ibv_mr_init_attr *attributes, struct registration_request *request,
			   struct registration_keys *keys)
{
	bool understood;

	if (request->dma_buf)
		return serve_dmabuf(attributes->fd, attributes->fd_offset,
				    attributes->comp_mask == BY_DMA_BUF, request, keys);
	understood = (attributes->comp_mask & ~(uint64_t)IBV_REG_MR_MASK_IOVA) == BY_ADDRESS;
	if (verbs_stand_aside() || !registration_concerns(request))
		return false;
	if (!understood) {
		verbs_count_forwarded(form);
		return false;
	}
	return verbs_may_serve() && verbs_serve(request, keys);
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
	struct verbs_evict room = { .context = pd->context, .bytes = attributes->length };
	struct registration_keys keys;
	int result;

	if (serve_extended(attributes, &request, &keys)) {
		verbs_fill(vmr, pd, type, &keys);
		/* Releases up to 61 leave here what the provider put there: nothing, and no right in it counts. */
		vmr->access = attributes->access;
		return 0;
	}
	do {
		/* On a kernel without this form, rdma-core 65 asks for the plain one. */
		verbs_begin_passing();
		result = next_verbs(ibv_cmd_reg_mr_ex)(pd, vmr, attributes);
		verbs_end_passing();
	} while (verbs_evicted(&room, result));
	if (!result && !process_is_passive()) {
		verbs_is_own(vmr);
		verbs_saw_layout(vmr->ibv_mr.context == pd->context && vmr->mr_type == type);
	}
	return result;
}
