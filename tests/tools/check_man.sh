#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_man.sh -- the manual has what the programs have, is set without a complaint, and names only what exists
set -euo pipefail

srcdir=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/launcher/command
. "$srcdir/tests/launcher/command"

pages=(docs/man/peerpin.1 docs/man/peerpin.7 "$srcdir"/docs/man/peerpin-{config,doctor,report,top}.1 "$srcdir/docs/man/peerpin.3")

# A page without roff's signs.
plain() {
	sed -E -e 's/\\f[BIPR]//g; s/\\-/-/g; s/\\&//g; s/\\\(dq/"/g; s/\\\(aq/'"'"'/g' "$1"
}

# What it explains: the line behind each .TP and .TQ, and what stands behind .IP.
explained() {
	plain "$1" | awk '/^\.(TP|TQ)/ { getline; sub(/^\.[BIR]+ /, ""); print } sub(/^\.IP /, "")' | tr -d '"'
}

# missing PAGE: of the lines of standard input, those that the page does not explain
missing() {
	local text line

	text=$(explained "$1" | tr -s ' \n' '  ')
	while IFS= read -r line; do
		case " $text " in
		*[[:space:]]"$line"[[:space:],=]*) ;;
		*) printf '%s\n' "$line" ;;
		esac
	done
}

page_of() {
	case $1 in
	'') echo docs/man/peerpin.1 ;;
	*) echo "$srcdir/docs/man/peerpin-$1.1" ;;
	esac
}

# Options as --help prints them: at the beginning of a line, and behind a comma there.
options() {
	"$peerpin" ${1:+"$1"} --help | sed -nE 's/^ +(-.*)/\1/p' | sed 's/   *.*//; s/--\[no-\]/--/' |
		tr ',' '\n' | sed -E 's/^ +//; s/[ =].*//' | grep '^-' | sort -u
}

options_are_there() {
	local name list

	for name in '' config doctor report top; do
		if [[ $name != '' && ! -x src/tools/peerpin-$name ]]; then
			skip "options of $name: it is not built"
			continue
		fi
		list=$(options "$name")
		[[ $name == '' ]] || matches "options of $name were found" '*--help*--version*' "$list"
		same "options of peerpin $name" '' "$(missing "$(page_of "$name")" <<<"$list")"
		same "exit statuses of peerpin $name" '' "$("$peerpin" ${name:+"$name"} --help |
			sed -n '/^Exit status/,$p' | grep -oE '[0-9]+' | sort -u | missing "$(page_of "$name")")"
	done
	matches 'options of peerpin were found' '*--budget*--sim*--verify*' "$(options '')"
}

tables_are_there() {
	local titles

	same 'the settings are as peerpin config prints them' "$("$config" --man)" \
		"$(sed -n '/^\.SS "Whether/,/^\.SS "Also read/p' docs/man/peerpin.1 | sed '$d')"
	same 'every variable of the table is in it' '' "$(
		sed -n 's/^CONFIG[A-Z_]*(.*"\(PEERPIN_[A-Z_]*\)".*/\1/p' "$srcdir/src/base/config.def" |
			missing docs/man/peerpin.1
	)"
	same 'every check of the doctor' '' "$(sed -n 's/^CHECK("\([^"]*\)".*/\1/p' "$srcdir/src/tools/doctor/doctor_checks.def" |
		missing "$(page_of doctor)")"
	titles=$(sed -n '/^static const char \*title/,/^}/s/.*return " *\([^"][^"]*\)".*/\1/p' "$srcdir/src/base/emit_table.c")
	matches 'lines of the table at exit were found' '*allocations*not served*never used*' "$titles"
	same 'every line of the table at exit' '' "$({
		echo 'GPUDirect RDMA'
		echo "$titles"
	} | missing docs/man/peerpin.7)"
	same 'every counter' '' "$(sed -nE 's/^(STATISTIC|TALLY|HISTOGRAM)\(([a-z_0-9]+),.*/\2/p' \
		"$srcdir/src/base/statistics.def" | missing docs/man/peerpin.7)"
	same 'every reason for which requests are not served' '' "$(sed -nE 's/^STATISTIC\(.*, REASONS, "([^"]*)".*/\1/p' \
		"$srcdir/src/base/statistics.def" | missing docs/man/peerpin.7)"
	same 'every level of the log' '' "$(sed -n 's/^CONFIG_WORDS(LEVEL, *\(.*\))/\1/p' "$srcdir/src/base/config.def" |
		tr -d '" ' | tr ',' '\n' | missing docs/man/peerpin.7)"
}

they_are_set() {
	local page

	if ! command -v groff >/dev/null; then
		skip 'they are set without a complaint: no groff'
		return
	fi
	for page in "${pages[@]}"; do
		same "$page is set without a complaint" '' "$(groff -man -ww -Tutf8 "$page" 2>&1 >/dev/null)"
		same "$page has no line that is broken in a terminal" '' \
			"$(groff -man -Tutf8 -P-cbou "$page" 2>/dev/null | awk 'length($0) > 120')"
	done
	command -v mandoc >/dev/null || return 0
	for page in "${pages[@]}"; do
		same "$page is as mandoc wants it" '' "$(mandoc -T lint -W warning "$page" 2>&1 |
			grep -v -e 'missing date' -e 'unusual Xr' || :)"
	done
}

# shellcheck disable=SC2016 # backquotes of Markdown
# Lines of the doctor's in the questions are those of recorded hosts; "[...]" stands for anything.
faq_shows_what_is_printed() {
	local line pattern count=0

	if [[ ! -x src/tools/peerpin-doctor ]]; then
		skip 'lines of docs/faq.md: the doctor is not built'
		return
	fi
	cat "$srcdir"/tests/doctor/hosts/*.expected >"$tmp/printed"
	{
		cat "$srcdir/tests/doctor/hosts/proprietary.dump"
		printf '== environment/PYTORCH_CUDA_ALLOC_CONF\nexpandable_segments:True\n'
	} >"$tmp/segments.dump"
	"$peerpin" doctor --only software --from "$tmp/segments.dump" >>"$tmp/printed" || :
	while IFS= read -r line; do
		pattern=$(sed -E 's/[][\.*^$+?(){}|]/\\&/g; s/ *\\\[\\\.\\\.\\\.\\\] */.*/g' <<<"$line")
		grep -qE -e "$pattern" "$tmp/printed" || same 'a line of docs/faq.md is one that the doctor prints' "$line" 'not printed'
		count=$((count + 1))
	done < <(sed -n '/^```/,/^```/p' "$srcdir/docs/faq.md" | grep -E '^(OK|WARN|FAIL|\?|-) +[a-z]|^ +do:  |^GPU[0-9]  ')
	matches 'lines of the doctor were found' '[1-9][0-9]' "$count"
}

# Documents of the source and the anchors behind them, and pages that are referred to.
what_they_name_exists() {
	local page name file anchor

	for page in "${pages[@]}"; do
		while read -r name; do
			[[ -e $srcdir/$name ]] || same "$page names a file that exists" "$name" 'no such file'
		done < <(plain "$page" | grep -oE '\b(docs|tests|include|scripts|src)/[A-Za-z0-9_./-]*[A-Za-z0-9]' | sort -u)
		while read -r name; do
			[[ -e docs/man/$name || -e $srcdir/docs/man/$name ]] || same "$page refers to a page that exists" "$name" 'no such page'
		done < <(sed -nE 's/\\-/-/g; s/^\.BR (peerpin[a-z-]*) \(([137])\).*/\1.\2/p' "$page" | sort -u)
	done
	while IFS='#' read -r file anchor; do
		[[ -e $srcdir/$file ]] || same 'the doctor leads to a file that exists' "$file" 'no such file'
		[[ -z $anchor ]] || same "the doctor leads to a part of $file" "$anchor" \
			"$(sed -n 's/^## //p' "$srcdir/$file" | tr 'A-Z ' 'a-z-' | grep -xF -e "$anchor" || echo 'no such heading')"
	done < <(grep -oE '"docs/[^"]*"' "$srcdir/src/tools/doctor/doctor_checks.def" | tr -d '"' | sort -u)
	while read -r anchor; do
		grep -qx "## $anchor" "$srcdir/docs/faq.md" || same 'docs/faq.md leads to a part of itself' "$anchor" 'no such heading'
	done < <(grep -oE '\(#[a-z0-9-]*\)' "$srcdir/docs/faq.md" | tr -d '(#)' | sort -u)
	for file in faq limits security; do
		while read -r name; do
			[[ -e $srcdir/$name || -e $srcdir/docs/$name ]] || same "docs/$file.md names a file that exists" "$name" 'no such file'
		done < <(grep -oE '(\]\(|\b(docs|tests|include|scripts|src)/)[A-Za-z0-9_./-]*\.[a-z]+' "$srcdir/docs/$file.md" |
			sed 's/^](//' | sort -u)
		while read -r name; do
			grep -qE "\"$name\"" "$srcdir/src/base/config.def" || [[ $name == PEERPIN_SYSROOT ]] ||
				same "docs/$file.md names a variable that exists" "$name" 'no such variable'
		done < <(grep -oE 'PEERPIN_[A-Z_]*[A-Z]' "$srcdir/docs/$file.md" | sort -u)
		# shellcheck disable=SC2016 # backquotes of Markdown
		while read -r name; do
			grep -qE "\($name," "$srcdir/src/base/statistics.def" ||
				same "docs/$file.md names a counter that exists" "$name" 'no such counter'
		done < <(grep -oE '`[a-z]+(_[a-z]+)+`' "$srcdir/docs/$file.md" | tr -d '`' |
			grep -vxF -e ibv_reg_mr_ex -e ibv_reg_dmabuf_mr -e ibv_rereg_mr -e ibv_import_mr -e ibv_reg_mr | grep -v -e ^mlx5dv_ |
			grep -vxFf <(printf '%s\n' ompi_info ucx_info ibv_devinfo max_mr env_keep _exit) | sort -u)
	done
	same 'what the pages and documents name was looked at' '' ''
}

options_are_there
tables_are_there
they_are_set
faq_shows_what_is_printed
what_they_name_exists
finish
