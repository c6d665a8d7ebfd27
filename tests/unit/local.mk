# SPDX-License-Identifier: BSD-3-Clause
# Unit tests: one program for each module, of its check_MODULE.c, linked with the stand-ins and the
# layers below the interception. A new one is one line of this list.
UNIT_CHECKS = \
	tests/unit/check_base \
	tests/unit/check_config \
	tests/unit/check_domain \
	tests/unit/check_expected \
	tests/unit/check_dma_buf \
	tests/unit/check_errors \
	tests/unit/check_exports \
	tests/unit/check_findings \
	tests/unit/check_forks \
	tests/unit/check_identity \
	tests/unit/check_hit_races \
	tests/unit/check_hit_steps \
	tests/unit/check_hits \
	tests/unit/check_snapshot \
	tests/unit/check_keep \
	tests/unit/check_keep_pools \
	tests/unit/check_kept \
	tests/unit/check_log \
	tests/unit/check_messages \
	tests/unit/check_methods \
	tests/unit/check_pinning \
	tests/unit/check_states \
	tests/unit/check_statistics \
	tests/unit/check_table \
	tests/unit/check_topology \
	tests/unit/check_trace \
	tests/unit/check_memory \
	tests/unit/check_observe \
	tests/unit/check_registration \
	tests/unit/check_verbs_evict \
	tests/unit/check_worker_rests
if HAVE_CHECK
check_PROGRAMS += $(UNIT_CHECKS)
TESTS += $(UNIT_CHECKS)
endif
unit_ldadd = src/libcore.la $(CHECK_LIBS) -lpthread
unit_cflags = $(AM_CFLAGS) $(CHECK_CFLAGS)
unit_objects = $(UNIT_CHECKS:=.$(OBJEXT))
$(unit_objects): AM_CFLAGS += $(CHECK_CFLAGS)
$(UNIT_CHECKS): LDADD = tests/unit/libstandin.la $(unit_ldadd)
$(UNIT_CHECKS): tests/unit/libstandin.la src/libcore.la

noinst_LTLIBRARIES += tests/unit/libstandin.la
tests_unit_libstandin_la_SOURCES = tests/unit/standin.h tests/unit/standin.c tests/unit/standin_adapter.c
EXTRA_DIST += tests/unit/suite.h tests/unit/contexts_fixture.h tests/unit/forbid.h tests/unit/hits_fixture.h tests/unit/job_fixture.h tests/unit/keep_fixture.h tests/unit/pinning_fixture.h \
	tests/unit/registration_fixture.h tests/unit/sysfs_fixture.h tests/forks.h tests/worker_thread.h tests/sleeps.h tests/pointer_attributes.h tests/vmm.h

# Linked without the stand-ins: these tests define functions of the layers themselves.
tests_unit_check_snapshot_LDADD = $(unit_ldadd)
tests_unit_check_trace_LDADD = $(unit_ldadd)
# It calls no stand-in; the layer that it tests needs them.
tests_unit_check_table_LDFLAGS = -Wl,-u,memory_hook
# It loads an object that is linked above the addresses where it is loaded.
tests_unit_check_forks_LDADD = tests/unit/libstandin.la $(unit_ldadd)
EXTRA_tests_unit_check_forks_DEPENDENCIES = tests/intercept/liblookup.la
tests_unit_check_verbs_evict_SOURCES = tests/unit/check_verbs_evict.c src/intercept/verbs_evict.c
tests_unit_check_verbs_evict_CFLAGS = $(unit_cflags)
tests_unit_check_verbs_evict_LDADD = $(unit_ldadd)
# The rows.
EXTRA_DIST += tests/unit/states
tests_unit_check_states_CPPFLAGS = $(AM_CPPFLAGS) -DSTATES='"$(abs_top_srcdir)/tests/unit/states"'
tests_unit_check_states_CFLAGS = $(unit_cflags)
# Its pthread_create overrides libc's for dlsym too.
tests_unit_check_messages_LDFLAGS = -rdynamic
