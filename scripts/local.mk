# SPDX-License-Identifier: BSD-3-Clause
bin_SCRIPTS += scripts/peerpin
EXTRA_DIST += scripts/install-packages scripts/build scripts/demo scripts/test .ci/run

launcher_checks = tests/launcher/check_peerpin.sh tests/launcher/check_inert.sh
# These preload the library into programs that were built without a sanitizer.
if !SANITIZER
check_SCRIPTS += $(launcher_checks)
TESTS += $(launcher_checks)
check_PROGRAMS += tests/launcher/inert_cost
tests_launcher_inert_cost_SOURCES = tests/launcher/inert_cost.c
check_DATA += tests/launcher/empty.so
tests/launcher/empty.so:
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && echo 'int empty;' | $(CC) $(CFLAGS) -shared -fPIC -x c -o $@ -
CLEANFILES += tests/launcher/empty.so
endif
EXTRA_DIST += tests/launcher/checks $(launcher_checks)
