# SPDX-License-Identifier: BSD-3-Clause
# The subcommands of peerpin that are programs of their own: peerpin-NAME in $(pkglibexecdir), found by scripts/peerpin.
# They read what the library leaves, and may link what the library may not.

# Built without jansson, too: the command asks it. Only its --json is left out then.
pkglibexec_PROGRAMS += src/tools/peerpin-config
src_tools_peerpin_config_SOURCES = src/tools/config.h src/tools/config.c src/tools/config_settings.c \
	src/tools/config_print.c src/tools/config_json.c src/tools/inspect.c
src_tools_peerpin_config_LDADD = src/libcore.la -lpthread
if HAVE_JANSSON
src_tools_peerpin_config_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) -DWITH_JANSSON
src_tools_peerpin_config_LDADD += $(JANSSON_STATIC_LIBS)
endif
include src/tools/doctor/readers.mk
include src/tools/doctor/local.mk
