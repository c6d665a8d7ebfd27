#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_kept.sh -- the contract tests under the preload with freed memory kept, against the simulated
# driver of this build
export PEERPIN_SUMMARY=0 LD_LIBRARY_PATH="$PWD/src/sim/.libs"
for settings in PEERPIN_POINTER_QUERIES=1 PEERPIN_POINTER_QUERIES=0 PEERPIN_VERIFY=1; do
	echo "PEERPIN_KEEP with $settings"
	env "$settings" PEERPIN_KEEP=64M PEERPIN_KEEP_HOST=64M \
		LD_PRELOAD="$PWD/src/.libs/libpeerpin.so" tests/contract/check_driver || exit
done
