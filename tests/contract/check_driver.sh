#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_driver.sh -- the contract tests against the simulated driver of this build, with two devices
PEERPIN_SIM_DEVICES=2 LD_LIBRARY_PATH=$PWD/src/sim/.libs exec tests/contract/check_driver
