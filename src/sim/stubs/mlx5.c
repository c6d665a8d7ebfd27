/* SPDX-License-Identifier: BSD-3-Clause */
/* mlx5.c -- libmlx5.so.1: what UCX and perftest link */
#include "sim/stubs/stub.h"

STUB_PREDICATE(mlx5dv_is_supported)

STUB_OBJECT(mlx5dv_create_cq)
STUB_OBJECT(mlx5dv_create_mkey)
STUB_OBJECT(mlx5dv_create_qp)
STUB_OBJECT(mlx5dv_dek_create)
STUB_OBJECT(mlx5dv_devx_alloc_uar)
STUB_OBJECT(mlx5dv_devx_create_event_channel)
STUB_OBJECT(mlx5dv_devx_obj_create)
STUB_OBJECT(mlx5dv_devx_umem_reg)
STUB_OBJECT(mlx5dv_open_device)
STUB_OBJECT(mlx5dv_qp_ex_from_ibv_qp_ex)
STUB_OBJECT(mlx5dv_reg_dmabuf_mr)

STUB_ERROR(mlx5dv_crypto_login)
STUB_ERROR(mlx5dv_dek_destroy)
STUB_ERROR(mlx5dv_destroy_mkey)
STUB_ERROR(mlx5dv_devx_general_cmd)
STUB_ERROR(mlx5dv_devx_obj_destroy)
STUB_ERROR(mlx5dv_devx_obj_modify)
STUB_ERROR(mlx5dv_devx_obj_query)
STUB_ERROR(mlx5dv_devx_qp_modify)
STUB_ERROR(mlx5dv_devx_qp_query)
STUB_ERROR(mlx5dv_devx_subscribe_devx_event)
STUB_ERROR(mlx5dv_devx_umem_dereg)
STUB_ERROR(mlx5dv_init_obj)
STUB_ERROR(mlx5dv_query_device)

STUB_SIZE(mlx5dv_devx_get_event)

STUB_END(mlx5dv_devx_destroy_event_channel)
STUB_END(mlx5dv_devx_free_uar)
