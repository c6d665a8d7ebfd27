#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_man.sh -- manual and documents cover the programs, format without warnings, show commands
# that peerpin accepts, and refer to existing things only
set -euo pipefail

srcdir=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/launcher/command
. "$srcdir/tests/launcher/command"

pages=(docs/man/peerpin.1 docs/man/peerpin.7 "$srcdir"/docs/man/peerpin-{config,demo,doctor,report,site,top}.1 "$srcdir/docs/man/peerpin.3")
mapfile -t documents < <(cd "$srcdir" && printf '%s\n' README.md SUPPORT.md SECURITY.md docs/*.md)

# plain PAGE: its text without roff requests in words
plain() {
	sed -E -e 's/\\f[BIPR]//g; s/\\-/-/g; s/\\&//g; s/\\\(dq/"/g; s/\\\(aq/'"'"'/g' "$1"
}

# explained PAGE: the tags of its lists (.TP, .TQ, .IP)
explained() {
	plain "$1" | awk '/^\.(TP|TQ)/ { getline; sub(/^\.[BIR]+ /, ""); print } sub(/^\.IP /, "")' | tr -d '"'
}

# missing PAGE: lines of standard input that are not tags of the page
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

# options [SUBCOMMAND]: the options in its --help
options() {
	{ "$peerpin" ${1:+"$1"} --help; [[ ${1:-} ]] || "$peerpin" --help=settings; } | sed -nE 's/^ +(-.*)/\1/p' | sed 's/   *.*//; s/--\[no-\]/--/' |
		tr ',' '\n' | sed -nE 's/^ +//; s/[ =].*//; /^-/p' | sort -u
}

options_are_explained() {
	local name list

	for name in '' config demo doctor report site top; do
		if [[ $name != @(|demo|site) && ! -x src/tools/peerpin-$name ]]; then
			skip "options of $name: it is not built"
			continue
		fi
		list=$(options "$name")
		[[ $name == @(|demo|site) ]] || matches "options of $name were found" '*--help*--version*' "$list"
		same "options of peerpin $name" '' "$(missing "$(page_of "$name")" <<<"$list")"
		same "exit statuses of peerpin $name" '' "$("$peerpin" ${name:+"$name"} --help |
			sed -n '/^Exit status/,$p' | grep -oE '[0-9]+' | sort -u | missing "$(page_of "$name")")"
	done
	matches 'options of peerpin were found' '*--pin-limit*--sim*--verify*' "$(options '')"
}

tables_are_explained() {
	local titles text words

	same 'the settings are as peerpin config prints them' "$("$config" --man)" \
		"$(sed -n '/^\.SS "Activation/,/^\.SS "Also read/p' docs/man/peerpin.1 | sed '$d')"
	same 'every variable of the table is in it' '' "$(
		sed -n 's/^CONFIG[A-Z_]*(.*"\(PEERPIN_[A-Z_]*\)".*/\1/p' "$srcdir/src/base/config.def" |
			missing docs/man/peerpin.1
	)"
	same 'CHANGELOG has every setting that is gone' '' "$(sed -nE 's/^GONE\("([A-Z_]*)".*/\1/p' "$srcdir/src/base/config.def" |
		while IFS= read -r words; do grep -q "$words" "$srcdir/CHANGELOG.md" || echo "$words"; done)"
	same 'every check of the doctor' '' "$(sed -n 's/^CHECK("\([^"]*\)".*/\1/p' "$srcdir"/src/tools/doctor/rules/*.def |
		missing "$(page_of doctor)")"
	same 'no other check' '' "$(plain "$(page_of doctor)" | sed -n '/^\.SH CHECKS/,/^\.SH PRIVILEGES/p' | grep -A1 '^\.TP' | sed -n 's/^\.B //p' |
		while IFS= read -r text; do grep -q "^CHECK(\"$text\"" "$srcdir"/src/tools/doctor/rules/*.def || echo "$text"; done)"
	same 'pages name installed documents, not the source' '' "$(grep -l 'in the source' "${pages[@]}")"
	titles=$(sed -nE 's/.*table_(begin_line|add_named)\(output, " *([^"]+)".*/\2/p' "$srcdir/src/report/table.c")
	titles+=$'\n'$(sed -nE 's/^METHOD\([^"]*"([^"]*)".*/not by \1/p;T;q' "$srcdir/src/report/methods.def")
	matches 'lines of the table at exit were found' '*GPUDirect RDMA*forwarded*frees*not by *' "$titles $(sort <<<"$titles")"
	same 'every line of the table at exit' '' "$(missing docs/man/peerpin.7 <<<"$titles")"
	text=$(plain docs/man/peerpin.7 | sed -n '/^\.SH THE TABLE/,/^\.SH STATISTICS/p' | sed 's/^\.[A-Z]* //' | tr -d '"' | tr -s ' \n' ' ')
	same 'every word beside a number there' '' "$(
		{
			sed -nE 's/^REASON\([^"]*"([^"(]*[^"( ]).*/\1/p' "$srcdir/src/report/statistics.def"
			grep -oE '(%llu [a-z -]*[a-z]|"in the [a-z]+")' "$srcdir/src/report/table.c" |
				sed 's/^%llu \(of \)\?//; s/"//g' | grep -v '^more'
		} | while IFS= read -r words; do [[ $text == *"$words"* ]] || echo "$words"; done
	)"
	same 'every counter' '' "$(sed -nE 's/^(STATISTIC|REASON|TALLY|HISTOGRAM)\(([a-z_0-9]+),.*/\2/p' \
		"$srcdir/src/report/statistics.def" | missing docs/man/peerpin.7)"
	same 'every reason for which requests are forwarded' '' "$(sed -nE 's/^REASON\(forwarded_[a-z_]*, *"([^"]*)".*/\1/p' \
		"$srcdir/src/report/statistics.def" | missing docs/man/peerpin.7)"
	same 'every level of the log' '' "$(sed -n 's/^CONFIG_WORDS(LEVEL, *\(.*\))/\1/p' "$srcdir/src/base/config.def" |
		tr -d '" ' | tr ',' '\n' | missing docs/man/peerpin.7)"
}

pages_format() {
	local page

	if ! command -v groff >/dev/null; then
		skip 'formatting of the pages: no groff'
		return
	fi
	for page in "${pages[@]}"; do
		same "$page formats without a warning" '' "$(groff -man -ww -Tutf8 "$page" 2>&1 >/dev/null)"
		same "$page has no line over 120 columns" '' \
			"$(groff -man -Tutf8 -P-cbou "$page" 2>/dev/null | awk 'length($0) > 120')"
	done
	command -v mandoc >/dev/null || return 0
	for page in "${pages[@]}"; do
		same "$page passes mandoc's lint" '' "$(mandoc -T lint -W warning "$page" 2>&1 |
			grep -v -e 'missing date' -e 'unusual Xr' || :)"
	done
}

# shellcheck disable=SC2016 # backquotes of Markdown
# Lines of the doctor in the documents are printed for a recorded host; "[...]" stands for any text.
documents_show_what_is_printed() {
	local line pattern count=0

	if [[ ! -x src/tools/peerpin-doctor ]]; then
		skip 'lines of the doctor in the documents: it is not built'
		return
	fi
	if ! command -v python3 >/dev/null; then
		skip 'lines of the doctor in the documents: no python3'
		return
	fi
	mkdir "$tmp/hosts"
	python3 "$srcdir/tests/doctor/make_hosts.py" "$tmp/hosts"
	cat "$srcdir"/tests/doctor/hosts/*.expected >"$tmp/printed"
	{
		cat "$tmp/hosts/proprietary.dump"
		printf '== environment/PYTORCH_CUDA_ALLOC_CONF\nexpandable_segments:True\n'
	} >"$tmp/segments.dump"
	"$peerpin" doctor --only software --from "$tmp/segments.dump" >>"$tmp/printed" || :
	while IFS= read -r line; do
		pattern=$(sed -E 's/[][\.*^$+?(){}|]/\\&/g; s/ *\\\[\\\.\\\.\\\.\\\] */.*/g' <<<"$line")
		grep -qE -e "$pattern" "$tmp/printed" || same 'a line of the documents is one that the doctor prints' "$line" 'not printed'
		count=$((count + 1))
	done < <(cd "$srcdir" && sed -n '/^ *```/,/^ *```/p' "${documents[@]}" |
		grep -E '^(OK|WARN|FAIL|\?|-|fix) +[a-z]|^GPU[0-9]|^(ms to|peerpin saves,)|^GPUDirect RDMA (works|does)')
	matches 'lines of the doctor were found' '[5-9]' "$count"
}

# each LABEL LEAST COMMAND...: COMMAND PLACE NAME succeeds for each line "PLACE NAME" of standard
# input, LEAST lines or more
each() {
	local what=$1 least=$2 place name wrong='' count=0

	while read -r place name; do
		count=$((count + 1))
		"${@:3}" "$place" "$name" || wrong+="$place: $name"$'\n'
	done
	same "$what" '' "$wrong"
	((count >= least)) || same "$what: how many were found" "at least $least" "$count"
}

# of PLACE PATTERN FILE: "PLACE WORD" for each word of the file that matches the pattern of grep -E
of() {
	{ grep -oE "$2" "$3" || :; } | sort -u | sed "s|^|$1 |"
}

is_in_source() { [[ -e $srcdir/$2 || -e $srcdir/docs/$2 ]]; }
is_page() { [[ -e docs/man/$2 || -e $srcdir/docs/man/$2 ]]; }
is_variable() { grep -rqE "\"$2\"" "$srcdir"/src/{base/config.def,sim,tools/doctor}; }
is_counter() { grep -qE "\($2," "$srcdir/src/report/statistics.def"; }

is_section() { grep -qx "\.SH $2" docs/man/peerpin.7; }

# is_heading FILE ANCHOR; "-": no anchor
is_heading() {
	[[ -e $srcdir/$1 ]] && { [[ $2 == - ]] || sed -nE 's/^##+ //p' "$srcdir/$1" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-' | grep -qxF -e "$2"; }
}

# References of manual and documents: files, anchors, pages, variables, counters.
references_exist() {
	local page file

	each 'files that the pages name exist' 8 is_in_source < <(for page in "${pages[@]}"; do
		of "${page##*/}" '\b(docs|tests|include|scripts|src)/[A-Za-z0-9_./-]*[A-Za-z0-9]' <(plain "$page")
	done)
	each 'pages that the pages refer to exist' 18 is_page < <(for page in "${pages[@]}"; do
		sed -nE 's/\\-/-/g; s/^\.BR (peerpin[a-z-]*) \(([137])\).*/\1.\2/p' "$page" | sort -u | sed "s|^|${page##*/} |"
	done)
	each 'hints lead to sections of man 7' 1 is_section < <(sed -nE "s/.*see ([A-Z ]+) in 'man 7 peerpin'.*/- \1/p" "$srcdir"/src/tools/jobs.c)
	each 'the doctor leads to headings that exist' 10 is_heading < <(grep -ohE '"docs/[^"]*"' \
		"$srcdir"/src/tools/doctor/rules/*.def | tr -d '"' | sed 's/#/ /; / /!s/$/ -/' | sort -u)
	each 'links of the documents lead to headings that exist' 10 is_heading < <(cd "$srcdir" &&
		for file in "${documents[@]}" CONTRIBUTING.md docs/*/*.md; do
			of "$file" '\]\([A-Za-z0-9_./-]*#[^)]*' "$file" | sed -E "s|^[^ ]* \]\(#|$file |; s|^[^ ]* \]\(|${file%"${file##*/}"}|; s/#/ /"
		done)
	each 'files that the documents name exist' 30 is_in_source < <(for file in "${documents[@]}"; do
		of "$file" '(\]\(|\b(docs|tests|include|scripts|src)/)[A-Za-z0-9_./-]*\.[a-z]+' "$srcdir/$file" | sed 's/ \](/ /'
	done)
	each 'variables that the documents name exist' 25 is_variable < <(for file in "${documents[@]}"; do
		of "$file" '\bPEERPIN_[A-Z0-9_]*[A-Z0-9]' "$srcdir/$file"
	done)
	# shellcheck disable=SC2016 # backquotes of Markdown
	each 'counters that the documents name exist' 15 is_counter < <(for file in troubleshooting keep limits; do
		of "docs/$file.md" '`[a-z]+(_[a-z]+)+`' "$srcdir/docs/$file.md"
	done | tr -d '`' | grep -vE ' (ibv_.*|mlx5dv_.*|ompi_info|ucx_info|max_mr|env_keep|_exit)$')
}

# command_lines: peerpin's, in README, documents, manual and help, one a line
command_lines() {
	local page name

	{
		for page in "${documents[@]/#/$srcdir/}"; do
			sed -n '/^    /p' "$page"
			# shellcheck disable=SC2016 # backquotes of Markdown
			grep -oE '`[^`]+`' "$page" | tr -d '`'
		done
		for page in "${pages[@]}"; do
			plain "$page" | sed -nE '/^\.nf/,/^\.fi/p; s/^\.B[RI]? "?([^"]*).*/\1/p'
		done
		for name in "${subcommands[@]}"; do "$peerpin" ${name:+"$name"} --help; done
	} | grep -oE '(^|[ (])peerpin( [a-z]+)* -[^]|;()#<>&$"`\]*' | sed -E 's/^[ (]//; s/([A-Za-z0-9])\.$/\1/' | sort -u
}

# accepts LINE: the launcher accepts its options, or the subcommand has them
accepts() {
	local words word

	eval "words=($1)"
	case ${words[1]} in
	config | doctor | report | site | top)
		for word in "${words[@]:2}"; do
			[[ $word != --* ]] || { options "${words[1]}"; [[ ${words[1]} != config ]] || options ''; } |
				grep -xF -e "${word%%=*}" >/dev/null || return
		done
		;;
	observe) (cd "$tmp/examples" && PATH=$tmp/bin:$PATH "$peerpin" observe --dry-run "${words[@]:2}" >/dev/null 2>&1) ;;
	*) (cd "$tmp/examples" && PATH=$tmp/bin:$PATH "$peerpin" --dry-run "${words[@]:1}" >/dev/null 2>&1) ;;
	esac
}

is_option() { grep -qxF -e "$2" <<<"$known"; }

# Options of other programs: configure, docker, jsrun, mpirun, pkg-config, scripts/demo, srun, the tests.
examples_are_accepted() {
	local subcommands=('') name page known line wrong='' count=0

	for name in config site doctor report top; do
		if [[ $name != @(doctor|report|top) || -x src/tools/peerpin-$name ]]; then
			subcommands+=("$name")
		else
			skip "examples of $name: it is not built"
		fi
	done
	mkdir -p "$tmp/examples"
	fake mpirun 'mpirun (Open MPI) 4.1.4'
	fake mpiexec 'HYDRA build details:'
	for name in srun jsrun flux torchrun COMMAND... ../examples/app; do fake "$name" ''; done
	while IFS= read -r line; do
		name=${line#peerpin }
		[[ ${name%% *} != @(doctor|report|top) || " ${subcommands[*]} " == *" ${name%% *} "* ]] || continue
		[[ $line == *' --print-env'* ]] || line+=' true'
		count=$((count + 1))
		accepts "$line" || wrong+=$line$'\n'
	done < <(command_lines)
	same 'peerpin accepts each example' '' "$wrong"
	matches 'examples were found' '[1-9][0-9]' "$count"
	((${#subcommands[@]} == 6)) || return 0
	known=$(for name in "${subcommands[@]}"; do options "$name"; done
		printf -- '--%s\n' app cflags cuda device disable-tools env export gpus host label libs no-verify ntasks-per-node soft-roce with-url)
	each 'options that the pages name exist' 60 is_option < <(for page in "${pages[@]}"; do
		of "${page##*/}" '(^|[^-[:alnum:]])--[a-z][a-z-]*' <(plain "$page") | sed 's/ [^-]*-/ -/'
	done)
	# shellcheck disable=SC2016 # backquotes of Markdown
	each 'options that the documents name exist' 10 is_option < <(for page in "${documents[@]}"; do
		[[ $page != docs/@(hardware|performance).md ]] || continue
		of "$page" '`--[a-z][a-z-]*' "$srcdir/$page" | tr -d '`'
	done)
}

# The messages of the troubleshooting page are those of the library.
troubleshooting_has_messages() {
	local page=$srcdir/docs/troubleshooting.md

	if ! command -v python3 >/dev/null; then
		skip 'messages of the library: no python3'
		return
	fi
	same 'messages of the page are in the source' '' "$(python3 "$srcdir/tests/tools/messages.py" "$srcdir" "$page")"
}

# Links of README and documents, in the installed folder.
links_lead_somewhere() {
	local made=$tmp/installed targets

	targets=$(sed -n 's/^dist_\([a-z]*\)_DATA =.*/install-dist_\1DATA/p' "$srcdir/docs/local.mk")
	# shellcheck disable=SC2086 # words
	MAKEFLAGS='' make -s DESTDIR="$made" docdir=/doc $targets >/dev/null 2>"$tmp/install" || cat "$tmp/install"
	is_installed() { [[ -e $made/doc/$(dirname "$1")/$2 ]]; }
	each 'links of installed documents lead to installed files' 15 is_installed < <(cd "$made/doc" &&
		find . -name '*.md' | while read -r page; do
			of "$page" '\]\([^)#:]+' "$page" | sed 's/ \](/ /'
		done)
	MAKEFLAGS='' make -s DESTDIR="$made" docdir=/doc uninstall >/dev/null 2>"$tmp/install" || cat "$tmp/install"
	same 'make uninstall leaves none' '' "$(find "$made" -type f)"
}

options_are_explained
tables_are_explained
pages_format
documents_show_what_is_printed
references_exist
examples_are_accepted
troubleshooting_has_messages
links_lead_somewhere
finish
