/* SPDX-License-Identifier: BSD-3-Clause */
/* dma_buf.c -- forms by the client's own dma-buf, and of the extended call */
#include "forms.h"

#include <errno.h>

/* The range that the client exports, and what it registers of it. */
struct dma_form {
	CUdeviceptr from, to;
	uint64_t offset;
	size_t length;
	uint64_t label; /* of the first registered byte */
	int access;
	CUdeviceptr buffer;
	size_t size;
};

static void dma_round(const struct dma_form *form, int fd)
{
	struct ibv_mr *mr =
		by_dma_buf(pd, fd, form->offset, form->length, form->label, form->access);

	check_bytes(mr, form->label + (form->buffer - form->from - form->offset), form->buffer,
		    form->size);
	drop(mr);
}

static void dma_rounds(struct dma_form form)
{
	for (int i = 0; i < ROUNDS; i++) {
		int fd = export_range(form.from, form.to, 0);

		dma_round(&form, fd);
		if (fd >= 0)
			close(fd);
	}
}

/* The exported range: the pages that the buffer touches. */
static struct dma_form dma_pages(CUdeviceptr address, size_t size)
{
	CUdeviceptr from = round_down(address, PAGE);

	return (struct dma_form){ .from = from,
				  .to = round_up(address + size, PAGE),
				  .offset = address - from,
				  .length = size,
				  .label = address,
				  .access = ACCESS,
				  .buffer = address,
				  .size = size };
}

/* All of the pages, named by `label`. */
static struct dma_form dma_whole_pages(CUdeviceptr address, size_t size, uint64_t label)
{
	struct dma_form form = dma_pages(address, size);

	form.offset = 0;
	form.length = form.to - form.from;
	form.label = label;
	return form;
}

/* From the buffer itself on. */
static struct dma_form dma_from(CUdeviceptr address, size_t size, uint64_t unit)
{
	return (struct dma_form){ .from = address,
				  .to = address + round_up(size, unit),
				  .length = size,
				  .label = address,
				  .access = ACCESS,
				  .buffer = address,
				  .size = size };
}

FORM_IS(buf_exact, dma_rounds(dma_pages(allocate(size), size)))
FORM_IS(buf_exact_small, dma_rounds(dma_pages(allocate_small(size), size)))

FORM_RUN(buf_16)
{
	struct dma_form form = dma_pages(allocate(size), size);

	form.length = round_up(size, 16);
	dma_rounds(form);
}

/* CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE */
#define OVER_PCIE 1

/* A client that asks for the PCIe mapping first, as libfabric; only hosts with NVLink-C2C have it.
 * All MRs of its queue pairs take one route. */
static void over_pcie_first(uint64_t size)
{
	CUdeviceptr address = allocate(size);
	struct dma_form form = dma_pages(address, size);

	for (int i = 0; i < ROUNDS; i++) {
		int fd = export_range(form.from, form.to, OVER_PCIE);

		if (fd < 0)
			fd = export_range(form.from, form.to, 0);
		dma_round(&form, fd);
		close(fd);
	}
}

FORM_IS(buf_pcie, over_pcie_first(size))
FORM_IS(buf_pcie_c2c, over_pcie_first(size))

FORM_RUN(buf_pages)
{
	CUdeviceptr address = allocate(size);

	dma_rounds(dma_whole_pages(address, size, address));
}

FORM_RUN(buf_pages_small)
{
	CUdeviceptr address;

	size = round_down(size, PAGE) + 1 + random_below(PAGE - 256);
	address = allocate_small(size);
	dma_rounds(dma_whole_pages(address, size, round_down(address, PAGE)));
}

FORM_RUN(buf_iova_0)
{
	CUdeviceptr address = allocate(size);
	struct dma_form form = dma_whole_pages(address, size, 0);

	form.access |= RELAXED;
	dma_rounds(form);
}

FORM_RUN(buf_iova_shifted)
{
	struct dma_form form = dma_from(allocate(size), size, PAGE);

	form.label += (uint64_t)1 << 30;
	dma_rounds(form);
}

FORM_IS(buf_block, dma_rounds(dma_from(allocate(size), size, BLOCK)))

FORM_RUN(buf_64k_pages)
{
	struct dma_form form;

	size = round_down(size, 65536) + 1 + random_below(65536 - PAGE);
	form = dma_from(allocate(size), size, 65536);
	form.length = form.to - form.from;
	dma_rounds(form);
}

FORM_RUN(buf_allocation)
{
	CUdeviceptr base, address = allocate(size) + 8 * random_below(size / 32);
	struct dma_form form;
	size_t found;

	require_cuda(cuMemGetAddressRange_v2(&base, &found, address));
	form = dma_from(base, found, PAGE);
	form.offset = address - base;
	form.length = form.size = size / 3;
	form.label = form.buffer = address;
	dma_rounds(form);
}

/* UCX 1.22: the pages of the whole allocation, exported once for the query of the memory's
 * attributes and once for the registration, which takes the allocation rounded to 16 bytes. */
FORM_RUN(buf_whole_twice)
{
	CUdeviceptr base, address = allocate(size) + 8 * random_below(size / 32);
	struct dma_form form;
	size_t whole;

	require_cuda(cuMemGetAddressRange_v2(&base, &whole, address));
	form = dma_pages(base, round_up(whole, 16));
	form.buffer = address;
	form.size = size / 3;
	for (int i = 0; i < ROUNDS; i++) {
		int queried = export_range(form.from, form.to, 0);
		int fd = export_range(form.from, form.to, 0);

		dma_round(&form, fd);
		require(queried >= 0 && !close(queried) && !close(fd));
	}
}

FORM_RUN(buf_kept)
{
	struct dma_form form = dma_from(allocate(size), size, PAGE);
	int fd = export_range(form.from, form.to, 0);

	for (int i = 0; i < ROUNDS; i++)
		dma_round(&form, fd);
	close(fd);
}

/* One descriptor for several protection domains and contexts. */
FORM_RUN(buf_many_domains)
{
	struct ibv_context *other = ibv_open_device(device->device);
	struct ibv_pd *pds[3] = { pd, ibv_alloc_pd(device), ibv_alloc_pd(other) };
	CUdeviceptr address = allocate(size);
	int fd = export_range(address, round_up(address + size, PAGE), 0);
	struct ibv_mr *mrs[3];

	for (int i = 0; i < ROUNDS; i++) {
		for (int k = 0; k < 3; k++) {
			mrs[k] = by_dma_buf(pds[k], fd, 0, size, address, ACCESS);
			check_bytes(mrs[k], address, address, size);
		}
		for (int k = 0; k < 3; k++)
			drop(mrs[k]);
	}
	close(fd);
	errno = 0;
	record(!ibv_dealloc_pd(pds[1]) && !ibv_dealloc_pd(pds[2]), false);
	record(!ibv_close_device(other), false);
}

FORM_RUN(buf_no_context)
{
	CUdeviceptr address = allocate(size);
	int fd = export_range(address, round_up(address + size, PAGE), 0);

	require_cuda(cuCtxSetCurrent(NULL));
	for (int i = 0; i < ROUNDS; i++)
		drop(by_dma_buf(pd, fd, 0, size, address, ACCESS));
	require_cuda(cuCtxSetCurrent(context));
	close(fd);
}

FORM_IS(buf_pool, dma_rounds(dma_pages(allocate_from_pool(size), size)))

FORM_RUN(buf_pool_pages)
{
	CUdeviceptr address;

	size = round_down(size, PAGE) + 1 + random_below(PAGE - 1024);
	address = allocate_from_pool(size);
	dma_rounds(dma_whole_pages(address, size, round_down(address, PAGE)));
}

FORM_RUN(probe)
{
	for (int i = 0; i < ROUNDS; i++) {
		by_dma_buf(pd, -1, 0, PAGE, 0, ACCESS);
		if (errno != EBADF)
			report_wrong("errno of a probe");
	}
}

/* The client deregisters after the free of the memory. */
FORM_RUN(buf_freed_first)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_mr *mr;
		CUdeviceptr address;

		require_cuda(cuMemAlloc_v2(&address, size));
		mr = by_own_dma_buf(pd, address, size, ACCESS);
		check_bytes(mr, address, address, size);
		require_cuda(cuMemFree_v2(address));
		drop(mr);
	}
}

/* ---- ibv_reg_mr_ex ---- */

static void extended_rounds(uint64_t mask, size_t size)
{
	struct ibv_mr_init_attr attributes = { .length = size, .access = ACCESS, .fd = -1 };
	CUdeviceptr address = allocate(size);

	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_mr *mr;

		attributes.comp_mask = mask;
		if (mask & IBV_REG_MR_MASK_ADDR)
			attributes.addr = (void *)address;
		if (mask & IBV_REG_MR_MASK_FD)
			attributes.fd = export_range(address, round_up(address + size, PAGE), 0);
		attributes.iova = address;
		mr = by_attributes(&attributes);
		check_bytes(mr, address, address, size);
		drop(mr);
		if (attributes.fd >= 0)
			close(attributes.fd);
	}
}

FORM_IS(extended, extended_rounds(IBV_REG_MR_MASK_ADDR, size))
FORM_IS(extended_buf,
	extended_rounds(IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_IOVA,
			size))
FORM_IS(extended_buf_no_iova, extended_rounds(IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET, size))
FORM_IS(extended_handle, extended_rounds(IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_DMAH, size))
