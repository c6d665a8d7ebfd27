# SPDX-License-Identifier: BSD-3-Clause
bin_SCRIPTS += scripts/peerpin
pkglibexec_SCRIPTS = src/tools/peerpin-site
CLEANFILES += scripts/peerpin scripts/settings scripts/completion

# From the table of settings, as in the library.
scripts/settings: $(srcdir)/scripts/settings.in $(srcdir)/src/base/config.def
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(CC) -E -P -x c -I$(srcdir)/src $(srcdir)/scripts/settings.in >$@.tmp && \
	tr '\n' ' ' <$@.tmp | tr '@' '\n' >$@ && rm $@.tmp
scripts/peerpin: scripts/peerpin.sh scripts/settings $(srcdir)/scripts/settings.awk
	$(AM_V_GEN)awk -f $(srcdir)/scripts/settings.awk scripts/settings scripts/peerpin.sh >$@.tmp && \
	chmod +x $@.tmp && mv $@.tmp $@
scripts/completion: $(srcdir)/scripts/completion.in scripts/settings $(srcdir)/scripts/settings.awk
	$(AM_V_GEN)awk -f $(srcdir)/scripts/settings.awk scripts/settings $(srcdir)/scripts/completion.in >$@
# bash finds it here by the name of the command.
completiondir = $(datadir)/bash-completion/completions
install-data-local: scripts/completion
	$(MKDIR_P) $(DESTDIR)$(completiondir)
	$(INSTALL_DATA) scripts/completion $(DESTDIR)$(completiondir)/peerpin
uninstall-local:
	rm -f $(DESTDIR)$(completiondir)/peerpin
all-local: scripts/completion
EXTRA_DIST += scripts/settings.in scripts/settings.awk scripts/completion.in
EXTRA_DIST += scripts/install-packages scripts/build scripts/demo scripts/test scripts/support .ci/run

launcher_checks = tests/launcher/check_peerpin.sh tests/launcher/check_launchers.sh \
	tests/launcher/check_programs.sh tests/launcher/check_settings.sh tests/launcher/check_completion.sh \
	tests/launcher/check_inert.sh tests/launcher/check_packages.sh tests/launcher/check_demo.sh tests/launcher/check_pages.sh
# These preload the library into programs that were built without a sanitizer.
if !SANITIZER
check_SCRIPTS += $(launcher_checks)
TESTS += $(launcher_checks)
check_PROGRAMS += tests/launcher/inert_cost
tests_launcher_inert_cost_SOURCES = tests/launcher/inert_cost.c
check_LTLIBRARIES += tests/launcher/demo_faults.la
tests_launcher_demo_faults_la_SOURCES = tests/launcher/demo_faults.c
tests_launcher_demo_faults_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
tests_launcher_demo_faults_la_LIBADD = -ldl
check_DATA += tests/launcher/empty.so
tests/launcher/empty.so:
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && echo 'int empty;' | $(CC) $(CFLAGS) -shared -fPIC -x c -o $@ -
CLEANFILES += tests/launcher/empty.so
endif
EXTRA_DIST += tests/launcher/checks tests/launcher/command $(launcher_checks)
