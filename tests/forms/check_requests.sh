#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_requests.sh -- forms.def: each form of a client's registrations is served, or forwarded for a counted reason
#
# Arguments: [--seed N] [NAME...], as of requests.c.
set -u
# shellcheck source=tests/launcher/checks
. "${srcdir:-.}/tests/launcher/checks"
here=${srcdir:-.}/tests/forms
program=$(built tests/forms/requests)
[ -x "$program" ] || exit 77
export PEERPIN_SUMMARY=none PEERPIN_LOG_LEVEL=none LD_LIBRARY_PATH=$PWD/src/sim/adapter/.libs:$PWD/src/sim/.libs
same 'the table of docs/internals/forms.md is up to date' '' "$(python3 "$here/table.py" "$here/forms.def" "$here/../../src/report/statistics.def" |
	diff - <(sed -n '/^| client | form | peerpin |/,$p' "$here/../../docs/internals/forms.md"))"
# Many forms hold a descriptor for each buffer, and the simulated adapter one for each registration; a common limit is 1024.
ulimit -S -n "$(ulimit -H -n)" 2>/dev/null || :
if [ "$#" = 0 ] && [ "$(ulimit -n)" != unlimited ] && [ "$(ulimit -n)" -lt 4096 ]; then
	skip "buffers, exports: at most $(ulimit -n) open files"
	mapfile -t names < <(sed -n 's/^FORM(\([a-z0-9_]*\),.*/\1/p' "$here/forms.def" | grep -vx -e buffers -e exports)
	set -- "${names[@]}"
fi
tap timeout 1800 "$program" "$PWD/src/.libs/libpeerpin.so" "$@"
finish
