/* SPDX-License-Identifier: BSD-3-Clause */
/* check_pairs.c -- the contract of queue pairs between processes, of any adapter
 *
 * The tests are in pairs_*.c: each is a sentence of the contract.
 */
#include "pairs.h"
#include "unit/suite.h"

SUITE("pairs")
