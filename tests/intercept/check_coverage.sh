#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_coverage.sh -- docs/internals/coverage.md is generated from the current table
[ -x tests/intercept/coverage ] || exit 77
if tests/intercept/coverage | diff "${srcdir:-.}/docs/internals/coverage.md" -; then
    echo '1 passed, 0 failed, 0 skipped'
    exit 0
fi
echo 'docs/internals/coverage.md is not what the table says: make coverage'
echo '0 passed, 1 failed, 0 skipped'
exit 1
