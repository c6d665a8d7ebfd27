# SPDX-License-Identifier: BSD-3-Clause
# A GPU and an RDMA adapter of the same host: "make check-hardware" tests the properties that
# cannot be simulated, and writes one file.
EXTRA_DIST += tests/hardware/run tests/hardware/steps tests/hardware/machine \
	tests/hardware/check_hardware.sh tests/hardware/check_simulated.sh
hardware_programs =
if HAVE_VERBS
if !SANITIZER
EXTRA_PROGRAMS += tests/hardware/leak tests/hardware/methods
EXTRA_LTLIBRARIES += tests/hardware/without_dma_buf.la
hardware_programs += tests/hardware/leak tests/hardware/methods tests/hardware/without_dma_buf.la tests/bench/registration
tests_hardware_leak_SOURCES = tests/hardware/leak.c tests/gpu/statistic.h tests/rdma/gpu.h tests/rdma/gpu.c \
	tests/rdma/loopback.h tests/rdma/loopback.c
tests_hardware_leak_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_hardware_leak_LDADD = src/sim/libcuda.la -libverbs -ldl
tests_hardware_methods_SOURCES = tests/hardware/methods.c tests/rdma/gpu.h tests/rdma/gpu.c \
	tests/rdma/loopback.h tests/rdma/loopback.c
tests_hardware_methods_CPPFLAGS = $(tests_hardware_leak_CPPFLAGS)
tests_hardware_methods_LDADD = $(tests_hardware_leak_LDADD)
tests_hardware_without_dma_buf_la_SOURCES = tests/hardware/without_dma_buf.c
tests_hardware_without_dma_buf_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
CLEANFILES += tests/hardware/leak tests/hardware/methods tests/hardware/without_dma_buf.la
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

# For hosts without a compiler: unpacked anywhere, its tests/hardware/run finds the rest beside
# itself. config.status marks a build folder for scripts/peerpin.
hardware_archived = scripts/peerpin src/.libs/libpeerpin.so src/sim/.libs/libcuda.so.1 src/tools/peerpin-doctor \
	src/tools/peerpin-config tests/bench/registration tests/apps/exchange tests/hardware/.libs/without_dma_buf.so \
	tests/hardware/leak tests/hardware/methods tests/rdma/check_rdma tests/rdma/check_pressure \
	tests/hardware/.libs/leak tests/hardware/.libs/methods tests/rdma/.libs/check_rdma tests/rdma/.libs/check_pressure
hardware-archive: hardware-programs
	folder=$$(mktemp -d) && mkdir $$folder/peerpin-hardware && \
	tar -C $(srcdir) -cf - tests/hardware tests/rdma/adapter | tar -C $$folder/peerpin-hardware -xf - && \
	tar -chf - $$(ls $(hardware_archived) 2>/dev/null) | tar -C $$folder/peerpin-hardware -xf - && \
	: >$$folder/peerpin-hardware/config.status && \
	tar -C $$folder -czf peerpin-hardware.tar.gz peerpin-hardware && rm -r $$folder
CLEANFILES += peerpin-hardware.tar.gz
.PHONY: hardware-programs hardware-archive check-hardware
