/* SPDX-License-Identifier: BSD-3-Clause */
/* newer.c -- functions of libibverbs newer than IBVERBS_1.15, which programs of such releases link
 *
 * Older headers do not declare them. Completion counters, buffers and DMA handles are not simulated.
 */
#include "sim/stubs/stub.h"

STUB_OBJECT(ibv_alloc_dmah)
STUB_ERROR(ibv_dealloc_dmah)

STUB_SIZE(ibv_dm_export_dmabuf_fd)
STUB_ERROR(ibv_query_port_speed)

STUB_OBJECT(ibv_alloc_buf)
STUB_ERROR(ibv_free_buf)
STUB_OBJECT(ibv_reg_buf_mr)

STUB_ERROR(_ibv_query_comp_cntr_caps)
STUB_OBJECT(ibv_create_comp_cntr)
STUB_ERROR(ibv_destroy_comp_cntr)
STUB_SIZE(ibv_export_buf_dmabuf_fd)
STUB_ERROR(ibv_inc_comp_cntr)
STUB_ERROR(ibv_inc_err_comp_cntr)
STUB_ERROR(ibv_qp_attach_comp_cntr)
STUB_ERROR(ibv_read_comp_cntr)
STUB_ERROR(ibv_read_err_comp_cntr)
STUB_ERROR(ibv_set_comp_cntr)
STUB_ERROR(ibv_set_err_comp_cntr)
