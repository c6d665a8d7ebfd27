# SPDX-License-Identifier: BSD-3-Clause
# The subcommands of peerpin that are programs of their own: peerpin-NAME in $(pkglibexecdir), found by scripts/peerpin.
# They read what the library leaves, and may link what the library may not.
include src/tools/doctor/readers.mk
include src/tools/doctor/local.mk
