# SPDX-License-Identifier: BSD-3-Clause
# Patterns of communication over MPI: no part of "make" or "make check", since they need MPI. Built by "make stacks-programs"
# (local.mk), for another MPI library with MPICC and PATTERNS, as "make stacks-mpich" does.
PATTERNS = tests/stacks/patterns
job_sources = tests/stacks/failures.c tests/stacks/buffers.c tests/stacks/channels.c
patterns_sources = $(job_sources) tests/stacks/patterns.c \
	tests/stacks/allocating.c tests/stacks/pool.c tests/stacks/threads.c tests/stacks/windows.c \
	tests/stacks/collectives.c tests/stacks/crash.c tests/stacks/results.c
EXTRA_DIST += $(patterns_sources) tests/stacks/patterns.h tests/stacks/worth_plot

$(PATTERNS): $(patterns_sources) tests/stacks/patterns.h tests/apps/include/cuda.h src/sim/libcuda.la
	$(mpi_program)
CLEANFILES += tests/stacks/patterns
