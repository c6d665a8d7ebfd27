#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_promises.sh -- tests/README.md has a row of each heading of docs/limits.md, and its tests exist
set -u
top=${srcdir:-.}
# shellcheck source=tests/launcher/checks
. "$top/tests/launcher/checks"
rows=$(sed -n '/^| heading | promise | tests |/,/^$/p' "$top/tests/README.md" | tail -n +3)
while IFS='|' read -r _ heading promise tests _; do
	heading=$(sed 's/^ *//; s/ *$//' <<<"$heading")
	[[ ! $heading ]] || same "a heading of docs/limits.md: $heading" "## $heading" "$(grep -xF -- "## $heading" "$top/docs/limits.md")"
	path=''
	# shellcheck disable=SC2016 # backquotes of Markdown
	while read -r test; do
		name=$test
		[[ $test != tests/* ]] || path=${test%%: *} name=${test#"$path"} name=${name#: }
		[[ -e $top/$path ]] || same "$path, of:$promise" there missing
		[[ ! $name ]] || grep -rqF -- "$name" "$top/$path" || same "$path has '$name', of:$promise" yes no
		passed=$((passed + 1))
	done < <(grep -oE '`[^`]+`' <<<"$tests" | tr -d '`')
	[[ $path ]] || same "a test of:$promise" some none
done <<<"$rows"
while read -r heading; do
	matches "a row of '$heading'" "*| $heading |*" "$rows"
done < <(sed -n 's/^## //p' "$top/docs/limits.md")
finish
