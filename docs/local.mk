# SPDX-License-Identifier: BSD-3-Clause
# The manual. The preprocessor and awk insert tables of the code, so that a cross build has the same text.
manual_made = docs/man/peerpin.1 docs/man/peerpin.7
manual_pages = docs/man/peerpin-config.1 docs/man/peerpin-doctor.1 docs/man/peerpin-report.1 docs/man/peerpin-top.1
man_MANS = $(manual_made)
dist_man_MANS += $(manual_pages)
manual_rows = scripts/settings docs/man/statistics

docs/man/statistics: $(srcdir)/docs/man/statistics.in $(srcdir)/src/report/statistics.def
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(CC) -E -P -x c -I$(srcdir)/src $(srcdir)/docs/man/statistics.in >$@.tmp && \
	tr '\n' ' ' <$@.tmp | tr '@' '\n' >$@ && rm $@.tmp
docs/man/peerpin.1: $(srcdir)/docs/man/peerpin.1.in $(srcdir)/docs/man/rows.awk $(manual_rows)
	$(AM_V_GEN)awk -f $(srcdir)/docs/man/rows.awk $(manual_rows) $(srcdir)/docs/man/peerpin.1.in >$@.tmp && mv $@.tmp $@
docs/man/peerpin.7: $(srcdir)/docs/man/peerpin.7.in $(srcdir)/docs/man/rows.awk $(manual_rows)
	$(AM_V_GEN)awk -f $(srcdir)/docs/man/rows.awk $(manual_rows) $(srcdir)/docs/man/peerpin.7.in >$@.tmp && mv $@.tmp $@
CLEANFILES += docs/man/statistics $(manual_made)
EXTRA_DIST += docs/support/debian12.json docs/support/debian13.json docs/errors.awk tests/tools/messages.py docs/man/statistics.in docs/man/rows.awk docs/man/peerpin.1.in docs/man/peerpin.7.in

manual_checks = tests/tools/check_man.sh tests/tools/check_support.sh
check_SCRIPTS += $(manual_checks)
TESTS += $(manual_checks)
EXTRA_DIST += $(manual_checks)
# Documents that the command, the manual and their links name, at the same relative paths as in the source.
dist_doc_DATA = README.md CONTRIBUTING.md SUPPORT.md
docsdir = $(docdir)/docs
dist_docs_DATA = docs/README.md docs/quickstart.md docs/deployment.md docs/worth.md \
	docs/troubleshooting.md docs/keep.md docs/limits.md docs/hardware.md \
	docs/performance.md docs/support.md docs/stats.schema.json docs/report.schema.json
internalsdir = $(docdir)/docs/internals
dist_internals_DATA = docs/internals/architecture.md docs/internals/coverage.md docs/internals/forms.md \
	docs/internals/queries.md docs/internals/registration.md
performancedir = $(docdir)/docs/performance
dist_performance_DATA = docs/performance/worth.svg docs/performance/h100-worth-50.json docs/performance/h100-worth-50-bound.json \
	docs/performance/h100-worth-500.json docs/performance/h100-worth-500-bound.json docs/performance/h100-worth-1400.json \
	docs/performance/h100-worth-1400-bound.json docs/performance/h100-mpi.json docs/performance/h200-mpi.json docs/performance/h200-mpi-bound.json \
	docs/performance/notes.md \
	docs/performance/h100-exchange.json docs/performance/h100-first.json docs/performance/h100-first-500.json \
	docs/performance/h200-cycles.json docs/performance/h200-exchange.json docs/performance/h200-exports.json \
	docs/performance/h200-first.json docs/performance/h200-first-100.json \
	docs/performance/h200-first-400.json docs/performance/h200-first-1400.json docs/performance/h100-keep.json \
	docs/performance/h200-latency.json docs/performance/h200-pairs.json docs/performance/h200-programs.json \
	docs/performance/h200-lookup.json docs/performance/h200-queries.json docs/performance/h200-ranks.json docs/performance/h200-queries-off.json \
	docs/performance/h200-hits.json docs/performance/h200-registration.json docs/performance/no-gpu-hits.json docs/performance/no-gpu-lookup.json \
	docs/performance/no-gpu-queries.json docs/performance/no-gpu-registration.json docs/performance/vm-registration.json
examplesdir = $(docdir)/docs/examples
dist_examples_DATA = docs/examples/cache.c
