# SPDX-License-Identifier: BSD-3-Clause
# Third-party programs on a real GPU; without one only the comparison is tested.
TESTS += tests/gpu/check_compare.sh tests/gpu/check_latency.sh
EXTRA_DIST += tests/gpu/run tests/gpu/oracle.c tests/gpu/compare tests/gpu/explain.py tests/gpu/check_compare.sh \
	tests/gpu/latencies tests/gpu/check_latency.sh tests/gpu/stage tests/gpu/suites tests/gpu/all tests/gpu/keep tests/gpu/keep_latencies tests/gpu/mpi tests/gpu/mpi_table tests/gpu/lives \
	tests/gpu/programs/training.py tests/gpu/programs/graphs.py tests/gpu/programs/cupy_program.py \
	tests/gpu/programs/jax_program.py tests/gpu/programs/numba_program.py tests/gpu/programs/runtime.c \
	tests/gpu/programs/distributed.py tests/gpu/programs/cuda_python_program.py tests/gpu/programs/keep_pressure.py \
	tests/gpu/programs/keep_cupy.py tests/gpu/programs/keep_thrust.cu \
	tests/gpu/programs/expandable.py

keep_programs = tests/gpu/keep_latency tests/gpu/keep_reuse tests/gpu/keep_memory

# Registrations' hold on GPU memory: with the simulated adapter, on the real driver if present. Not
# with a sanitizer: its run-time library would have to precede the preload.
if !SANITIZER
check_PROGRAMS += tests/gpu/access tests/gpu/cycles tests/gpu/latency tests/gpu/life $(keep_programs)
TESTS += tests/gpu/check_access.sh tests/gpu/check_cycles.sh tests/gpu/check_stage.sh tests/gpu/check_run.sh \
	tests/gpu/check_keep.sh tests/gpu/check_suites.sh tests/gpu/check_mpi.sh tests/gpu/check_lives.sh
if HAVE_CHECK
if HAVE_VERBS
check_PROGRAMS += tests/gpu/frees
endif
endif
endif
EXTRA_DIST += tests/gpu/check_access.sh tests/gpu/check_suites.sh tests/gpu/check_cycles.sh tests/gpu/check_stage.sh tests/gpu/check_run.sh tests/gpu/check_keep.sh tests/gpu/check_mpi.sh tests/gpu/check_lives.sh
tests_gpu_access_SOURCES = tests/gpu/access.c tests/gpu/statistic.h
tests_gpu_access_LDADD = src/sim/adapter/libibverbs.la src/sim/libcuda.la -ldl
tests_gpu_frees_SOURCES = tests/gpu/frees.c tests/rdma/pairs.h tests/rdma/pairs.c tests/rdma/processes.h tests/rdma/processes.c
tests_gpu_frees_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_gpu_frees_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_gpu_frees_LDADD = src/sim/adapter/libibverbs.la src/sim/libcuda.la $(CHECK_STATIC_LIBS) -lpthread -ldl
# Reads the driver's symbol table, not the preload's wrappers.
tests_gpu_cycles_SOURCES = tests/gpu/statistic.h tests/gpu/cycles.c src/base/loaded.c src/base/kernel.c
tests_gpu_cycles_CPPFLAGS = $(AM_CPPFLAGS) # no use of libcore
tests_gpu_cycles_LDADD = src/sim/adapter/libibverbs.la src/sim/libcuda.la -lpthread -ldl
tests_gpu_life_SOURCES = tests/gpu/life.c tests/gpu/statistic.h
tests_gpu_life_LDADD = src/sim/adapter/libibverbs.la src/sim/libcuda.la -ldl
# The driver is found when it runs.
tests_gpu_latency_SOURCES = tests/gpu/latency.c
tests_gpu_latency_LDADD = -ldl
# Kept memory.
tests_gpu_keep_latency_SOURCES = tests/gpu/statistic.h tests/gpu/keep_latency.c
tests_gpu_keep_latency_LDADD = src/sim/libcuda.la -ldl
tests_gpu_keep_reuse_SOURCES = tests/gpu/statistic.h tests/gpu/keep_reuse.c
tests_gpu_keep_reuse_LDADD = src/sim/libcuda.la -lpthread -ldl
tests_gpu_keep_memory_SOURCES = tests/gpu/statistic.h tests/gpu/keep_memory.c
tests_gpu_keep_memory_LDADD = src/sim/libcuda.la -ldl

# Everything that a GPU machine needs of this build, in one folder.
GPU_STAGE = h200
GPU_STAGED =
if HAVE_CHECK
GPU_STAGED += tests/contract/check_driver
endif
if !SANITIZER
GPU_STAGED += tests/gpu/access tests/gpu/cycles tests/gpu/latency tests/gpu/life $(keep_programs) tests/bench/registration
if HAVE_VERBS
if HAVE_CHECK
GPU_STAGED += tests/gpu/frees
endif
if HAVE_MPI
GPU_STAGED += $(PATTERNS)
endif
endif
endif
stage-gpu: all $(GPU_STAGED) tests/intercept/check_queries tests/launcher/empty.so
	$(top_srcdir)/tests/gpu/stage . $(GPU_STAGE)
.PHONY: stage-gpu
