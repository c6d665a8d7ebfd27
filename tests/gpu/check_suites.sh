#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_suites.sh -- tests/gpu/suites with a small suite on the simulated driver
set -u
here=${srcdir:-.}/tests
# shellcheck source=tests/launcher/checks
. "$here/launcher/checks"
[[ -e src/.libs/libpeerpin.so && -e src/sim/.libs/libcuda.so.1 && ! -e /dev/nvidiactl ]] || exit 77
command -v python3 >/dev/null || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/suite.py" <<'TEXT'
import ctypes, os, unittest
from filecheck.matcher import Matcher
cuda = ctypes.CDLL("libcuda.so.1")

class Memory(unittest.TestCase):
    def test_allocate(self):
        context, address = ctypes.c_void_p(), ctypes.c_uint64()
        self.assertEqual(cuda.cuInit(0), 0)
        self.assertEqual(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0), 0)
        self.assertEqual(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1000)), 0)
        self.assertEqual(cuda.cuMemFree_v2(address), 0)

    def test_fails(self):
        self.fail()

    @unittest.skip("always")
    def test_skipped(self):
        pass

    def test_unsteady(self):
        file = os.open(os.environ["TURNS"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        os.write(file, b".")
        raise type(f"Turn{os.lseek(file, 0, os.SEEK_CUR)}", (Exception,), {})

    def test_sees_the_preload(self):
        self.assertNotIn(os.environ.get("SENSITIVE", "none"), os.environ)
TEXT

# suite [NAME=VALUE...] MODULE...
suite() {
	rm -f "$folder/turns"
	outcome env PYTHONPATH="$folder" TURNS="$folder/turns" GPU_DEVICE_FILE=/dev/null GPU_BUILD="$PWD" LD_LIBRARY_PATH="$PWD/src/sim/.libs" "$@"
}

matches 'equal results' "# suite: without peerpin 2 passed, 2 failed, 1 skipped; 1 left out: suite.Memory.test_unsteady
ok suite, peerpin: equal results; 1 allocations, 0 kept, 0 disagreements*
ok suite, keep: equal results; 1 allocations, 1 kept, 0 disagreements*
ok suite, verify: equal results; 1 allocations, 0 kept, 0 disagreements*
3 passed, 0 failed, 0 skipped
=> 0" "$(suite "$here/gpu/suites" suite)"
matches 'a test that sees a difference' "*
not ok suite, peerpin: *
# suite.Memory.test_sees_the_preload: passed without, failed: AssertionError with
*not ok suite, keep: *not ok suite, verify: *
0 passed, 3 failed, 0 skipped
=> 1" "$(suite SENSITIVE=LD_PRELOAD "$here/gpu/suites" suite)"
matches 'a module that is missing' $'skipped: missing: *\n=> 77' "$(suite "$here/gpu/suites" missing)"
echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))
