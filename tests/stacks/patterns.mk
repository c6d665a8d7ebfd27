# SPDX-License-Identifier: BSD-3-Clause
# Patterns of communication over MPI: no part of "make" or "make check", since they need MPI. Built by "make stacks-programs"
# (local.mk), for another MPI library with MPICC and PATTERNS, as "make stacks-mpich" does.
PATTERNS = tests/stacks/patterns
job_sources = tests/stacks/failures.c tests/stacks/buffers.c tests/stacks/channels.c
patterns_sources = $(job_sources) tests/stacks/patterns.c tests/stacks/fixed.c \
	tests/stacks/allocating.c tests/stacks/pool.c tests/stacks/threads.c tests/stacks/windows.c \
	tests/stacks/collectives.c tests/stacks/crash.c tests/stacks/results.c tests/stacks/turns.c
EXTRA_DIST += $(patterns_sources) tests/stacks/patterns.h tests/stacks/worth tests/stacks/worth_jobs \
	tests/stacks/worth_table tests/stacks/worth_plot

$(PATTERNS): $(patterns_sources) tests/stacks/patterns.h tests/apps/include/cuda.h src/sim/libcuda.la
	$(mpi_program)
CLEANFILES += tests/stacks/patterns bench/worth-*.json

# Gain by peerpin for each pattern, over the simulated adapter: to bench/worth-500.json. WORTH_OPTIONS are those of
# tests/stacks/worth; recorded are those of a GPU (--gpu --cuda), in docs/performance.
WORTH_OPTIONS = --added-us 500
if HAVE_MPI
worth: stacks-programs
	$(top_srcdir)/tests/stacks/worth $(WORTH_OPTIONS) .
else
worth:
	@echo 'these programs need an MPI compiler: configure found no mpicc' >&2; exit 1
endif
.PHONY: worth
