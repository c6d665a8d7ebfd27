# SPDX-License-Identifier: BSD-3-Clause
# doctor's live readers, and what keeps readings: also a part of their test.
doctor_readers = \
	src/tools/doctor/child.h src/tools/doctor/child.c src/tools/doctor/calls.h src/tools/doctor/calls.c \
	src/tools/doctor/driver.c src/tools/doctor/verbs.c src/tools/doctor/probe.c src/tools/doctor/rc_abi.h \
	src/tools/doctor/program.c \
	$(tools_program_files) \
	src/tools/doctor/libraries.h src/tools/doctor/libraries.c
doctor_host = \
	src/tools/doctor/host.h src/tools/doctor/host.c \
	src/tools/doctor/live.c src/tools/doctor/record.c
doctor_libraries = src/libcore.la $(TOOLS_JANSSON_LIBS) -lm -ldl
doctor_cppflags = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) -DDOCDIR='"$(docdir)"'

# peerpin doctor: readings of the machine (host.h), checks over them (checks.h), and their output forms.
doctor_rules = \
	src/tools/doctor/rules/kernel.def src/tools/doctor/rules/gpu.def src/tools/doctor/rules/rdma.def \
	src/tools/doctor/rules/limits.def src/tools/doctor/rules/path.def src/tools/doctor/rules/probe.def \
	src/tools/doctor/rules/software.def src/tools/doctor/rules/program.def
if HAVE_JANSSON
pkglibexec_PROGRAMS += src/tools/peerpin-doctor
src_tools_peerpin_doctor_SOURCES = $(doctor_host) $(doctor_readers) \
	src/tools/doctor/machine.h src/tools/doctor/machine.c src/tools/doctor/methods.c \
	src/tools/doctor/checks.h src/tools/doctor/doctor_checks.def src/tools/doctor/finding.c \
	src/tools/doctor/rules.h src/tools/doctor/rules.c src/tools/doctor/values.c src/tools/doctor/readings.def src/tools/doctor/words.def \
	src/tools/doctor/facts.def src/tools/doctor/facts.c $(doctor_rules) \
	src/tools/doctor/checks_probe.c src/tools/doctor/checks_settings.c src/tools/doctor/checks_log.c \
	src/tools/doctor/conclusion.c \
	src/tools/doctor/print.c src/tools/doctor/costs.c src/tools/doctor/merge.c src/tools/doctor/json.c $(tools_records) src/tools/output_file.h src/tools/output_file.c src/tools/doctor/doctor.c
src_tools_peerpin_doctor_CPPFLAGS = $(doctor_cppflags)
src_tools_peerpin_doctor_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
src_tools_peerpin_doctor_LDADD = $(doctor_libraries)
endif
