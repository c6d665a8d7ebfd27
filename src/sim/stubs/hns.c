/* SPDX-License-Identifier: BSD-3-Clause */
/* hns.c -- libhns.so.1: what perftest links */
#include "sim/stubs/stub.h"

STUB_PREDICATE(hnsdv_is_supported)

STUB_OBJECT(hnsdv_create_qp)
STUB_OBJECT(hnsdv_open_device)

STUB_ERROR(hnsdv_query_device)
