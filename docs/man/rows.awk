# SPDX-License-Identifier: BSD-3-Clause
# rows.awk -- inserts the tables of settings and of statistics into a manual page
#
# usage: awk -f rows.awk SETTINGS STATISTICS TEMPLATE
# The first two have a line for each row of src/base/config.def (scripts/settings.in) and of src/report/statistics.def
# (statistics.in). It replaces a line of TEMPLATE that is one of these names between two at-signs: SETTINGS, each variable
# with its option, as `peerpin config --man` prints it; COUNTERS and HISTOGRAMS.

function roff(text) {
	gsub(/\\/, "\\e", text)
	gsub(/-/, "\\-", text)
	return text ~ /^[.']/ ? "\\&" text : text
}

# The name in peerpin config: a row has the C expression.
function default_of(kind, expression) {
	gsub(/[ \t]/, "", expression)
	if (expression == "" || expression == "NULL")
		return "none"
	if (expression ~ /^[0-9]+$/)
		return expression
	sub(/^[A-Z_]+_/, "", expression)
	return expression ~ /^[0-9]/ ? expression : tolower(expression)
}

function take_setting(kind, variable, allowed, meaning, initial,    option) {
	option = variable
	sub(/^PEERPIN_/, "", option)
	gsub(/_/, "-", option)
	settings = settings ".TP\n\\fB" roff(variable) "\\fR, \\fB" roff("--" tolower(option))
	settings = settings (kind == "BOOL" ? "\\fR\n" : "=\\fR\\fIVALUE\\fR\n")
	settings = settings roff(meaning) "\nAllowed: " roff(allowed) ".\nDefault: " roff(default_of(kind, initial)) ".\n"
}

FNR == 1 { file++ }
file < 3 {
	split($0, quoted, "\"")
	if ($1 == "group")
		settings = settings ".SS \"" quoted[2] "\"\n"
	else if ($1 == "row")
		take_setting($2, quoted[2], quoted[4], quoted[6], quoted[7] quoted[8])
	else if ($1 == "counter")
		counters = counters ".TP\n.B " roff($2) "\n" roff(quoted[2]) ".\n"
	else if ($1 == "histogram")
		histograms = histograms ".TP\n.B " roff($2) "\n" roff(quoted[2]) ".\n"
	next
}
$0 == "@SETTINGS@" { printf "%s", settings; next }
$0 == "@COUNTERS@" { printf "%s", counters; next }
$0 == "@HISTOGRAMS@" { printf "%s", histograms; next }
{ print }
