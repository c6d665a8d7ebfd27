#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_words.sh -- headers, documents, tables of messages, messages and the launcher use the terms of tests/words/words
set -euo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/launcher/checks
. "$top/tests/launcher/checks"

# The words before two blanks, as an extended regular expression.
words=$(sed -E '/^(#|allow |phrase )/d; s/  .*//; s/, /|/g' "$top/tests/words/words" | paste -sd'|')
mapfile -t allowed < <(sed -n 's/^allow //p' "$top/tests/words/words")

# found: of lines "PATH:NUMBER:TEXT" of standard input, "PATH:NUMBER:WORD" for each word of the list outside of allowed text
found() {
	local line path text row

	{ grep -wiE "$words" || :; } | while IFS= read -r line; do
		path=${line%%:*} text=${line#*:*:}
		for row in "${allowed[@]}"; do
			[[ $path != "${row%% *}"* ]] || text=${text//"${row#* }"/}
		done
		{ grep -woiE "$words" <<<"$text" || :; } | sed "s|^|${line%"${line#*:*:}"}|"
	done
}

lines() { grep -Hn '' "$@"; }

# Adjacent literals are not joined: a term on two lines of a message is not found.
literals() { grep -HnoP '"([^"\\]|\\.)*"' "$@"; }

cd "$top"
mapfile -t headers < <(find src include -name '*.h' | LC_ALL=C sort)
same 'there are headers' yes "$( ((${#headers[@]} > 50)) && echo yes)"
same 'headers use the terms' '' "$(lines "${headers[@]}" | found)"
# docs/internals/coverage.md comes from entry_points.def.
mapfile -t documents < <(printf '%s\n' *.md {src,tests}/README.md docs/*.md docs/{internals,performance}/*.md docs/man/*.in docs/man/*.[13] |
	grep -vx docs/internals/coverage.md)
matches 'there are documents' '[23][0-9]' "${#documents[@]}"
same 'documents use the terms' '' "$(lines "${documents[@]}" | found)"
# Also across two lines.
phrases=$(sed -n 's/^phrase //p' "$top/tests/words/words" | paste -sd'|')
same 'documents have none of the phrases' '' "$(for document in "${documents[@]}"; do
	{ tr -s '[:space:]' ' ' <"$document" | grep -oiE "$phrases" || :; } | sed "s|^|$document: |"
done)"
same 'tables of messages use the terms' '' "$(literals src/base/config.def src/report/{statistics,errors}.def src/tools/{advice,hints,metrics}.def \
	src/tools/doctor/doctor_checks.def src/intercept/entry_points.def | found)"
same 'the launcher uses the terms' '' "$(lines scripts/peerpin.in | found)"
same 'messages use the terms' '' "$(literals src/{base,report,memory,registration,intercept}/*.c src/tools/{,doctor/}*.c | found)"

same 'a word of the list is found, in any case' 'a.h:2:Born a.h:2:budget' \
	"$(printf 'a.h:1:The driver frees it.\na.h:2:Born in the budget.\n' | found | paste -sd' ')"
same 'allowed text is no word, another use on its line is' 'docs/limits.md:1:image' \
	"$(echo 'docs/limits.md:1:`apptainer exec image` of an image' | found)"
same 'only literals are messages' 'b.c:1:"born"' "$(cd "${TMPDIR:-/tmp}" && mkdir "words.$$" && cd "words.$$" &&
	echo 'log_message(LOG_INFO, "born"); /* born */' >b.c && literals b.c; cd .. && rm -r "words.$$")"
finish
