# SPDX-License-Identifier: BSD-3-Clause
# traps_list.sh -- libraries, settings and runs that check_traps.sh and check_aarch64 share; bash
# sources it in the build folder
library=$PWD/src/.libs/libpeerpin.so
libs=$PWD/tests/intercept/.libs
sim=$PWD/src/sim/.libs
adapter=$PWD/src/sim/adapter/.libs

# Environment of every run. Each script adds MATRIX_EXPORTER, a command.
traps_settings=(
    PEERPIN_SUMMARY=0 PEERPIN_LOG_LEVEL=error PEERPIN_KEEP_HOST=4K
    "MATRIX_BYPASS=$libs/libucm_bypass.so" "MATRIX_PLUGIN=$libs/matrix_plugin.so"
    "TRAPS_HOOKS=$libs/hooks.so" "TRAPS_LINKED=$libs/libucm_linked.so" "TRAPS_DEEPBIND=$libs/deepbind.so"
    "TRAPS_DRIVER=$sim/libcuda.so.1" "TRAPS_INNER=$PWD/tests/intercept/inner/libinner.so"
)

place() { # place NAME: the path of the executable that libtool built, not of its wrapper script
    if [ -x "$libs/$1" ]; then echo "$libs/$1"; else echo "$PWD/tests/intercept/$1"; fi
}

# traps_runs RUN: call RUN NAME FOLDERS PROGRAM [ARGUMENT...] for each run; the program's libraries
# are in FOLDERS
traps_runs() {
    local way

    "$1" traps "$sim" ordinary
    "$1" 'traps on a special driver' "$PWD/tests/intercept/shim:$PWD/tests/intercept/inner" with_shim
    for way in plain deep libc version namespace; do
        "$1" "loads: $way" "$adapter:$sim" with_loads "$way"
    done
    "$1" 'a plug-in alone' "$sim" local "$libs/matrix_plugin.so" "$libs/librows.so"
}

# functions_of DRIVER: input of `names`
functions_of() {
    readelf --dyn-syms -W "$1" | awk '$4 == "FUNC" && $7 != "UND" && $8 ~ /^cu/ { sub(/@.*/, "", $8); print $2, $8 }'
}
