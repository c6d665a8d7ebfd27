#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_queries.sh -- queries under the preload and without, on the simulated driver of this build
[ -x tests/intercept/check_queries ] || exit 77
program=tests/intercept/.libs/check_queries
[ -x "$program" ] || program=tests/intercept/check_queries
export PEERPIN_SUMMARY=0 LD_LIBRARY_PATH="$PWD/src/sim/.libs"
library=$PWD/src/.libs/libpeerpin.so
statistics=$(mktemp -d)/statistics.json
trap 'rm -r "${statistics%/*}"' EXIT
status=0

# STEPS KEPT [SETTING...]: KEPT (none, some) queries are of freed memory that the driver still reports
run() {
    steps=$1 kept=$2
    shift 2
    echo "$*"
    rm -f "$statistics"
    output=$(env PEERPIN_STATS_FILE="$statistics" "$@" "$program" "$steps") || status=1
    echo "$output"
    echo "$output" | grep -qx "queries of kept memory: $kept" || { echo "not $kept queries of kept memory"; status=1; }
    case " $*" in
    *" PEERPIN_VERIFY=1"*)
        grep -q '"verify_disagreements": 0,' "$statistics" || { echo 'an answer differs'; status=1; }
        grep -q '"verify_checks": 0,' "$statistics" && { echo 'nothing was verified'; status=1; }
        ;;
    esac
}

run 20000 none
run 40000 none LD_PRELOAD="$library" PEERPIN_SIM_PAGEABLE=1
run 40000 none LD_PRELOAD="$library"
run 40000 none LD_PRELOAD="$library" PEERPIN_VERIFY=1
export PEERPIN_KEEP_HOST=16M
run 40000 some LD_PRELOAD="$library" PEERPIN_KEEP=2M
run 40000 some LD_PRELOAD="$library" PEERPIN_KEEP=inf PEERPIN_VERIFY=1
exit "$status"
