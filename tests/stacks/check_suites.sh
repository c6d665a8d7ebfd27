#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_suites.sh -- tests/stacks/suites with small suites on the simulated adapter
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/launcher/checks
. "$here/../launcher/checks"
command -v python3 >/dev/null || { echo 'SKIPPED: no python3'; exit 77; }
[[ -e tests/stacks/.libs/verbs_witness.so && -x tests/stacks/witness_client ]] || {
	echo 'SKIPPED: the witness is not built: it needs infiniband/verbs.h'
	exit 77
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
client=$PWD/$(built tests/stacks/witness_client)
export CLIENT=$client STACKS_BUILD=$PWD STACKS_SUITES=$tmp SUITES_TESTS=$tmp/tests SUITES_ADAPTER=$tmp/adapter
export LD_LIBRARY_PATH=$PWD/src/sim/.libs:$PWD/src/sim/adapter/.libs
export RDMA_TEST_DEVICE=none RDMA_TEST_GID_INDEX=0
mkdir -p "$tmp/install/bin" "$tmp/ucx/test/gtest"

cat >"$tmp/adapter" <<'TEXT'
#!/bin/sh
shift 4
exec "$@"
TEXT
# Registers memory, and then does what PLANTED names. The client tries to end a domain that is in use.
cat >"$tmp/install/bin/fi_mr_test" <<'TEXT'
#!/bin/sh
case $PLANTED-$VERBS_WITNESS in
idle-*) exit 0 ;;
mute-*) unset PEERPIN_STATS_FILE ;;
hidden-*) export LD_PRELOAD="${LD_PRELOAD#*libpeerpin.so:}" ;;
esac
PEERPIN_SIM_ADAPTER_BUSY=1 "$CLIENT" >/dev/null || exit
echo 'Running first [its description]...PASS!'
case $PLANTED-$LD_PRELOAD in
line-*libpeerpin*) echo 'Running second [another]...FAIL: a reason' ;;
*) echo 'Running second [another]...PASS!' ;;
esac
echo 'Running third [one more]...skipped because: a reason'
case $PLANTED-$VERBS_WITNESS in
crash-*) [ -e "$VERBS_WITNESS.crashed" ] || { : >"$VERBS_WITNESS.crashed" && kill -11 $$; } ;;
slow-*) sleep 100 ;;
status-*/keep/*) exit 3 ;;
unsteady-*/again/*) exit 4 ;;
esac
exit "$1"
TEXT
cat >"$tmp/ucx/test/gtest/gtest" <<'TEXT'
#!/bin/sh
PEERPIN_SIM_ADAPTER_BUSY=1 "$CLIENT" >/dev/null || exit
[ "$1" != --gtest_list_tests ] || { printf 'of/memory.\n  good\n  fine\n  bad  # of 2\n  dies\n  left\n'; exit; }
for name in $(echo "${1#*=}" | tr : ' '); do
	echo "[ RUN      ] $name <a device>"
	case $PLANTED-$VERBS_WITNESS-$name in
	event-*/keep/*good) name=$name-bad ;;
	esac
	case $name in
	*dies) kill -11 $$ ;;
	*bad) echo "[  FAILED  ] ${name%-bad}, where it matters (1 ms)" ;;
	*left) printf '[     SKIP ] (a reason)\n[       OK ] %s (0 ms)\n' "$name" ;;
	*) echo "[       OK ] $name (1 ms)" ;;
	esac
done
TEXT
chmod +x "$tmp/adapter" "$tmp/install/bin/fi_mr_test" "$tmp/ucx/test/gtest/gtest"
printf '# comment\n\nfabtests alone fi_mr_test 0\nfabtests alone fi_mr_test 61\nfabtests alone fi_mr_test 5\n' >"$tmp/tests"
printf 'ucx gtest of/*\n' >>"$tmp/tests"

# suites PLANTED [ARGUMENT...]: prints the output but for the times
suites() {
	PLANTED=$1 outcome "$here/suites" "${@:2}" | grep -v '^tests/stacks/suites_run: ' | sed 's/ in [0-9]* s//g'
}

matches 'equal results pass' "ok fabtests-gpu peerpin: hits [1-9]*, misses *
#   without peerpin 7 passed, 4 skipped, 1 failed, with 7 passed, 4 skipped, 1 failed
#   registrations [1-9]*
ok fabtests-gpu keep: *ok fabtests-gpu verify: *3 passed, 0 failed, 0 skipped
=> 0" "$(suites none fabtests-gpu)"
matches 'a row fails where a test has another status' "ok fabtests-gpu peerpin: *not ok fabtests-gpu keep: *
#   fi_mr_test 0: passed without, failed: status 3 with
*ok fabtests-gpu verify: *2 passed, 1 failed, 0 skipped
=> 1" "$(suites status fabtests-gpu)"
matches 'or prints another result' "not ok fabtests-gpu peerpin: *
#   fi_mr_test 0: second: passed without, failed with
*0 passed, 3 failed, 0 skipped
=> 1" "$(suites line fabtests-gpu)"
matches 'an unsteady test is named, and not compared' "ok fabtests peerpin: *
#   3 not compared: fi_mr_test 0 fi_mr_test 5 fi_mr_test 61
*=> 0" "$(suites unsteady fabtests)"
matches 'a suite that registers nothing fails' "not ok fabtests peerpin: *
#   the suite registered no memory
*=> 1" "$(suites idle fabtests)"
matches 'so does one without peerpin in its processes' "not ok fabtests peerpin: *
#   peerpin was not in each process
*=> 1" "$(suites hidden fabtests)"
matches 'gtest runs on after a crash' "ok ucx peerpin: *
#   without peerpin 2 passed, 1 skipped, 2 failed, with 2 passed, 1 skipped, 2 failed
*=> 0" "$(suites none ucx)"
matches 'a test that fails with kept memory fails the row' "ok ucx peerpin: *not ok ucx keep: *
#   of/memory.good: passed without, failed with
*2 passed, 1 failed, 0 skipped
=> 1" "$(suites event ucx)"
echo 'ucx frees of/memory.b*:of/memory.g*' >>"$tmp/tests"
matches 'but for one that requires the frees' "ok ucx peerpin: *ok ucx keep: *
#   1 differ, as kept memory's frees do not reach the library: of/memory.good
*3 passed, 0 failed, 0 skipped
=> 0" "$(suites event ucx)"
printf 'fabtests alone fi_mr_test 0\n' >"$tmp/tests"
matches 'a test has a time limit' "ok fabtests peerpin: *
#   without peerpin 2 passed, 1 skipped, 1 failed, with 2 passed, 1 skipped, 1 failed
*=> 0" "$(suites slow --limit 1 --results "$tmp/results" fabtests)"
printf 'fabtests pair fi_mr_test 0\n' >"$tmp/tests"
matches 'a pair has two processes' "ok fabtests peerpin: *
#   without peerpin 5 passed, 2 skipped, 0 failed, with 5 passed, 2 skipped, 0 failed
*=> 0" "$(suites none fabtests)"
matches 'a crash in it is a result' "ok fabtests peerpin: *
#   without peerpin 4 passed, 2 skipped, 1 failed, with *
*=> 0" "$(suites crash fabtests)"
printf '#!/bin/sh\nexit 125\n' >"$tmp/adapter"
same 'no adapter' $'skipped: fabtests: no adapter\n0 passed, 0 failed, 1 skipped\n=> 77' "$(suites none fabtests)"
rm "$tmp/install/bin/fi_mr_test"
finish
