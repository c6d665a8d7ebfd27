#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_words.sh -- headers, the map of the code and CONTRIBUTING.md use the terms of tests/words/words
set -euo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/launcher/checks
. "$top/tests/launcher/checks"

# The words before two blanks, as an extended regular expression.
words=$(sed -E '/^(#|allow )/d; s/  .*//; s/, /|/g' "$top/tests/words/words" | paste -sd'|')

# found FILE...: lines with such a word, but for those that are allowed
found() {
	local line path word

	{ (cd "$top" && grep -HnwoiE "$words" "$@") || :; } | while IFS= read -r line; do
		path=${line%%:*} word=${line##*:}
		grep -qi "^allow ${path%/*}/ .*\b$word\b" "$top/tests/words/words" || echo "$line"
	done
}

cd "$top"
mapfile -t files < <(find src include -name '*.h' ! -name 'leases.h' ! -name 'biased.h' | LC_ALL=C sort)
matches 'there are headers' '[5-9][0-9]' "${#files[@]}"
same 'headers, the map and CONTRIBUTING.md use the terms' '' "$(found "${files[@]}" src/README.md CONTRIBUTING.md)"
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
printf 'The driver frees it.\nBorn in the budget.\n' >"$tmp"
same 'a word of the list is found, in any case' "$tmp:2:Born $tmp:2:budget" "$(found "$tmp" | paste -sd' ')"
finish
