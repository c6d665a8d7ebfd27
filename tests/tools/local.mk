# SPDX-License-Identifier: BSD-3-Clause
# Output of the library, and the tools that read it. These tests preload the library: no sanitizer.
if !SANITIZER
check_PROGRAMS += tests/tools/client
tests_tools_client_SOURCES = tests/tools/client.c
tests_tools_client_LDADD = src/sim/adapter/libibverbs.la src/sim/libcuda.la -lpthread -ldl
tools_checks = tests/tools/check_statistics.sh tests/tools/check_forms.sh
check_SCRIPTS += $(tools_checks)
TESTS += $(tools_checks)
endif
EXTRA_DIST += $(tools_checks) tests/tools/preloaded tests/tools/segments tests/tools/schema.py
