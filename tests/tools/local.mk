# SPDX-License-Identifier: BSD-3-Clause
# Output of the library, and the tools that read it. These tests preload the library: no sanitizer.
if !SANITIZER
check_PROGRAMS += tests/tools/client
tests_tools_client_SOURCES = tests/tools/client.c
tests_tools_client_LDADD = src/sim/adapter/libibverbs.la src/sim/libcuda.la -lpthread -ldl
if CPU_X86_64
# The simulated driver with entries that record each call.
check_LTLIBRARIES += tests/tools/traced/libcuda.la
tests_tools_traced_libcuda_la_SOURCES = tests/tools/traced_entries.S tests/tools/traced.c
tests_tools_traced_libcuda_la_LDFLAGS = $(sim_ldflags) -rpath /nowhere
tests_tools_traced_libcuda_la_LIBADD = $(sim_libadd)
endif
tools_checks = tests/tools/check_observe.sh tests/tools/check_statistics.sh tests/tools/check_forms.sh
check_SCRIPTS += $(tools_checks)
TESTS += $(tools_checks)
endif
check_PROGRAMS += tests/tools/hinted
tests_tools_hinted_SOURCES = tests/tools/hinted.c
tests_tools_hinted_LDADD = src/libcore.la -lpthread
check_SCRIPTS += tests/tools/check_hints.sh
TESTS += tests/tools/check_hints.sh
EXTRA_DIST += tests/tools/check_hints.sh $(tools_checks) tests/tools/traced_entries.S tests/tools/browser tests/tools/predict tests/tools/preloaded tests/tools/schema.py
