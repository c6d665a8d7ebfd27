# SPDX-License-Identifier: BSD-3-Clause
# Models: every interleaving and every memory order. Independent of the build, and long: once is enough.
if !SANITIZER
TESTS += tests/model/check_model.sh
endif
EXTRA_DIST += tests/model/check_model.sh tests/model/hits.pml tests/model/lookup.pml tests/model/orders.py
