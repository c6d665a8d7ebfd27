# SPDX-License-Identifier: BSD-3-Clause
# errors.awk -- prints the last table of docs/troubleshooting.md from src/report/errors.def

function put() {
	if (messages)
		print "| " messages " | " text " |"
}
BEGIN {
	print "| message begins with | cause | fix |\n| --- | --- | --- |"
}
{ row = row $0 }
/\)$/ {
	split(row, quoted, "\"")
	split(row, word, /[(,] */)
	if (word[1] == "CALL")
		name[word[2]] = quoted[2]
	else if (word[1] == "ERROR") {
		call = word[2] == "KERNEL" || word[2] == "CUDA" ? "[...]" : name[word[2]]
		if (text != quoted[2] " | " quoted[4]) {
			put()
			messages = ""
			text = quoted[2] " | " quoted[4]
		}
		messages = messages (messages ? ", " : "") "`" call ": " word[3] "`"
	}
}
!/^ERROR/ || /\)$/ { row = "" }
END { put() }
