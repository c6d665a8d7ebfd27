# SPDX-License-Identifier: BSD-3-Clause
# The driver's contract, tested on the libcuda that the dynamic linker finds: the simulated one in
# "make check", a real one on a GPU machine. Linked statically to Check, so that the program can be
# copied to that machine alone.
if HAVE_CHECK
check_PROGRAMS += tests/contract/check_driver
TESTS += tests/contract/check_driver.sh
if !SANITIZER
TESTS += tests/contract/check_kept.sh
endif
endif
# The tests run in the order of these files.
tests_contract_check_driver_SOURCES = tests/contract/check_driver.c tests/contract/driver.h tests/contract/driver.c \
	tests/contract/memory.c tests/contract/devices.c tests/contract/host.c tests/contract/pointers.c \
	tests/contract/queries.c tests/contract/streams.c tests/contract/pools.c \
	tests/contract/mappings.c tests/contract/captures.c tests/contract/capture_calls.c tests/contract/imports.c tests/contract/contexts.c \
	tests/contract/modules.c tests/contract/proc_address.c
tests_contract_check_driver_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_contract_check_driver_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_contract_check_driver_LDADD = $(CHECK_STATIC_LIBS) -lpthread -ldl
EXTRA_DIST += tests/contract/check_driver.sh tests/contract/check_kept.sh

if HAVE_CUDA_H
check_PROGRAMS += tests/unit/abi_cuda
TESTS += tests/unit/abi_cuda
endif
EXTRA_DIST += tests/unit/abi_cuda.c
tests_unit_abi_cuda_SOURCES = tests/unit/abi_cuda.c
tests_unit_abi_cuda_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
