# SPDX-License-Identifier: BSD-3-Clause
# The simulated adapter's data plane. A new program is one line of this list.
PLANE_CHECKS = \
	tests/plane/check_queues
if HAVE_VERBS
if HAVE_CHECK
check_PROGRAMS += $(PLANE_CHECKS)
TESTS += $(PLANE_CHECKS)
check_LTLIBRARIES += tests/plane/libobjects.la
endif
endif
$(PLANE_CHECKS): LDADD = tests/plane/libobjects.la $(CHECK_LIBS) -lpthread -ldl
$(PLANE_CHECKS): tests/plane/libobjects.la
plane_objects = $(PLANE_CHECKS:=.$(OBJEXT))
$(plane_objects): AM_CFLAGS += $(CHECK_CFLAGS)

# Objects of verbs, without queue pairs.
tests_plane_libobjects_la_SOURCES = tests/plane/plane_fixture.h tests/plane/plane_fixture.c \
	src/sim/plane/context.h src/sim/plane/plane.h \
	src/sim/plane/address.c src/sim/plane/attributes.c src/sim/plane/channel.c src/sim/plane/context.c \
	src/sim/plane/events.c src/sim/plane/names.c src/sim/plane/queue.c src/sim/plane/waiter.c
tests_plane_libobjects_la_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)

# Symbols of the simulated libibverbs and of the stubs; files that the preload shows.
plane_scripts = tests/plane/check_files.sh tests/plane/check_symbols.sh
EXTRA_DIST += $(plane_scripts)
if !SANITIZER
check_PROGRAMS += tests/plane/files
tests_plane_files_SOURCES = tests/plane/files.c
tests_plane_files_LDADD = -ldl
TESTS += tests/plane/check_files.sh
if HAVE_VERBS
TESTS += tests/plane/check_symbols.sh
endif
endif
