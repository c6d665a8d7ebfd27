#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_settings.sh -- settings from every source: output of peerpin config, effects in the library
set -euo pipefail

# shellcheck source=tests/launcher/command
. "$(dirname "$0")/command"

system=$tmp/system.conf own=$tmp/own.conf
cat >"$system" <<'TEXT'
# of the administrator
PEERPIN_PREREGISTER = eager
PEERPIN_KEEP_HOST = 4M
PEERPIN_LOG_LEVEL = info
TEXT
cat >"$own" <<'TEXT'
PEERPIN_KEEP_HOST = 8M
PEERPIN_LOG_LEVEL = warn
PEERPIN_STATS_FILE = a file
TEXT

# row NAME ARGUMENT...: value, source and default of a setting
row() {
	local name=$1
	shift
	"$peerpin" config --system-file "$system" "$@" "$name" | sed -nE "s/^[* ] PEERPIN_[A-Z_]+  +//p" |
		sed -E 's/  +/|/g'
}

sources() {
	same 'built in' '0|built in|0' "$(row verify)"
	same 'the file of the system' "eager|$system:2|auto" "$(row preregister)"
	same 'the file that is named' "8M|$own:1|0" "$(PEERPIN_CONFIG_FILE=$own row keep-host)"
	same 'the environment' '16M|environment|0' "$(PEERPIN_KEEP_HOST=16M PEERPIN_CONFIG_FILE=$own row PEERPIN_KEEP_HOST)"
	same 'an option' '32M|option|0' "$(PEERPIN_KEEP_HOST=16M PEERPIN_CONFIG_FILE=$own row KEEP_HOST --keep-host 32M)"
	same 'a text with a blank' "a file|$own:3|-" "$(row stats-file --config-file "$own")"
	same 'a percentage' '10%|environment|0' "$(PEERPIN_KEEP=10% row PEERPIN_KEEP)"
	same 'what differs' 'PEERPIN_PREREGISTER PEERPIN_KEEP_HOST PEERPIN_LOG_LEVEL ' \
		"$("$peerpin" config --system-file="$system" --changed | sed -n 's/^\* \(PEERPIN_[A-Z_]*\) .*/\1/p' | tr '\n' ' ')"
	same 'nothing differs' $'All settings are at their defaults.\n=> 0' \
		"$(outcome "$peerpin" config --system-file "$tmp/none" --changed)"
	same 'values in the order of their names' $'auto\neager\n0\nauto\n=> 0' \
		"$(outcome "$peerpin" config --system-file "$system" --value pin-limit preregister keep PEERPIN_PIN_LIMIT)"
	same 'no file of the system' $'0\n=> 0' \
		"$(outcome "$peerpin" config --system-file "$tmp/none" --value keep_host)"
}

complaints() {
	same 'a bad value' $'peerpin: environment: PEERPIN_PREREGISTER=never is not allowed (auto, eager or off): it is ignored\neager\n=> 1' \
		"$(PEERPIN_PREREGISTER=never outcome "$peerpin" config --system-file "$system" --value preregister)"
	printf 'PEERPIN_PREREGISTER = eager\nPEERPIN_PREREGISTR = off\n' >"$tmp/bad.conf"
	same 'an unknown name in a file' "peerpin: $tmp/bad.conf:2: PEERPIN_PREREGISTR is unknown: did you mean PEERPIN_PREREGISTER?
eager
=> 1" "$(outcome "$peerpin" config --config-file "$tmp/bad.conf" --value preregister)"
	matches 'a value that would paint is told in one line' \
		$'peerpin: environment: PEERPIN_PREREGISTER=a[?][[]31m[?]b is not allowed (auto, *\n[*] PEERPIN_STATS_FILE *x[?]y *environment *=> 1' \
		"$(PEERPIN_PREREGISTER=$'a\e[31m\nb' PEERPIN_STATS_FILE=$'x\ny' outcome "$peerpin" config --system-file "$tmp/none" --changed |
			grep -e ^peerpin: -e STATS -e '^=>')"
	same 'a file that is missing' "peerpin: $tmp/none: cannot be read: No such file or directory
auto
=> 1" "$(outcome "$peerpin" config --config-file "$tmp/none" --value preregister)"
	matches 'but not one that cannot be read' "peerpin: $tmp: cannot be read: Is a directory*=> 1" \
		"$(outcome "$peerpin" config --system-file "$tmp" --value preregister)"
	same 'a bad option' $'peerpin: --preregister=never is not allowed (auto, eager or off)\n=> 2' \
		"$(outcome "$peerpin" config --preregister=never)"
	same 'a size that can only be a mistake' \
		$'peerpin: --keep=4 (4 bytes) is not allowed (auto; or a size of at least 2M, such as 1.5G or inf; or a percentage from 1% to 100%; 0: none)\n=> 2' \
		"$(outcome "$peerpin" config --keep=4)"
	printf 'PEERPIN_EAGER = 1\n' >"$tmp/former.conf"
	same 'a setting of a former version in a file' "peerpin: $tmp/former.conf:1: PEERPIN_EAGER is no longer a setting, and is ignored: use PEERPIN_PREREGISTER=eager
auto
=> 1" "$(outcome "$peerpin" config --config-file "$tmp/former.conf" --value preregister)"
	same 'an unknown setting' $'peerpin config: unknown setting: preregistr: did you mean PEERPIN_PREREGISTER?\n=> 2' \
		"$(outcome "$peerpin" config preregistr)"
}

forms() {
	same 'no line is too wide for its page' '' \
		"$("$peerpin" config --man | awk 'length($0) > 400'; "$peerpin" --help=settings | awk 'length($0) > 100'
			"$peerpin" config | awk 'length($0) > 100')"
	# shellcheck disable=SC2016 # backquotes of Markdown
	same 'every row is in the manual, the table and the command' \
		"$(sed -n 's/^CONFIG[A-Z_]*(.*"\(PEERPIN_[A-Z_]*\)".*/\1/p' "${srcdir:-..}/src/base/config.def")" \
		"$("$peerpin" config --md | sed -n 's/^| `\(PEERPIN_[A-Z_]*\)`.*/\1/p')"
	# shellcheck disable=SC2016
	same 'the manual has those of the table' "$("$peerpin" config --md | sed -n 's/^| `\(PEERPIN_[A-Z_]*\)`.*/\1/p')" \
		"$("$peerpin" config --man | sed -n 's/^\\fB\(PEERPIN_[A-Z_]*\)\\fR.*/\1/p')"
	if command -v groff >/dev/null; then
		same 'the manual is set without a complaint' '' \
			"$({ echo '.TH T 1'; "$peerpin" config --man; } | groff -man -ww -Tutf8 2>&1 >/dev/null)"
	else
		skip 'the manual is set without a complaint: no groff'
	fi
	if ! command -v python3 >/dev/null || [[ $(outcome "$peerpin" config --json) == *--disable-tools* ]]; then
		skip 'JSON: no python3, or configured with --disable-tools'
		return
	fi
	same 'JSON' 'peerpin-config/1 PEERPIN_PREREGISTER eager option 1 environment: PEERPIN_KEEP_HOS is unknown: did you mean PEERPIN_KEEP_HOST?' \
		"$(PEERPIN_KEEP_HOS=1 "$peerpin" config --json --preregister eager preregister 2>/dev/null | python3 -c 'if True:
			import json, sys
			d = json.load(sys.stdin)
			s = d["settings"][0]
			assert s["words"] == ["auto", "eager", "off"]
			print(d["schema"], s["name"], s["value"], s["source"], len(d["settings"]), *d["complaints"])')"
	same 'JSON of a value with control characters that is no UTF-8' 'a?????b PEERPIN_KEEP=??' \
		"$(PEERPIN_KEEP=$'\x7f\xff' PEERPIN_STATS_FILE=$'a\xff\xc2\x9b\x7f\x1bb' "$peerpin" config --json 2>/dev/null | python3 -c 'if True:
			import json, sys
			d = json.load(sys.stdin)
			print(*[s["value"] for s in d["settings"] if s["name"] == "PEERPIN_STATS_FILE"], *[c.split(": ")[1].split(" ")[0] for c in d["complaints"]])')"
}

# The program allocates on the simulated driver, once.
library_reads() {
	local program=$PWD/tests/intercept/.libs/gpu_only

	[[ -x $program ]] || program=$PWD/tests/intercept/gpu_only
	if [[ ! -x $program ]]; then
		skip 'what the library reads: tests/intercept/gpu_only is not built'
		return
	fi
	run() {
		outcome env LD_LIBRARY_PATH="$simulated" LD_PRELOAD="$library" PEERPIN_SUMMARY=none "$@" "$program"
	}
	printf 'PEERPIN_STATS_FILE = %s\n' "$tmp/one.json" >"$tmp/one.conf"
	same 'a file of settings' $'\n=> 0' "$(run PEERPIN_CONFIG_FILE="$tmp/one.conf")"
	matches 'is heeded' '*"allocations": 1*' "$(cat "$tmp/one.json")"
	same 'the environment counts for more' $'\n=> 0' \
		"$(run PEERPIN_CONFIG_FILE="$tmp/one.conf" PEERPIN_STATS_FILE="$tmp/two.json")"
	matches 'so that its file is written' '*"allocations": 1*' "$(cat "$tmp/two.json")"
	rm -f "$tmp/one.json"
	printf 'PEERPIN_STATS_FILE = %s\nPEERPIN_DISABLE = 1\n' "$tmp/one.json" >"$tmp/off.conf"
	same 'disabled by a file' $'\n=> 0' "$(run PEERPIN_CONFIG_FILE="$tmp/off.conf")"
	same 'so that nothing is written' '' "$(find "$tmp" -name one.json)"
	same 'excluded' $'\n=> 0' "$(run PEERPIN_CONFIG_FILE="$tmp/one.conf" PEERPIN_EXCLUDE='bash,gpu_o*')"
	same 'not included' $'\n=> 0' "$(run PEERPIN_CONFIG_FILE="$tmp/one.conf" PEERPIN_INCLUDE=bash)"
	same 'so that nothing is written either' '' "$(find "$tmp" -name one.json)"
	same 'included' $'\n=> 0' "$(run PEERPIN_CONFIG_FILE="$tmp/one.conf" PEERPIN_INCLUDE='bash,gpu_only')"
	matches 'so that it is written' '*"allocations": 1*' "$(cat "$tmp/one.json")"
	printf 'PEERPIN_PREREGISTER = never\nPEERPIN_LOGG = info\n' >"$tmp/bad.conf"
	matches 'an error in a file is reported with its line' \
		"*<warn>* $tmp/bad.conf:1: PEERPIN_PREREGISTER=never is not *<warn>* $tmp/bad.conf:2: PEERPIN_LOGG is unknown*=> 0" \
		"$(run PEERPIN_CONFIG_FILE="$tmp/bad.conf")"
	same 'once' 2 "$(run PEERPIN_CONFIG_FILE="$tmp/bad.conf" | grep -c warn)"
	same 'unless the log is quieter' $'\n=> 0' "$(run PEERPIN_CONFIG_FILE="$tmp/bad.conf" PEERPIN_LOG_LEVEL=error)"
	matches 'a missing file is told' "*<warn>* PEERPIN_CONFIG_FILE=$tmp/none: cannot be read: No such file or directory*=> 0" \
		"$(run PEERPIN_CONFIG_FILE="$tmp/none")"
	same 'not in a program without CUDA' $'\n=> 0' \
		"$(outcome env LD_PRELOAD="$library" PEERPIN_CONFIG_FILE="$tmp/none" bash -c true)"
	if ! command -v strace >/dev/null || ! strace -o /dev/null true 2>/dev/null; then
		skip 'when files are read: no strace'
		return
	fi
	opened() {
		strace -f -e trace=openat -o "$tmp/calls" -E LD_LIBRARY_PATH="$simulated" -E LD_PRELOAD="$library" \
			-E PEERPIN_SUMMARY=none -E PEERPIN_CONFIG_FILE="$tmp/bad.conf" "$@" 2>/dev/null
		grep -c -e 'peerpin\.conf' -e "$tmp/bad.conf" "$tmp/calls" || :
	}
	same 'both files are read, once' 2 "$(opened "$program")"
	same 'without CUDA none is' 0 "$(opened bash -c true)"
	if command -v python3 >/dev/null; then
		same 'nor by a program that only looks functions of the driver up' 0 \
			"$(opened python3 -c 'import ctypes; ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2')"
	else
		skip 'nor by a program that only looks functions of the driver up: no python3'
	fi
	same 'nor by a program that has the driver loaded and does nothing with it' 0 "$(opened "$program" load)"
}

# A program that gains privileges ignores settings from its caller.
trusts_nobody() {
	local program=$tmp/other

	if [[ $(id -u) -ne 0 ]] || ! command -v setpriv gcc >/dev/null; then
		skip 'a set-uid program gets the built-in settings: it takes root, gcc and setpriv'
		return
	fi
	printf '#include "base/config.h"\n#include <stdio.h>\nint main(void) { printf("%%d %%d", config_is_disabled_early(), config_get()->preregister); return 0; }\n' \
		>"$tmp/other.c"
	if ! gcc -I"${srcdir:-..}/src" -o "$program" "$tmp/other.c" src/.libs/libcore.a -lpthread 2>"$tmp/errors"; then
		skip "a set-uid program gets the built-in settings: $(head -n 1 "$tmp/errors")"
		return
	fi
	printf 'PEERPIN_PREREGISTER = off\n' >"$tmp/off.conf"
	chmod 755 "$tmp" "$program"
	chmod 644 "$tmp/off.conf"
	same 'an ordinary program heeds both' $'1 1\n=> 0' "$(PEERPIN_DISABLE=1 PEERPIN_PREREGISTER=eager outcome "$program")"
	same 'and the file later' $'0 2\n=> 0' "$(PEERPIN_CONFIG_FILE=$tmp/off.conf outcome "$program")"
	chmod 4755 "$program"
	if [[ $(setpriv --reuid 65534 --clear-groups sh -c "id -u; exec $program" 2>&1) != 65534* ]]; then
		skip 'a set-uid program gets the built-in settings: others cannot run it'
		return
	fi
	same 'a set-uid program heeds neither' $'0 0\n=> 0' "$(PEERPIN_DISABLE=1 PEERPIN_PREREGISTER=eager PEERPIN_CONFIG_FILE=$tmp/off.conf \
		outcome setpriv --reuid 65534 --clear-groups "$program")"
}

sources
complaints
forms
library_reads
trusts_nobody
finish
