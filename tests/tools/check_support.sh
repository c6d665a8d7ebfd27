#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_support.sh -- scripts/support: records, and docs/support/README.md is made from them
set -u
top=${srcdir:-.}
# shellcheck source=tests/launcher/checks
. "$top/tests/launcher/checks"
command -v python3 >/dev/null || exit 77
support=$top/scripts/support

same 'the page is that of the records' "$("$support" page)" "$(<"$top/docs/support/README.md")"
matches 'a record' $'{*"system": "*"command": "printf*",*"status": 0,*"counts": \[*3,*0,*1*\]*"steps": null*}' \
	"$("$support" record printf '3 passed, 0 failed, 1 skipped\n' 2>/dev/null)"
matches 'steps' $'*"contract": "ok",*"keep": "FAILED"*' "$("$support" record printf 'not ok that\ncontract  ok  3 s\nkeep  FAILED  2 s\n' 2>/dev/null)"
matches 'a library that the command brings' $'*"versions": {*"libfabric": "9.1.0"*}*' \
	"$("$support" record printf '# libfabric 9.1.0\n# another 2.0\n' 2>/dev/null)"
same 'a line that is none of them' '' "$("$support" record printf 'not ok that\n' 2>/dev/null | grep '"not"')"
ends 'the status of the command' 3 '"status": 3' "$support" record bash -c 'exit 3'
same 'the output of the command' $'one\ntwo' "$("$support" record printf 'one\ntwo\n' 2>&1 >/dev/null)"
ends 'help' 0 'usage: ' "$support" --help
ends 'a wrong argument' 2 'usage: ' "$support" records
echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))
