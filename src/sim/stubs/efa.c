/* SPDX-License-Identifier: BSD-3-Clause */
/* efa.c -- libefa.so.1: what libfabric and perftest link */
#include "sim/stubs/stub.h"

STUB_OBJECT(efadv_cq_from_ibv_cq_ex)
STUB_OBJECT(efadv_create_cq)
STUB_OBJECT(efadv_create_driver_qp)
STUB_OBJECT(efadv_create_qp_ex)

STUB_ERROR(efadv_query_ah)
STUB_ERROR(efadv_query_device)
STUB_ERROR(efadv_query_mr)
