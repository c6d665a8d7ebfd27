#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_lookups.sh -- look-ups that depend on the caller's address have equal results with the
# preload and without
without=$(tests/intercept/lookups) || exit 99
with=$(LD_PRELOAD=$PWD/src/.libs/libpeerpin.so tests/intercept/lookups) || with="status $?"

# Not a comparison of two empty listings: the library must find libc's definition, and not its own.
if ! echo "$without" | grep -q '^library next malloc: libc' || ! echo "$without" | grep -q '^program next tool_of_library: liblookup'; then
    echo "the program does not show what it is for:"
    echo "$without"
    exit 99
fi
if [ "$with" = "$without" ]; then
    echo "1 passed, 0 failed, 0 skipped"
    exit 0
fi
printf 'without the preload\n%s\nwith it\n%s\n0 passed, 1 failed, 0 skipped\n' "$without" "$with"
exit 1
