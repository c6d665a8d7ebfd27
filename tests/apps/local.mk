# SPDX-License-Identifier: BSD-3-Clause
# The demonstration's programs: no part of "make" or "make check", since they need MPI.
EXTRA_DIST += tests/apps/exchange.c tests/apps/include/cuda.h tests/apps/exchange_pair tests/apps/compare
check_SCRIPTS += tests/apps/check_demo.sh
TESTS += tests/apps/check_demo.sh
EXTRA_DIST += tests/apps/check_demo.sh

EXTRA_LTLIBRARIES = tests/apps/registration_witness.la
tests_apps_registration_witness_la_SOURCES = tests/apps/registration_witness.c tests/apps/witness.h tests/apps/witness.c
tests_apps_registration_witness_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_apps_registration_witness_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
tests_apps_registration_witness_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
tests_apps_registration_witness_la_LIBADD = -ldl -lpthread

if HAVE_CUDA_H
exchange_cppflags = $(CUDA_CPPFLAGS)
else
# Behind the system's: its verbs.h is the real one.
exchange_cppflags = -idirafter $(srcdir)/tests/apps/include
endif

# Linked to the driver by its name alone: it runs on any driver.
tests/apps/exchange: tests/apps/exchange.c tests/apps/include/cuda.h src/sim/libcuda.la
	$(AM_V_CCLD)$(MKDIR_P) tests/apps && $(MPICC) $(exchange_cppflags) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) \
		-o $@ $(srcdir)/tests/apps/exchange.c $(LDFLAGS) -Lsrc/sim/.libs -l:libcuda.so.1
CLEANFILES += tests/apps/exchange tests/apps/registration_witness.la

if HAVE_MPI
demo-programs: all tests/apps/exchange tests/apps/registration_witness.la
else
demo-programs:
	@echo 'the demonstration needs an MPI compiler: configure found no mpicc' >&2; exit 1
endif
.PHONY: demo-programs
