# SPDX-License-Identifier: BSD-3-Clause
# Third-party programs over real verbs: tests/stacks/run. Not in "make" and "make check", since they need MPI and
# verbs; check_*.sh test the parts without an adapter.
EXTRA_DIST += tests/stacks/cuda/build tests/stacks/cuda/rows \
	tests/stacks/cuda/sources tests/stacks/cuda/runtime.c tests/stacks/cuda/nvml.h tests/stacks/cuda/nvml.c \
	tests/stacks/cuda/peer_memory.c tests/stacks/cuda/connections.c tests/stacks/cuda/libfabric_host.c \
	tests/stacks/libfabric_random.c tests/stacks/libfabric_endpoint.h tests/stacks/libfabric_endpoint.c
EXTRA_DIST += tests/stacks/run tests/stacks/inside tests/stacks/pyverbs tests/stacks/rows tests/stacks/pattern_rows tests/stacks/judge \
	tests/stacks/check_stacks.sh \
	tests/stacks/check_ends.sh tests/stacks/check_patterns.sh tests/stacks/check_witness.sh \
	tests/stacks/suites tests/stacks/suites_build tests/stacks/suites_run \
	tests/stacks/suites_tests tests/stacks/check_suites.sh
TESTS += tests/stacks/check_stacks.sh tests/stacks/check_ends.sh tests/stacks/check_patterns.sh \
	tests/stacks/check_witness.sh tests/stacks/check_suites.sh

# The simulated driver with the entries of drivers 575 and newer.
check_LTLIBRARIES += tests/stacks/newer/libcuda.la
tests_stacks_newer_libcuda_la_SOURCES = src/sim/entries_x86_64.S
tests_stacks_newer_libcuda_la_CPPFLAGS = $(AM_CPPFLAGS) -DSIM_NEWER_ENTRIES
tests_stacks_newer_libcuda_la_LDFLAGS = $(sim_ldflags) -rpath /nowhere
tests_stacks_newer_libcuda_la_LIBADD = $(sim_libadd)

EXTRA_LTLIBRARIES = tests/stacks/verbs_witness.la
# A sanitizer has an allocator of its own.
if SANITIZER
EXTRA_LTLIBRARIES += tests/stacks/gpu_buffers.la tests/stacks/gpu_maps.la
else
check_LTLIBRARIES += tests/stacks/gpu_buffers.la tests/stacks/gpu_maps.la
check_PROGRAMS += tests/stacks/allocate
tests_stacks_allocate_SOURCES = tests/stacks/allocate.c
# The compiler may not leave out a pair of malloc and free.
tests_stacks_allocate_CFLAGS = $(AM_CFLAGS) -fno-builtin
endif
stacks_module = -module -avoid-version -shared -rpath /nowhere
tests_stacks_gpu_buffers_la_SOURCES = tests/stacks/gpu_buffers.c
# Its allocator must stay one: the compiler may not make calloc of malloc and memset, or leave out a pair.
tests_stacks_gpu_buffers_la_CFLAGS = $(AM_CFLAGS) $(exchange_cppflags) -fvisibility=hidden -fno-builtin
tests_stacks_gpu_buffers_la_LDFLAGS = $(stacks_module)
tests_stacks_gpu_buffers_la_LIBADD = src/sim/libcuda.la -ldl -lpthread
tests_stacks_gpu_maps_la_SOURCES = tests/stacks/gpu_buffers.c
tests_stacks_gpu_maps_la_CPPFLAGS = $(AM_CPPFLAGS) -DGPU_MAPS
tests_stacks_gpu_maps_la_CFLAGS = $(tests_stacks_gpu_buffers_la_CFLAGS)
tests_stacks_gpu_maps_la_LDFLAGS = $(stacks_module)
tests_stacks_gpu_maps_la_LIBADD = $(tests_stacks_gpu_buffers_la_LIBADD)
tests_stacks_verbs_witness_la_SOURCES = tests/stacks/verbs_witness.c tests/stacks/verbs_witness.h
tests_stacks_verbs_witness_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_stacks_verbs_witness_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
tests_stacks_verbs_witness_la_LDFLAGS = $(stacks_module)
tests_stacks_verbs_witness_la_LIBADD = -ldl -lpthread

# check_witness.sh: a client with known calls, on the simulated adapter.
if HAVE_VERBS
if !SANITIZER
check_DATA += tests/stacks/verbs_witness.la
check_PROGRAMS += tests/stacks/witness_client
tests_stacks_witness_client_SOURCES = tests/stacks/witness_client.c tests/stacks/verbs_witness.h
tests_stacks_witness_client_CPPFLAGS = $(AM_CPPFLAGS) $(exchange_cppflags) -I$(top_srcdir)/tests
tests_stacks_witness_client_LDADD = src/sim/adapter/libibverbs.la src/sim/libcuda.la -ldl -lpthread
endif
endif

# By configure's compiler; the patterns also by MPICH's own, if it is there.
MPICH_CC = mpicc.mpich
CLEANFILES += tests/stacks/gpu_buffers.la tests/stacks/gpu_maps.la tests/stacks/verbs_witness.la

# Where there is an MPI compiler "make check" builds the patterns, and runs them without an adapter.
if HAVE_MPI
if !SANITIZER
check_DATA += $(PATTERNS)
check_LTLIBRARIES += tests/stacks/one_thread.la
tests_stacks_one_thread_la_SOURCES = tests/stacks/one_thread.c
tests_stacks_one_thread_la_LDFLAGS = $(stacks_module)
endif
endif

# A row without a built program is skipped, with that reason.
stacks_programs = tests/stacks/gpu_buffers.la tests/stacks/gpu_maps.la tests/stacks/newer/libcuda.la
if HAVE_VERBS
stacks_programs += tests/stacks/verbs_witness.la
endif
if HAVE_MPI
stacks_programs += $(PATTERNS)
endif
stacks-programs: all $(stacks_programs)
# MPICH's header makes gcc report an overflow for MPI_STATUSES_IGNORE.
stacks-mpich:
	@! command -v $(MPICH_CC) >/dev/null || \
		$(MAKE) MPICC='$(MPICH_CC) -Wno-stringop-overflow' PATTERNS=tests/stacks/patterns.mpich tests/stacks/patterns.mpich
CLEANFILES += tests/stacks/patterns.mpich
.PHONY: stacks-programs stacks-mpich
