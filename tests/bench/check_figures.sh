#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# check_figures.sh -- figures in README and docs are those of docs/performance
set -u
command -v python3 >/dev/null || exit 77
here=${srcdir:-.}/tests
# shellcheck source=tests/launcher/checks
. "$here/launcher/checks"
same 'README and docs have the figures of the records: tests/bench/figures --write' '' "$("$here/bench/figures" 2>&1)"
same 'the plot is that of the record: make performance' '' \
	"$("$here/stacks/worth_plot" "$here/../docs/performance/h200-stacks-keep.json" dmabuf-1.22.0 | diff - "$here/../docs/performance/worth.svg" | head -n 3)"
for record in "$here"/../docs/performance/*.json; do
	matches "notes.md describes ${record##*/}" "*(${record##*/})*" "$(<"$here/../docs/performance/notes.md")"
done
finish
