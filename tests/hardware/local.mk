# SPDX-License-Identifier: BSD-3-Clause
# A GPU and an RDMA adapter of the same host: "make check-hardware" proves what cannot be simulated, and writes one file.
EXTRA_DIST += docs/hardware.md tests/hardware/run tests/hardware/steps tests/hardware/machine tests/hardware/read \
	tests/hardware/check_hardware.sh tests/hardware/check_simulated.sh
hardware_programs =
if HAVE_VERBS
if !SANITIZER
EXTRA_PROGRAMS += tests/hardware/leak tests/hardware/ways
EXTRA_LTLIBRARIES += tests/hardware/without_dma_buf.la
hardware_programs += tests/hardware/leak tests/hardware/ways tests/hardware/without_dma_buf.la tests/bench/registration
tests_hardware_leak_SOURCES = tests/hardware/leak.c tests/rdma/gpu.h tests/rdma/gpu.c \
	tests/rdma/loopback.h tests/rdma/loopback.c
tests_hardware_leak_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_hardware_leak_LDADD = src/sim/libcuda.la -libverbs -ldl
tests_hardware_ways_SOURCES = tests/hardware/ways.c tests/rdma/gpu.h tests/rdma/gpu.c \
	tests/rdma/loopback.h tests/rdma/loopback.c
tests_hardware_ways_CPPFLAGS = $(tests_hardware_leak_CPPFLAGS)
tests_hardware_ways_LDADD = $(tests_hardware_leak_LDADD)
tests_hardware_without_dma_buf_la_SOURCES = tests/hardware/without_dma_buf.c
tests_hardware_without_dma_buf_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
CLEANFILES += tests/hardware/leak tests/hardware/ways tests/hardware/without_dma_buf.la
if HAVE_CHECK
hardware_programs += $(rdma_programs)
RDMA_TESTS += $(srcdir)/tests/hardware/check_simulated.sh
endif
if HAVE_MPI
hardware_programs += tests/apps/exchange
endif
endif
endif

TESTS += tests/hardware/check_hardware.sh

hardware-programs: all $(hardware_programs)
check-hardware: hardware-programs
	$(srcdir)/tests/hardware/run --build $(abs_builddir)
.PHONY: hardware-programs check-hardware
