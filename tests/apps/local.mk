# SPDX-License-Identifier: BSD-3-Clause
# The demonstration's programs: no part of "make" or "make check", since they need MPI.
EXTRA_DIST += tests/apps/exchange.c tests/apps/include/cuda.h tests/apps/exchange_pair tests/apps/compare
check_SCRIPTS += tests/apps/check_demo.sh
TESTS += tests/apps/check_demo.sh
EXTRA_DIST += tests/apps/check_demo.sh

if HAVE_CUDA_H
exchange_cppflags = $(CUDA_CPPFLAGS)
else
# Behind the system's: its verbs.h is the real one.
exchange_cppflags = -idirafter $(srcdir)/tests/apps/include
endif

# Linked to the driver by its name alone: it runs on any driver.
mpi_program = $(AM_V_CCLD)$(MKDIR_P) $(@D) && $(MPICC) $(exchange_cppflags) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) \
	-I$(srcdir)/tests/stacks -o $@ $(filter %.c, $^) $(LDFLAGS) -Lsrc/sim/.libs -l:libcuda.so.1 -lpthread
tests/apps/exchange: tests/apps/exchange.c $(job_sources) tests/stacks/patterns.h tests/apps/include/cuda.h src/sim/libcuda.la
	$(mpi_program)
CLEANFILES += tests/apps/exchange

if HAVE_MPI
if HAVE_VERBS
demo_programs = all tests/apps/exchange tests/stacks/verbs_witness.la
else
demo_programs = demo-lacks
endif
else
demo_programs = demo-lacks
endif
demo-programs: $(demo_programs)
demo-lacks:
	@echo 'the demonstration needs an MPI compiler and infiniband/verbs.h: configure found no mpicc, or no header' >&2; exit 1
.PHONY: demo-programs demo-lacks
