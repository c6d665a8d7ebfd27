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
