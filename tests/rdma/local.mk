# SPDX-License-Identifier: BSD-3-Clause
# Tests over verbs: "make check-rdma-long" runs them all with one real adapter, "make check-rdma" those that are short on
# Soft-RoCE in an emulated machine.
EXTRA_DIST += tests/rdma/run tests/rdma/vm tests/rdma/adapter tests/rdma/each tests/rdma/check_rdma.sh \
	tests/rdma/check_pressure.sh tests/rdma/check_keep.sh tests/rdma/check_simulated.sh tests/rdma/check_pairs.sh

# Programs and scripts, by their paths in the build folder; each prints its own counts.
RDMA_TESTS =
# Those that take minutes on an emulated machine.
RDMA_LONG_TESTS =
EXTRA_PROGRAMS =

if HAVE_CHECK
if HAVE_VERBS
# "make check" runs them on the simulated adapter.
if SANITIZER
EXTRA_PROGRAMS += tests/rdma/check_rdma tests/rdma/check_pressure tests/rdma/check_keep
else
check_PROGRAMS += tests/rdma/check_rdma tests/rdma/check_pressure tests/rdma/check_keep
TESTS += tests/rdma/check_simulated.sh
endif
check_PROGRAMS += tests/rdma/check_pairs
TESTS += tests/rdma/check_pairs.sh
RDMA_LONG_TESTS += tests/rdma/check_pairs
RDMA_TESTS += $(srcdir)/tests/rdma/check_rdma.sh $(srcdir)/tests/rdma/check_pressure.sh \
	$(srcdir)/tests/rdma/check_keep.sh
rdma_programs = tests/rdma/check_pairs tests/rdma/check_rdma tests/rdma/check_pressure tests/rdma/check_keep
tests_rdma_check_rdma_SOURCES = tests/rdma/check_rdma.c tests/rdma/gpu.h tests/rdma/gpu.c \
	tests/rdma/loopback.h tests/rdma/loopback.c
tests_rdma_check_rdma_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_rdma_check_rdma_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_rdma_check_rdma_LDADD = src/sim/libcuda.la $(CHECK_LIBS) -libverbs -lpthread -ldl
tests_rdma_check_pressure_SOURCES = tests/rdma/check_pressure.c tests/rdma/gpu.h tests/rdma/gpu.c \
	tests/rdma/loopback.h tests/rdma/loopback.c
tests_rdma_check_pressure_CPPFLAGS = $(tests_rdma_check_rdma_CPPFLAGS)
tests_rdma_check_pressure_CFLAGS = $(tests_rdma_check_rdma_CFLAGS)
tests_rdma_check_pressure_LDADD = $(tests_rdma_check_rdma_LDADD)
tests_rdma_check_keep_SOURCES = tests/rdma/check_keep.c tests/rdma/gpu.h tests/rdma/gpu.c \
	tests/rdma/loopback.h tests/rdma/loopback.c
tests_rdma_check_keep_CPPFLAGS = $(tests_rdma_check_rdma_CPPFLAGS)
tests_rdma_check_keep_CFLAGS = $(tests_rdma_check_rdma_CFLAGS)
tests_rdma_check_keep_LDADD = $(tests_rdma_check_rdma_LDADD)
tests_rdma_check_pairs_SOURCES = tests/rdma/check_pairs.c tests/rdma/pairs.h tests/rdma/pairs.c \
	tests/rdma/processes.h tests/rdma/processes.c tests/rdma/pairs_bytes.c tests/rdma/pairs_keys.c tests/rdma/pairs_receives.c tests/rdma/pairs_ended_keys.c tests/rdma/pairs_states.c tests/rdma/pairs_events.c \
	tests/rdma/pairs_ends.c tests/rdma/pairs_forks.c tests/rdma/pairs_threads.c tests/rdma/pairs_sim.c tests/rdma/fabric.h tests/rdma/fabric.c
tests_rdma_check_pairs_CPPFLAGS = $(tests_rdma_check_rdma_CPPFLAGS)
tests_rdma_check_pairs_CFLAGS = $(tests_rdma_check_rdma_CFLAGS)
tests_rdma_check_pairs_LDADD = $(CHECK_LIBS) -libverbs -lpthread
CLEANFILES += tests/rdma/check_rdma tests/rdma/check_pressure tests/rdma/check_keep

# Compares public declarations of peerpin and of the simulated adapter with the installed header.
check_PROGRAMS += tests/unit/abi_verbs
TESTS += tests/unit/abi_verbs
tests_unit_abi_verbs_SOURCES = tests/unit/abi_verbs.c tests/unit/abi_verbs.h tests/unit/abi_verbs_ours.c \
	tests/unit/abi_adapter_ours.c
endif
endif

check-rdma: all $(rdma_programs) $(hardware_programs)
	$(srcdir)/tests/rdma/run --timeout 1800 $(srcdir)/tests/rdma/each $(RDMA_TESTS)

check-rdma-long: all $(rdma_programs) $(hardware_programs)
	$(srcdir)/tests/rdma/run --timeout 3600 $(srcdir)/tests/rdma/each $(RDMA_TESTS) $(RDMA_LONG_TESTS)

.PHONY: check-rdma check-rdma-long
