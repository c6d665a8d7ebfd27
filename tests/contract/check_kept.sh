#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_kept.sh -- the contract tests under the preload with freed memory kept, against the simulated
# driver of this build
export PEERPIN_SUMMARY=0 LD_LIBRARY_PATH="$PWD/src/sim/.libs"
export PEERPIN_KEEP=64M
for settings in PEERPIN_VERIFY=0 PEERPIN_VERIFY=1 PEERPIN_KEEP=auto; do
	echo "kept memory with $settings"
	env "$settings" PEERPIN_KEEP_HOST=64M \
		LD_PRELOAD="$PWD/src/.libs/libpeerpin.so" tests/contract/check_driver || exit
done
