# SPDX-License-Identifier: BSD-3-Clause
bin_SCRIPTS += scripts/peerpin
EXTRA_DIST += scripts/install-packages scripts/build scripts/demo scripts/test .ci/run

launcher_checks = tests/launcher/check_peerpin.sh tests/launcher/check_inert.sh
# These preload the library into programs that were built without a sanitizer.
if !SANITIZER
check_SCRIPTS += $(launcher_checks)
TESTS += $(launcher_checks)
endif
EXTRA_DIST += tests/launcher/checks $(launcher_checks)
