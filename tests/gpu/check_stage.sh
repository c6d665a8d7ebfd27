#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_stage.sh -- the folder for a GPU machine runs by itself, wherever it is, and its steps end in time
set -u
here=${srcdir:-.}/tests
# shellcheck source=tests/launcher/checks
. "$here/launcher/checks"
[[ -x tests/gpu/cycles && ! -e /dev/nvidiactl ]] || exit 77
command -v python3 >/dev/null || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# lines ARGUMENT...: the folder's summary without times, and the exit status
lines() {
	local status=0

	(cd / && "$folder/moved/all" "$@") >"$folder/text" 2>&1 || status=$?
	sed -n '/^== summary/,$p' "$folder/text" | sed -E 's/ +[0-9]+ s / /'
	echo "=> $status"
}

matches 'it is put together' "$folder/staged: *" "$("$here/gpu/stage" . "$folder/staged" 2>&1 | grep -v 'is not built$')"
mv "$folder/staged" "$folder/moved"
matches 'steps run' $'== summary\ncycles *ok *0 failed*\ntools *ok*\n=> 0' "$(lines cycles tools)"
matches 'the rows of programs need a GPU' $'*run *skipped *there is no GPU\n=> 0' "$(lines run)"
matches 'out of time' $'*cycles *skipped *out of time\n=> 0' "$(GPU_TOTAL=1 lines cycles)"
rm "$folder/moved/tests/gpu/.libs/cycles"
matches 'a step that cannot run' $'*cycles *skipped *\n=> 0' "$(lines cycles)"
echo 'exit 3' >"$folder/moved/tests/gpu/check_cycles.sh"
matches 'a step that fails, and one behind it' $'*cycles *FAILED *\ntools *skipped *\n=> 1' "$(lines cycles tools)"
# Whether the process still runs within 10 s; zombies do not count.
running() {
	local tries state

	for ((tries = 0; tries < 200; tries++)); do
		{ state=$(<"/proc/$(<"$folder/hanging")/stat"); } 2>/dev/null || state=') Z'
		[[ ${state##*) } != Z* ]] || { echo gone; return; }
		sleep 0.05
	done
	echo running
}

# In a process group of its own, as the programs of tests/gpu/run.
cat >"$folder/moved/tests/gpu/check_cycles.sh" <<TEXT
#!/bin/sh
timeout 100 sh -c 'echo \$\$ >"$folder/hanging"; sleep 100 & wait'
TEXT
chmod +x "$folder/moved/tests/gpu/check_cycles.sh"
# Longer limits for a machine that stalls before the step starts.
for total in 9 40 160; do
	late=$(GPU_TOTAL=$total lines cycles)
	[[ $late == *'out of time'* ]] || break
done
matches 'a step out of its time' $'*cycles *FAILED *ended after [1-9]* s\n=> 1' "$late"
same 'leaves nothing behind' gone "$(running)"
rm "$folder/hanging"
"$folder/moved/all" cycles >/dev/null 2>&1 &
while [[ ! -s $folder/hanging ]] && kill -0 $! 2>/dev/null; do sleep 0.05; done
kill $!
wait $!
same 'nor when it is interrupted' gone "$(running)"
[[ ! -e /usr/local/cuda/lib64/libcupti.so ]] || matches 'a row that is none' '*no such row*=> 1' "$(GPU_DEVICE_FILE=/dev/null GPU_BUILD=$folder/moved outcome "$here/gpu/run" nothing)"
finish
