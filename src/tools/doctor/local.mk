# SPDX-License-Identifier: BSD-3-Clause
# peerpin doctor: readings of the machine (host.h), checks over them (checks.h), and their ways out.
if HAVE_JANSSON
pkglibexec_PROGRAMS += src/tools/peerpin-doctor
src_tools_peerpin_doctor_SOURCES = \
	src/tools/doctor/host.h \
	src/tools/doctor/checks.h src/tools/doctor/doctor_checks.def \
	src/tools/doctor/doctor.c
src_tools_peerpin_doctor_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
src_tools_peerpin_doctor_LDADD = $(JANSSON_STATIC_LIBS)
endif
