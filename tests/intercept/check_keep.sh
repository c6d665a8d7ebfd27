#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_keep.sh -- keep/: kept memory (PEERPIN_KEEP) on the simulated driver and adapter
#
# Arguments: a substring of the names of tests to run.
set -u
# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"
program=$(built tests/intercept/keep/keep)
[ -x "$program" ] || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_RUNTIME_DIR=$folder PEERPIN_SUMMARY=0 PEERPIN_LOG_LEVEL=none LD_LIBRARY_PATH=$PWD/src/sim/adapter/.libs:$PWD/src/sim/.libs
export KEEP_DEEPBIND=$PWD/tests/intercept/.libs/deepbind.so
tap env LD_PRELOAD="$PWD/src/.libs/libpeerpin.so" timeout 1800 "$program" "$@"
finish
