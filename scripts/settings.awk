# SPDX-License-Identifier: BSD-3-Clause
# settings.awk -- expands the table of settings into a script
#
# usage: awk -f settings.awk ROWS TEMPLATE
# ROWS has a line for each row of src/base/config.def (see settings.in). In TEMPLATE, a line of one of these names
# between two at-signs is replaced. SETTING_CASES: branches of a shell's case. SETTING_HELP: options with meaning, allowed
# values and default. SETTING_OPTIONS: options, with an equals sign if they take a value. SETTING_VARIABLES: variables.
# SETTING_WORDS: branches with the values of an option.

function option_of(variable) {
	sub(/^PEERPIN_/, "", variable)
	gsub(/_/, "-", variable)
	return tolower(variable)
}

# The default: the word of an enumerator, or a text. Switches are off.
function default_of(kind, initial) {
	gsub(/ /, "", initial)
	if (kind in words || initial ~ /^CONFIG_/)
		sub(/^[A-Z_]*_/, "", initial)
	return kind == "BOOL" || kind == "SIZE" || initial ~ /NULL/ ? "" : initial ~ /^[0-9]/ ? initial : tolower(initial)
}

function is_text(kind) {
	return kind == "TEXT" || kind == "FILE_NAME" || kind == "PATH"
}

function take_row(kind, variable, allowed, meaning, initial,    option, takes, standard) {
	option = option_of(variable)
	takes = kind == "BOOL" ? "nothing" : is_text(kind) ? "text" : kind == "SHARE" ? "number" : "value"
	cases = cases sprintf("\t%s) variable=%s takes=%s ;;\n", option, variable, takes)
	standard = default_of(kind, initial)
	standard = standard ? "; default: " standard : ""
	if (allowed in named)
		meaning = meaning " (as for " named[allowed] standard ")"
	else if (kind != "BOOL" && kind != "PATH") {
		meaning = meaning " (" allowed standard ")"
		named[allowed] = "--" option
	} else if (standard)
		meaning = meaning " (" substr(standard, 3) ")"
	help = help wrapped(kind == "BOOL" ? "--[no-]" option : "--" option (kind == "SHARE" ? " [VALUE]" : " VALUE"), meaning)
	options = options (kind == "BOOL" ? "--" option "\n--no-" option "\n" : "--" option "=\n")
	variables = variables variable "\n"
	if (kind in words)
		branches = branches sprintf("\t--%s) words='%s' ;;\n", option, words[kind])
	else if (kind == "BOOL")
		branches = branches sprintf("\t--%s) words='0 1' ;;\n", option)
	else if (kind == "CPUS")
		branches = branches sprintf("\t--%s) words='auto inherit' ;;\n", option)
	else if (is_text(kind))
		branches = branches sprintf("\t--%s) words=%s ;;\n", option, meaning ~ /file/ ? "FILES" : "")
}

# One option and its meaning beside it, up to 100 columns.
function wrapped(left, text,    parts, count, i, line, all) {
	line = sprintf("  %-22s", left)
	count = split(text, parts, " ")
	for (i = 1; i <= count; i++) {
		if (length(line) + 1 + length(parts[i]) > 100) {
			all = all line "\n"
			line = sprintf("  %-22s", "")
		}
		line = line " " parts[i]
	}
	return all line "\n"
}

FNR == NR {
	count = split($0, quoted, "\"")
	if ($1 == "group")
		help = help "\n" quoted[2] ":\n"
	else if ($1 == "words") {
		words[$2] = quoted[2]
		for (i = 4; i < count; i += 2)
			words[$2] = words[$2] " " quoted[i]
	} else if ($1 == "row")
		take_row($2, quoted[2], quoted[4], quoted[6], count > 7 ? quoted[8] : quoted[7])
	next
}
$0 == "@SETTING_CASES@" { printf "%s", cases; next }
$0 == "@SETTING_HELP@" { printf "%s", help; next }
$0 == "@SETTING_OPTIONS@" { printf "%s", options; next }
$0 == "@SETTING_VARIABLES@" { printf "%s", variables; next }
$0 == "@SETTING_WORDS@" { printf "%s", branches; next }
{ print }
