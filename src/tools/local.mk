# SPDX-License-Identifier: BSD-3-Clause
# The subcommands of peerpin that are programs of their own: peerpin-NAME in $(pkglibexecdir), found by scripts/peerpin.
# They read the library's files, and may link libraries that the library may not.

# Static properties of a program, from its ELF files.
tools_program_files = src/tools/program_file.h src/tools/program_file.c src/tools/elf_file.h src/tools/elf_file.c

# Built with --disable-tools, too: scripts/peerpin requires it. Its --json is omitted then.
pkglibexec_PROGRAMS += src/tools/peerpin-config
src_tools_peerpin_config_SOURCES = src/tools/config.h src/tools/config.c src/tools/config_settings.c \
	src/tools/config_print.c src/tools/inspect.c src/tools/units.c src/tools/units.h \
	$(tools_program_files)
src_tools_peerpin_config_LDADD = src/libcore.la -lpthread
if HAVE_JANSSON
src_tools_peerpin_config_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) -DWITH_JANSSON
src_tools_peerpin_config_LDADD += $(TOOLS_JANSSON_LIBS)
else
src_tools_peerpin_config_CPPFLAGS = $(AM_CPPFLAGS)
endif
# Records of ended processes: reading and merging.
tools_records = src/tools/records.h src/tools/records.c \
	src/tools/rows.h src/tools/rows.c src/tools/metrics.def \
	src/tools/units.h src/tools/units.c src/tools/options.h src/tools/options.c

# Records as jobs, with their hints.
tools_jobs = src/tools/jobs.h src/tools/jobs.c src/tools/findings.def src/tools/findings.h src/tools/findings.c src/tools/hints.def

include src/tools/doctor/local.mk
EXTRA_DIST += src/tools/page.html src/tools/page.css
if HAVE_JANSSON
pkglibexec_PROGRAMS += src/tools/peerpin-report
src_tools_peerpin_report_SOURCES = $(tools_records) \
	$(tools_jobs) src/tools/advice.def src/tools/advice.c $(tools_program_files) \
	src/tools/report_json.c src/tools/report_forms.h src/tools/report_text.c \
	src/tools/observed.h src/tools/observed_read.c src/tools/observed_judge.c src/tools/observed_print.c \
	src/tools/report_prometheus.c src/tools/output_file.h src/tools/output_file.c src/tools/report_html.c src/tools/report.c
src_tools_peerpin_report_CPPFLAGS = $(AM_CPPFLAGS) -DTOOLS_DATADIR='"$(pkgdatadir)"'
src_tools_peerpin_report_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
src_tools_peerpin_report_LDADD = src/libcore.la $(TOOLS_JANSSON_LIBS) -lm

pkglibexec_PROGRAMS += src/tools/peerpin-top
src_tools_peerpin_top_SOURCES = $(tools_records) $(tools_jobs) src/tools/top.h src/tools/top.c src/tools/top_rows.c \
	src/tools/top_terminal.c
src_tools_peerpin_top_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
src_tools_peerpin_top_LDADD = src/libcore.la $(TOOLS_JANSSON_LIBS) -lm

# Found beside the program while it lies in the build folder, in $(pkgdatadir) afterwards.
nodist_pkgdata_DATA = src/tools/report_page.html
src/tools/report_page.html: $(top_srcdir)/src/tools/page.html $(top_srcdir)/src/tools/page.css
	$(AM_V_GEN)$(MKDIR_P) $(@D) && sed -e '/PAGE_CSS/{r $(top_srcdir)/src/tools/page.css' -e 'd;}' $(top_srcdir)/src/tools/page.html >$@
CLEANFILES += src/tools/report_page.html
if HAVE_CHART_JS
nodist_pkgdata_DATA += src/tools/chart.min.js
src/tools/chart.min.js: $(CHART_JS)
	$(AM_V_GEN)$(MKDIR_P) $(@D) && cp $(CHART_JS) $@ && chmod u+w $@
CLEANFILES += src/tools/chart.min.js
endif
endif
