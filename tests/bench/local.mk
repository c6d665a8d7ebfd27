# SPDX-License-Identifier: BSD-3-Clause
# The benches: "make bench" runs those that this machine can run, "make check" checks that they work.
bench_sources = tests/bench/bench.h tests/bench/bench.c

# Not with a sanitizer: times would be meaningless, and UCX is not built with it.
if !SANITIZER
BENCHES = tests/bench/queries tests/bench/registration
check_PROGRAMS += $(BENCHES)
# For GPU machines too: of the library it has only the reader of symbol tables.
tests_bench_queries_SOURCES = $(bench_sources) tests/bench/queries.c
tests_bench_queries_LDADD = src/libcore.la -lpthread -ldl
# For GPU machines and adapters too: it finds driver and libibverbs at run time.
tests_bench_registration_SOURCES = $(bench_sources) tests/bench/registration.h tests/bench/registration.c \
	tests/bench/registration_hits.c tests/bench/registration_first.c tests/bench/registration_allocating.c tests/bench/registration_client.c \
	tests/bench/peer.h src/base/loaded.c src/base/kernel.c
tests_bench_registration_CPPFLAGS = $(AM_CPPFLAGS) # no use of libcore
tests_bench_registration_LDADD = -lpthread -ldl -lm
if HAVE_UCX
tests_bench_registration_SOURCES += tests/bench/peer_ucx.c
endif
endif
EXTRA_DIST += tests/bench/peer_ucx.c

TESTS += tests/bench/check_figures.sh
EXTRA_DIST += tests/bench/run tests/bench/figures tests/bench/check_figures.sh tests/bench/check_bench.sh
if !SANITIZER
TESTS += tests/bench/check_bench.sh

bench: all $(BENCHES)
	$(top_srcdir)/tests/bench/run bench
else
bench:
	@echo 'with a sanitizer there is nothing to measure' >&2; exit 1
endif

# Recorded results of tests/gpu/mpi as a plot, of the UCX that tests/bench/figures takes with 2 ranks.
plotted = $(top_srcdir)/docs/performance/h200-stacks-keep.json dmabuf-1.22.0
performance:
	$(top_srcdir)/tests/stacks/worth_plot $(plotted) >worth.svg.tmp
	mv worth.svg.tmp $(top_srcdir)/docs/performance/worth.svg
.PHONY: bench performance
CLEANFILES += bench/queries.json bench/registration.json
