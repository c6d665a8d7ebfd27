#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_completion.sh -- bash completion of the command peerpin
set -euo pipefail

with=${COMPLETION_WITH:-}
# shellcheck source=tests/launcher/command
. "$(dirname "$0")/command"
# shellcheck source=/dev/null
. "$PWD/scripts/completion"

# offered WORD...: completions of the last word, with words split as by readline
offered() {
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_TYPE=9
	COMP_POINT=${#COMP_LINE}
	COMPREPLY=() defaults=
	_peerpin
	[[ ${#COMPREPLY[@]} -gt 0 || -z $defaults ]] || mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
	printf '%s\n' "${COMPREPLY[@]}" | sort -u | tr '\n' ' '
}

has() { # has NAME WORD LIST
	case " $3" in
	*" $2 "*) same "$1" '' '' ;;
	*) same "$1" "$2" "$3" ;;
	esac
}

lacks() {
	case " $3" in
	*" $2 "*) same "$1" "no $2" "$3" ;;
	*) same "$1" '' '' ;;
	esac
}

# A second run with bash-completion, which completes the command behind peerpin.
if [[ -z $with && -r /usr/share/bash-completion/bash_completion ]]; then
	# Skipped: the options of doctor, report and top in a build with --disable-tools.
	matches 'with bash-completion' '0 failed, [03] skipped' \
		"$(COMPLETION_WITH=bash-completion bash "$0" 2>&1 | sed -n 's/.* passed, //p; /FAILED/,$p')"
elif [[ -n $with ]]; then
	set +eu
	# shellcheck source=/dev/null
	. /usr/share/bash-completion/bash_completion
	# Stands for readline, which offers files for an empty completion with -o default.
	# shellcheck disable=SC2317 # called by bash-completion
	compopt() { [[ " $*" != *' -o default'* ]] || defaults=yes; }
fi
cd "$tmp"
mkdir here
touch here/file
printf '#!/bin/sh\n' >bin/peer-program
chmod +x bin/peer-program
shopt -u progcomp_alias 2>/dev/null || :

for word in run config demo doctor observe report site top; do
	has "the subcommand $word" "$word" "$(offered peerpin '')"
done
has 'a command' peer-program "$(offered peerpin peer-pro)"
has 'a command behind observe' peer-program "$(offered peerpin observe peer-pro)"

# The options of the table of settings, and those of the command.
same 'options' "$({
	"$config" --options
	printf '%s\n' --sim --sim=driver --top --dry-run --print-env --help --help=settings --version
} | sort -u | tr '\n' ' ')" "$(offered peerpin --)"
same 'the beginning of an option' '--pin-limit= ' "$(offered peerpin --pin)"
has 'an option behind an option' --preregister= "$(offered peerpin --verify --pr)"
same 'the words of an option' 'auto eager off ' "$(offered peerpin --preregister '')"
same 'words behind an equals sign' 'auto ' "$(offered peerpin --preregister = a)"
has 'a command behind an option with its value' peer-program "$(offered peerpin --preregister = off peer-pro)"
has 'a file' here "$(offered peerpin --config-file he)"
has "a file for the program's arguments" here "$(offered peerpin peer-program he)"
lacks "behind the program no options of peerpin's" --preregister= "$(offered peerpin peer-program --)"
has 'a setting as an option of config' --pin-limit= "$(offered peerpin config --p)"
lacks 'what config has not' --dry-run "$(offered peerpin config --)"
same 'a setting by its name' 'PEERPIN_PIN_LIMIT PEERPIN_PREREGISTER ' "$(offered peerpin config PEERPIN_P)"
for word in doctor report top; do
	if [[ -x ${config%config}$word ]]; then
		same "the options of $word are those of its help" \
			"$("$peerpin" "$word" --help | sed -nE 's/^ +(-[a-z], )?(--.*)/\2/p' | grep -oE -- '^--[a-z-]+|, --[a-z-]+' |
				tr -d ', ' | sort -u | tr '\n' ' ')" "$(offered peerpin "$word" --)"
	else
		skip "the options of $word: it is not built"
	fi
done
same 'the groups of checks' 'path probe program ' "$(offered peerpin doctor --only p)"
has 'a folder for doctor' here "$(offered peerpin doctor --sysroot he)"
finish
