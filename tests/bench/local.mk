# SPDX-License-Identifier: BSD-3-Clause
# The benches: "make bench" runs those that this machine can run, "make check" checks that they work.
bench_sources = tests/bench/bench.h tests/bench/bench.c tests/bench/measure.h tests/bench/measure.c \
	tests/bench/print.h tests/bench/print.c

# Not with a sanitizer: times would be meaningless, and UCX is not built with it.
if !SANITIZER
BENCHES = tests/bench/lookup tests/bench/queries tests/bench/registration
check_PROGRAMS += $(BENCHES)
tests_bench_lookup_SOURCES = $(bench_sources) tests/bench/lookup.c tests/bench/peer.h \
	tests/bench/population.h tests/bench/population.c
tests_bench_lookup_LDADD = tests/unit/libstandin.la src/libcore.la -lpthread -ldl -lm
# For GPU machines too: of the library it has only the reader of symbol tables.
tests_bench_queries_SOURCES = $(bench_sources) tests/bench/queries.c
tests_bench_queries_LDADD = src/libcore.la -lpthread -ldl
# For GPU machines and adapters too: it finds driver and libibverbs at run time.
tests_bench_registration_SOURCES = $(bench_sources) tests/bench/registration.h tests/bench/registration.c \
	tests/bench/registration_hits.c tests/bench/registration_first.c tests/bench/registration_allocating.c tests/bench/registration_client.c \
	tests/bench/registration_patterns.c tests/bench/peer.h src/base/loaded.c src/base/kernel.c
tests_bench_registration_CPPFLAGS = $(AM_CPPFLAGS) # no use of libcore
tests_bench_registration_LDADD = -lpthread -ldl -lm
if HAVE_UCX
tests_bench_lookup_SOURCES += tests/bench/peer_ucx.c
tests_bench_registration_SOURCES += tests/bench/peer_ucx.c
endif
endif
EXTRA_DIST += tests/bench/peer_ucx.c

TESTS += tests/bench/check_page.sh
EXTRA_DIST += tests/bench/run tests/bench/figures tests/bench/page tests/bench/worth.py tests/bench/check_page.sh tests/bench/check_bench.sh \
	tests/bench/recorded/one.json tests/bench/recorded/other.json tests/bench/recorded/again.json \
	tests/bench/recorded/counts.json tests/bench/recorded/notes.md tests/bench/recorded/worth.json
if !SANITIZER
TESTS += tests/bench/check_bench.sh

bench: all $(BENCHES)
	$(top_srcdir)/tests/bench/run bench
else
bench:
	@echo 'with a sanitizer there is nothing to measure' >&2; exit 1
endif

# Other machines' results first: of one machine's results the newest counts. Recorded
# results of tests/stacks/worth have a plot. All rows as tables: bench/rows.md in the build folder.
performance:
	@recorded=$(top_srcdir)/docs/performance; \
	plotted=$$recorded/h200-worth-500.json; \
	if test -e $$plotted; then \
		$(top_srcdir)/tests/stacks/worth_plot $$plotted >worth.svg.tmp && \
			mv worth.svg.tmp $$recorded/worth.svg || exit 1; \
	fi; \
	results=$$(ls $(top_srcdir)/docs/performance/*.json bench/*.json 2>/dev/null); \
	notes=$$recorded/notes.md; mkdir -p bench; cp $$recorded/worth.svg bench; \
	if test -z "$$results"; then echo 'nothing has been measured: make bench' >&2; exit 1; fi; \
	$(top_srcdir)/tests/bench/page $$(test ! -e $$notes || echo "--notes $$notes") $$results \
		>bench/rows.md.tmp && mv bench/rows.md.tmp bench/rows.md && echo bench/rows.md
.PHONY: bench performance
CLEANFILES += bench/rows.md bench/worth.svg bench/lookup.json bench/queries.json bench/registration.json
