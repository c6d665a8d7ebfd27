# SPDX-License-Identifier: BSD-3-Clause
# The manual. The preprocessor and awk insert tables of the code, so that a cross build has the same text.
manual_made = docs/man/peerpin.1 docs/man/peerpin.7
manual_pages = docs/man/peerpin-config.1 docs/man/peerpin-demo.1 docs/man/peerpin-doctor.1 docs/man/peerpin-report.1 docs/man/peerpin-site.1 \
	docs/man/peerpin-top.1
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
EXTRA_DIST += tests/tools/messages.py docs/man/statistics.in docs/man/rows.awk docs/man/peerpin.1.in docs/man/peerpin.7.in

manual_checks = tests/tools/check_man.sh tests/tools/check_support.sh
check_SCRIPTS += $(manual_checks)
TESTS += $(manual_checks)
EXTRA_DIST += $(manual_checks)
# Documents for users, at the same relative paths as in the source. Those for developers are in the source alone.
dist_doc_DATA = README.md CHANGELOG.md SUPPORT.md SECURITY.md
docsdir = $(docdir)/docs
dist_docs_DATA = docs/README.md docs/quickstart.md docs/deployment.md docs/worth.md docs/observe.md \
	docs/troubleshooting.md docs/keep.md docs/limits.md docs/memory-ordering.md docs/hardware.md \
	docs/performance.md docs/how-it-works.svg docs/stats.schema.json docs/report.schema.json
performancedir = $(docdir)/docs/performance
dist_performance_DATA = docs/performance/worth.svg
supportdir = $(docdir)/docs/support
dist_support_DATA = docs/support/README.md
examplesdir = $(docdir)/docs/examples
dist_examples_DATA = docs/examples/cache.c
EXTRA_DIST += docs/internals docs/performance docs/support
